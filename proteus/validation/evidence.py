"""Everything that the page on accuracy needs, from one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proteus.validation.case import case_of
from proteus.validation.document import Evidence
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import PLAIN, Options, result_of
from proteus.validation.validate import validate
from proteus.validation.warm import warm_scores

#: rows whose ladder is told
NUM_WORST = 20
#: the ablation of the paper (arXiv 2306.02267, figure 9), and a simulator without a timeline
ABLATION = {
    "sharing off": Options(sharing=False),
    "overlap off": Options(overlap=False),
    "both off": Options(sharing=False, overlap=False),
    "analytic (Paleo)": Options(analytic=True),
}


def gather(runs: Sequence[Run], *, workers: int | None, tell: Callable[[str], None]) -> Evidence:
    """Score `runs` cold, warm and with parts switched off; the benchmarks beside them."""
    tell(f"{len(runs)} runs, cold")
    cold = validate(runs, workers=workers)
    tell("warm")
    warm = warm_scores(runs, cold, PLAIN, workers=workers)
    timed = [run for run in runs if run.step_time_s is not None]
    ablation = {}
    for name, options in ABLATION.items():
        tell(name)
        ablation[name] = validate(timed, options, workers=workers)
    tell("benchmarks of named models")
    classic = validate(shipped_runs("classic"), workers=workers)
    tell("runs collected later")
    later_runs = shipped_runs("later")
    later = validate(later_runs, workers=workers)
    later_warm = warm_scores(later_runs, later, PLAIN, workers=workers)
    by_id = {run.id: run for run in runs}
    worst = sorted((s for s in cold if s.time_error is not None), key=lambda s: -abs(s.time_error or 0.0))
    ladders = {score.id: ladder(by_id[score.id]) for score in worst[:NUM_WORST]}
    return Evidence(
        runs=runs,
        cold=cold,
        warm=warm,
        later_runs=later_runs,
        later=later,
        later_warm=later_warm,
        classic=classic,
        ablation=ablation,
        ladders=ladders,
    )


def ladder(run: Run) -> str:
    """Where the predicted step of a run goes, in a line."""
    result = result_of(case_of(run))
    weights = [device.multiplicity for device in result.devices]

    def mean(values: Sequence[float]) -> float:
        return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights) / result.step_time_s

    parts = {"compute": mean([d.busy_s for d in result.devices]), "bubble": result.bubble_fraction}
    parts |= {kind: time_s / result.step_time_s for kind, time_s in result.exposed_comm_s.items()}
    parts["host"] = mean([d.host_s for d in result.devices])
    shares = [f"{name} {100 * share:.0f} %" for name, share in parts.items() if share >= 0.005]
    return "predicted: " + ", ".join(shares)
