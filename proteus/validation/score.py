"""One run simulated beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import proteus as pt
from proteus.calibration import Constants
from proteus.errors import ProteusError
from proteus.validation.case import Case, case_of
from proteus.validation.classic import as_clocked
from proteus.validation.paleo import paleo_step_s
from proteus.validation.runs import Run

#: statuses of a row
SCORED, NOT_EXPRESSIBLE, NO_MEASUREMENT = "scored", "not_expressible", "no_measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to simulate; the ablations of the paper switch parts off.

    Parameters
    ----------
    analytic
        The yardstick of :mod:`proteus.validation.paleo` instead of a simulation.
    constants
        What a measured run of the same table said of the cluster.
    """

    sharing: bool = True
    overlap: bool = True
    analytic: bool = False
    constants: Constants | None = None


#: everything on
PLAIN = Options()


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A row of the answer.

    Parameters
    ----------
    status
        ``scored``; ``not_expressible``: the run cannot be said (`reason`);
        ``no_measurement``: it says nothing to compare with.
    step_time_low_s, step_time_high_s
        Ends of the band that holds four of five measured times.
    reserve_bytes
        What the runtime takes beside the tensors (context, communicators).
    memory_is_exact
        Whether the measured peak is the allocator's own count.
    assumed
        What the run did not say, and what stood in.
    unsure
        The parts of the band's width: ``parts`` of
        :class:`~proteus.result.band.Band`.
    """

    id: str
    table_id: str
    status: str
    reason: str = ""
    step_time_s: float | None = None
    step_time_low_s: float | None = None
    step_time_high_s: float | None = None
    measured_step_time_s: float | None = None
    fits: bool | None = None
    measured_fits: bool | None = None
    peak_memory_bytes: float | None = None
    measured_peak_memory_bytes: float | None = None
    reserve_bytes: float | None = None
    memory_is_exact: bool = False
    num_gpus: int | None = None
    global_batch: int | None = None
    strategy: str = ""
    assumed: tuple[str, ...] = ()
    unsure: Mapping[str, float] = field(default_factory=dict)

    @property
    def time_error(self) -> float | None:
        """Predicted over measured step time, less 1."""
        if self.status != SCORED or not self.step_time_s or not self.measured_step_time_s:
            return None
        return self.step_time_s / self.measured_step_time_s - 1.0

    @property
    def is_in_band(self) -> bool | None:
        """Whether the measured step time lies in the band; None where there is no band or no measurement."""
        if self.time_error is None or self.step_time_low_s is None or self.step_time_high_s is None:
            return None
        assert self.measured_step_time_s is not None
        return self.step_time_low_s <= self.measured_step_time_s <= self.step_time_high_s

    def cost_s(self, step_time_s: float | None) -> float:
        """GPU seconds of one sample: the inverse of what tables rank by, throughput per GPU."""
        return (step_time_s or 0.0) * (self.num_gpus or 1) / (self.global_batch or 1)

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured peak memory, less 1; None where the measurement is not the allocator's."""
        if self.status != SCORED or not self.memory_is_exact:
            return None
        if not self.peak_memory_bytes or not self.measured_peak_memory_bytes:
            return None
        return self.peak_memory_bytes / self.measured_peak_memory_bytes - 1.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score_run(run: Run, options: Options = PLAIN) -> Score:
    """Simulate a run; what cannot be expressed says why."""
    if run.kind == "classic":
        run = as_clocked(run)
    measured = Score(
        id=run.id,
        table_id=run.table_id,
        status=SCORED,
        measured_step_time_s=run.step_time_s,
        measured_fits={"ok": True, "oom": False}.get(run.outcome),
        measured_peak_memory_bytes=run.peak_memory_bytes,
        memory_is_exact=run.memory_is_exact,
        num_gpus=run.num_gpus,
        global_batch=run.global_batch,
        strategy=strategy_text(run),
    )
    reason = without_measurement(run)
    if reason is not None:
        return replace(measured, status=NO_MEASUREMENT, reason=reason)
    try:
        case = case_of(run)
        if options.analytic:
            return replace(measured, step_time_s=paleo_step_s(case.tree, case.cluster))
        result = result_of(case, options)
    except ProteusError as error:
        return replace(measured, status=NOT_EXPRESSIBLE, reason=str(error).split("\n", 1)[0])
    return replace(
        measured,
        step_time_s=result.step_time_s,
        step_time_low_s=result.step_time_band.low_s,
        step_time_high_s=result.step_time_band.high_s,
        fits=result.fits,
        peak_memory_bytes=result.peak_memory_bytes,
        reserve_bytes=max(steps.reserve_bytes for steps in result.memory_over_time.values()),
        assumed=case.assumed,
        unsure=result.step_time_band.parts,
    )


def without_measurement(run: Run) -> str | None:
    """Why there is nothing to compare with; None where there is."""
    if run.outcome == "error":
        return "the run failed for a reason other than memory"
    if run.rate_counts and run.step_time_s is not None:
        return f"the rate counts {run.rate_counts} and not all that the step computes"
    if run.kind == "classic" and run.step_time_s is None:
        return "no time per step follows from what is stated"
    return None


def command_of(run: Run) -> tuple[str | None, str]:
    """(command line that asks the same, why there is none)."""
    reason = without_measurement(run)
    if reason is not None:
        return None, reason
    try:
        return case_of(run).command, ""
    except ProteusError as error:
        return None, str(error).split("\n", 1)[0]


def result_of(case: Case, options: Options = PLAIN) -> pt.Result:
    """The simulation of a case."""
    calibration = options.constants.calibration() if options.constants is not None else None
    return pt.simulate(
        case.tree, case.cluster, sharing=options.sharing, overlap=options.overlap, calibration=calibration
    )


def strategy_text(run: Run) -> str:
    """The strategy in a few words.

    >>> strategy_text(Run(id="1", table_id="t", kind="llm", dp=4, tp=2, pp=1, micro_batch=1, recompute="full"))
    'dp4 tp2 mb1 full'
    """
    degrees = [f"{name}{value}" for name in ("dp", "tp", "pp", "cp", "ep") if (value := getattr(run, name) or 1) > 1]
    more = [f"v{run.virtual_stages}"] if (run.virtual_stages or 1) > 1 else []
    more += [f"mb{run.micro_batch}"] if run.micro_batch else []
    more += ["sp"] if run.sequence_parallel else []
    more += [text for text in (run.recompute, run.schedule, run.attention) if text not in ("", "none", "true", "false")]
    return " ".join(degrees + more)
