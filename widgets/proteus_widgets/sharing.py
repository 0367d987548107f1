"""Who uses the links, and when: link use at a moment, and what every flow gets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from proteus.htae.usage import FlowPieces, flow_pieces
from proteus.result.spans import SpanKind
from proteus.units import format_seconds
from proteus_widgets.palette import LOOKS

if TYPE_CHECKING:
    from proteus.result.result import Result

#: lines of the table under the picture that names who uses a link
MAX_FLOWS = 5
GB = 1e9
#: rates closer than this share are one rate to a reader
SAME_RATE = 0.01


@dataclass(frozen=True)
class Sharing:
    """How the links of a result are shared.

    The pieces of constant rate are only laid out once somebody asks.
    """

    result: Result

    @cached_property
    def _pieces(self) -> FlowPieces:
        return flow_pieces(self.result.graph.tasks, self.result.timeline)

    def _running(self, time_s: float) -> np.ndarray:
        """Rows of the pieces that run at a time."""
        return np.flatnonzero((self._pieces.start_s <= time_s) & (time_s < self._pieces.end_s))

    def use_at(self, time_s: float) -> np.ndarray:
        """float64[links of the cluster]: share of its capacity that each link carries at a moment."""
        tasks, folding, cluster = self.result.graph.tasks, self.result.graph.folding, self.result.cluster
        running = self._running(time_s)
        pattern = tasks.pattern[self._pieces.task[running]]
        rate_Bps = np.bincount(pattern, self._pieces.rate_Bps[running], minlength=len(tasks.pattern_cap_Bps))
        per_row = np.repeat(rate_Bps, np.diff(tasks.pattern_ptr)) * tasks.pattern_count
        per_class = np.bincount(tasks.pattern_link, per_row, minlength=len(tasks.link_capacity_Bps))
        used = np.zeros(cluster.num_links)
        used[folding.links] = per_class[folding.link_class] / cluster.link_capacity_Bps[folding.links]
        return used

    def _flows(self, link: int) -> np.ndarray:
        """float64[patterns]: flows that one task of each pattern sends over a link of the cluster."""
        tasks, folding = self.result.graph.tasks, self.result.graph.folding
        flows = np.zeros(len(tasks.pattern_cap_Bps))
        at = int(np.searchsorted(folding.links, link))
        if at < len(folding.links) and folding.links[at] == link:
            here = tasks.pattern_link == folding.link_class[at]
            row = np.repeat(np.arange(len(flows)), np.diff(tasks.pattern_ptr))
            np.add.at(flows, row[here], tasks.pattern_count[here])
        return flows

    def describe(self, link: int, time_s: float | None = None) -> list[str]:
        """Who uses `link`, and how much every flow gets: over the step, or at one moment.

        The first line names the link; the others are operations, those with
        most time (or bandwidth) first.
        """
        cluster = self.result.cluster
        a, b = cluster.link_ends(link)
        share = float(self.result.link_utilisation[link] if time_s is None else self.use_at(time_s)[link])
        when = "" if time_s is None else f" at {format_seconds(time_s)}"
        head = f"{a} → {b} · {cluster.link_capacity_Bps[link] / GB:.4g} GB/s · {share:.1%} used{when}"
        flows = self._flows(link)
        if not flows.any():
            return [head, "no operation crosses it"]
        lines = self._over_the_step(flows) if time_s is None else self._at(flows, time_s)
        return [head, *(lines or ["nothing crosses it now"])]

    def _over_the_step(self, flows: np.ndarray) -> list[str]:
        line, pieces = self.result.timeline, self._pieces
        operation = self._operations(flows)
        lasts_s = line.end_s - line.start_s
        keys = np.unique(operation[operation >= 0])
        total_s = {int(key): float(lasts_s[operation == key].sum()) for key in keys}
        lines = []
        for key in sorted(total_s, key=lambda key: -total_s[key])[:MAX_FLOWS]:
            rows = operation[pieces.task] == key
            rates = _rates(pieces.rate_Bps[rows], (pieces.end_s - pieces.start_s)[rows])
            count = int((operation == key).sum())
            lines.append(f"{self._name(key)}: {count:,} ×, {format_seconds(total_s[key])} together{rates}")
        return lines

    def _at(self, flows: np.ndarray, time_s: float) -> list[str]:
        running = self._running(time_s)
        task, rate_Bps = self._pieces.task[running], self._pieces.rate_Bps[running]
        operation = self._operations(flows)[task]
        number = flows[self.result.graph.tasks.pattern[task]]
        lines: list[tuple[float, str]] = []
        for key in np.unique(operation[operation >= 0]).tolist():
            mine = operation == key
            count = int(number[mine].sum())
            text = (
                f"{self._name(key)}: {count} {'flow' if count == 1 else 'flows'}{_rates(rate_Bps[mine], number[mine])}"
            )
            lines.append((-float((number[mine] * rate_Bps[mine]).sum()), text))
        return [text for _, text in sorted(lines)[:MAX_FLOWS]]

    def _operations(self, flows: np.ndarray) -> np.ndarray:
        """int64[tasks]: the operation that each task is, by name and kind; -1 where it does not cross the link.

        A send and its receipt are one task with two spans: it goes by the first.
        """
        spans = self.result.spans
        crosses = np.flatnonzero((spans.pattern >= 0) & (flows[np.maximum(spans.pattern, 0)] > 0))[::-1]
        operation_of_task = np.full(self.result.graph.tasks.num_tasks, -1, np.int64)
        operation_of_task[spans.task[crosses]] = (
            spans.name_id[crosses].astype(np.int64) * len(SpanKind) + spans.kind[crosses]
        )
        return operation_of_task

    def _name(self, key: int) -> str:
        name, kind = divmod(key, len(SpanKind))
        return f"{self.result.spans.names[name]} ({LOOKS[SpanKind(kind)].label})"


def _rates(rate_Bps: np.ndarray, weight: np.ndarray) -> str:
    """What a flow gets, in words: the mean, and the range where it is not one rate."""
    if not len(rate_Bps) or not weight.sum() > 0:
        return ""
    mean = float((rate_Bps * weight).sum() / weight.sum())
    low, high = float(rate_Bps.min()), float(rate_Bps.max())
    span = f" ({low / GB:.3g} to {high / GB:.3g})" if high - low > SAME_RATE * mean else ""
    return f" · each flow gets {mean / GB:.3g} GB/s{span}"
