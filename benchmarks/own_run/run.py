"""Train on this machine and predict it: ``python -m benchmarks.own_run.run``.

Ops and links are measured first, then every case is simulated and really
trained.  ``--write docs/own-run.md`` puts the table into the page.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import proteus as pt
from benchmarks.own_run import nets
from benchmarks.own_run.train import BUCKET_BYTES, Case, Steps, made, train
from proteus.files import atomic_write
from proteus.profiling import MeasuredMachine, profile
from proteus.profiling import load as load_machine
from proteus.profiling.processes import Setting

NUM_RANKS = 2
CASES = (
    Case(net="transformer", how="alone", batch=4),
    Case(net="transformer", how="ddp", batch=4),
    Case(net="transformer", how="tp", batch=4),
    Case(net="cnn", how="alone", batch=16),
    Case(net="cnn", how="ddp", batch=16),
)
WORDS = {"alone": "2 processes, nothing shared", "ddp": "data parallel (DDP)", "tp": "tensor parallel"}
#: a step counts as quiet when its threads waited less than this share of it for a core
QUIET_SHARE, MIN_QUIET = 0.05, 10
START, END = "<!-- table -->", "<!-- end of table -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A case.

    Parameters
    ----------
    predicted_s, measured_s
        Step time [s].
    median_all_s
        Median wall time of all steps [s].
    steps, of_steps
        How many steps `measured_s` is the median of.
    waiting
        What threads waited for a core in those, as share of their wall time.
    is_quiet
        Whether `measured_s` is free of what other programs did.
    """

    net: str
    how: str
    predicted_s: float
    measured_s: float
    median_all_s: float
    steps: int
    of_steps: int
    waiting: float
    is_quiet: bool

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1.0


def tree_of(case: Case) -> pt.StrategyTree:
    """The strategy of a case, in Proteus."""
    model = nets.transformer_model() if case.net == "transformer" else nets.cnn_model()
    dp, tp = (NUM_RANKS if case.how == way else 1 for way in ("ddp", "tp"))
    return pt.StrategyTree(model).parallelize(
        dp=dp, tp=tp, micro_batch=case.batch, global_batch=case.batch * dp, precision="fp32", optimizer="adam",
        framework="ddp, optimizer_kernels=fused", bucket_bytes=BUCKET_BYTES,
    )  # fmt: skip


def check_equal(case: Case) -> None:
    """The network that is trained has the parameters of the one that is simulated."""
    module, _ = made(Case(net=case.net, how="alone", batch=1), 1, 0, torch.device("cpu"))
    real, model = sum(p.numel() for p in module.parameters()), tree_of(case).model.num_params
    assert real == model, f"{case.net}: {real} parameters are trained, {model} simulated"


def chosen(case: Case, steps: Steps) -> tuple[list[tuple[float, float]], bool]:
    """(time, waiting) of the steps that count, and whether nothing disturbed them.

    A process that trains by itself is timed without what it waited for a core.
    Where processes wait for each other that cannot be taken out, so the quiet
    steps count; where there are too few, the tenth that waited least.
    """
    rows = sorted(zip(steps.wall_s, steps.waiting, strict=True), key=lambda row: row[1])
    if case.how == "alone":
        return [(own_s, 0.0) for own_s in steps.own_s], True
    calm = [row for row in rows if row[1] <= QUIET_SHARE]
    if len(calm) >= MIN_QUIET:
        return calm, True
    return rows[: max(len(rows) // 10, 3)], False


def run_case(case: Case, machine: MeasuredMachine, setting: Setting, seconds: float) -> Row:
    """Simulate a case and train it."""
    result = pt.simulate(tree_of(case), machine.cluster(), calibration=machine.calibration)
    steps = train(case, setting, seconds)
    taken, is_quiet = chosen(case, steps)
    return Row(
        net=case.net,
        how=case.how,
        predicted_s=result.step_time_s,
        measured_s=statistics.median(row[0] for row in taken),
        median_all_s=statistics.median(steps.wall_s),
        steps=len(taken),
        of_steps=len(steps.wall_s),
        waiting=statistics.median(row[1] for row in taken),
        is_quiet=is_quiet,
    )


def table(rows: Sequence[Row], machine: MeasuredMachine, load: float) -> str:
    """The rows as a Markdown table, and what they were measured on."""
    lines = [
        "| network | spread | predicted | measured | error | steps taken | waiting in them | median of all steps |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [_line(row) for row in rows]
    errors = [abs(r.error) for r in rows if r.is_quiet]
    about = machine.about
    summary = (
        f"Absolute error of the {len(errors)} undisturbed rows: median {statistics.median(errors):.1%}, mean "
        f"{statistics.mean(errors):.1%}, largest {max(errors):.1%}."
        if errors
        else "Other programs disturbed every row."
    )
    lines += [
        "",
        f"{summary} {machine.name}, {len(os.sched_getaffinity(0))} cores, {about['threads of each process']} "
        f"thread per process, torch {about['torch']}, {about['backend']}; load average when it began {load:.1f}.",
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    note = "" if row.is_quiet else " (disturbed)"
    cells = (
        row.net,
        WORDS[row.how],
        f"{row.predicted_s * 1e3:.1f} ms",
        f"{row.measured_s * 1e3:.1f} ms",
        f"{row.error:+.1%}{note}",
        f"{row.steps} of {row.of_steps}",
        f"{row.waiting:.0%}",
        f"{row.median_all_s * 1e3:.1f} ms",
    )
    return f"| {' | '.join(cells)} |"


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    assert end, f"{page} lacks the marks {START} and {END}"
    with atomic_write(page) as temporary:
        temporary.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20.0, help="training time of each case (default 20)")
    parser.add_argument("--budget", type=float, default=0.3, help="time for each op and collective (default 0.3 s)")
    parser.add_argument("--machine", metavar="FILE", help="also save what was measured")
    parser.add_argument("--measured", metavar="FILE", help="take what was saved instead of measuring again")
    parser.add_argument("--only", metavar="SPREAD", choices=WORDS, help="only the cases that are spread so")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="put the table into this page")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    for case in CASES:
        check_equal(case)
    machine = (
        load_machine(options.measured)
        if options.measured
        else profile([tree_of(case) for case in CASES], budget_s=options.budget)
    )
    if options.machine:
        machine.save(options.machine)
    setting = Setting(
        num_ranks=NUM_RANKS,
        backend=machine.about["backend"],
        threads=int(machine.about["threads of each process"]),
        budget_s=options.budget,
    )
    cases = [case for case in CASES if options.only in (None, case.how)]
    rows = [run_case(case, machine, setting, options.seconds) for case in cases]
    text = table(rows, machine, load)
    if options.write:
        write_into(options.write, text)
    print(json.dumps({"rows": [asdict(r) | {"error": r.error} for r in rows], "load": load}) if options.json else text)


if __name__ == "__main__":
    main()
