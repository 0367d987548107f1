"""A measured run as a table to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proteus.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from proteus.traces.measured import Measured
    from proteus.traces.times import RankTimes

#: ranks, steps and warnings that are shown
_MOST_ROWS = 16
_MAX_NAME = 60


def table(measured: Measured) -> str:
    """Breakdown per rank and per step, the kernels that take longest, what is unknown, and the warnings."""
    size = f" of {measured.world_size}" if measured.world_size else ""
    gpus = sorted({rank.gpu for rank in measured.ranks if rank.gpu})
    lines = [f"{len(measured.ranks)}{size} ranks, {len(measured)} events{', ' + ', '.join(gpus) if gpus else ''}", ""]
    lines += _rows("rank", [(str(times.rank), times) for times in measured.times])
    if measured.step_times:
        lines += ["", f"per step (from {measured.steps_from}), of the rank's own window"]
        lines += _rows("step/rank", [(f"{step}/{times.rank}", times) for step, times in measured.step_times])
    late = stragglers(measured)
    if late:
        lines += ["", *late]
    first = measured.ranks[0].rank
    rows = [row for row in measured.collectives() if row["rank"] == first]
    if rows:
        lines += ["", f"communication of rank {first}, waiting for other ranks included"]
    for row in rows:
        rate = f"{format_bytes(row['bytes'])}, {row['Bps'] / 1e9:.3g} GB/s" if row["Bps"] else "size not recorded"
        of = f" of {row['group']}" if row["group"] else ""
        lines.append(f"  {format_seconds(row['total_s']):>9} {row['count']:>13} × {row['kind']}{of}: {rate}")
    for rank in measured.ranks[:1]:
        lines += ["", f"kernels of rank {rank.rank} that take longest"]
        for row in measured.top_operators(rank.rank):
            name = row["name"] if len(row["name"]) <= _MAX_NAME else row["name"][: _MAX_NAME - 3] + "..."
            share = f"{format_seconds(row['total_s']):>9} {row['fraction']:>6.1%}"
            lines.append(f"  {share} {row['count']:>6} × {row['kind']:<14} {name}")
    if measured.warnings:
        lines += ["", *(f"warning: {text}" for text in measured.warnings[:_MOST_ROWS])]
        if len(measured.warnings) > _MOST_ROWS:
            lines.append(f"and {len(measured.warnings) - _MOST_ROWS} more warnings (--json lists them)")
    return "\n".join(lines)


def _rows(title: str, rows: list[tuple[str, RankTimes]]) -> list[str]:
    parts = ("compute", "exposed comm", "copies", "idle", "host-bound")
    lines = [f"{title:<10}{'time':>10}" + "".join(f"{part:>18}" for part in parts) + f"{'comm hidden':>13}"]
    for name, times in rows[:_MOST_ROWS]:
        whole_s = times.window_s or 1.0
        values_s = (times.compute_s, times.exposed_comm_s, times.copy_s, times.idle_s, times.host_bound_s)
        cells = "".join(f"{format_seconds(value):>11} {value / whole_s:>6.1%}" for value in values_s)
        hidden = f"{times.overlapped_s / times.comm_s:.1%}" if times.comm_s else "-"
        lines.append(f"{name:<10}{format_seconds(times.window_s):>10}{cells}{hidden:>13}")
    if len(rows) > _MOST_ROWS:
        lines.append(f"and {len(rows) - _MOST_ROWS} more")
    return lines


def stragglers(measured: Measured) -> list[str]:
    """Who reaches collectives last, where the clocks of the ranks are aligned."""
    return [
        f"rank {row.rank} reaches {row.last} of {row.matched} matched collectives last; "
        f"the others wait {format_seconds(row.waited_s)} for it"
        for row in measured.late_arrivals()
        if row.last
    ]
