"""The result of a simulation: columns, and everything that is read from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proteus.arguments import A, FilePath, Maybe, Switch, Whole, takes
from proteus.cluster import Cluster
from proteus.compiler.graph import ExecutionGraph
from proteus.costs.ops import OpCosts
from proteus.errors import InputError
from proteus.htae import usage
from proteus.htae.tasks import Timeline
from proteus.htae.usage import Steps
from proteus.model.graph import Model
from proteus.progress import Progress
from proteus.result.band import Band, step_time_band
from proteus.result.headline import assumptions, headline, idle_warning
from proteus.result.memory import MemorySteps, NodeMemory, memory_by_node, memory_over_time
from proteus.result.metrics import DeviceTimes, DeviceUse, device_times, device_uses
from proteus.result.path import CriticalPath, critical_path
from proteus.result.spans import Spans
from proteus.result.switches import open_switches
from proteus.result.timeline import spans_of
from proteus.result.windows import Windows, windows
from proteus.strategy.frozen import training_flop
from proteus.strategy.plan import DecidedPlan
from proteus.strategy.tree import StrategyTree
from proteus.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from proteus.result.compare import Comparison
    from proteus.result.explain import Explanation
    from proteus.result.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What the simulation itself took, and how much it stood for."""

    compile_s: float
    simulate_s: float
    tasks: int
    tasks_run: int


class Result:
    """When everything ran, how much memory it took, and why.

    Parameters
    ----------
    graph
        The compiled strategy.
    timeline
        The engine's times.
    timings
        What the simulation took.
    """

    def __init__(self, graph: ExecutionGraph, timeline: Timeline, timings: Timings) -> None:
        self.graph = graph
        self.timeline = timeline
        self.timings = timings

    # -- what was simulated --------------------------------------------------

    @property
    def tree(self) -> StrategyTree:
        return self.graph.tree

    @property
    def cluster(self) -> Cluster:
        return self.graph.cluster

    @property
    def model(self) -> Model:
        return self.graph.tree.model

    @property
    def num_devices(self) -> int:
        return self.tree.num_devices

    # -- headline -------------------------------------------------------------

    @property
    def step_time_s(self) -> float:
        """Time of one training step among others [s]; the ranks of one may end at different times."""
        return self.windows.step_time_s

    @cached_property
    def windows(self) -> Windows:
        """When every class of ranks begins and ends the step."""
        return windows(self.graph, self.timeline)

    @cached_property
    def step_time_band(self) -> Band:
        """The range expected to hold 80 % of measured step times, and the main uncertainties.

        Where nobody named the framework, switches that matter are simulated
        both ways, which takes a few more simulations; see :attr:`kernel_band`.
        """
        switches = open_switches(self)
        return self.kernel_band.holding(switches, self.step_time_s) if switches else self.kernel_band

    @cached_property
    def kernel_band(self) -> Band:
        """The band by the errors of kernels, collectives, host and whole steps alone."""
        return step_time_band(self.graph, self.timeline, self.windows)

    @property
    def samples_per_s(self) -> float:
        return self.tree.training.global_batch / self.step_time_s if self.step_time_s else 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of all devices together; None for models without a sequence."""
        return self.samples_per_s * self.model.seq if self.model.seq > 1 else None

    @property
    def model_flop(self) -> float:
        """FLOP of one step by the usual convention: 3 × forward FLOPs, full attention, no recomputation.

        Gradients by weights that are not trained do not count.
        """
        return training_flop(self.tree) * self.tree.training.global_batch

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation (PaLM's MFU): `model_flop` over what the devices could have done."""
        peak = OpCosts(self.cluster.gpu()).peak(self._precision)
        return self.model_flop / (self.step_time_s * self.num_devices * peak) if self.step_time_s else 0.0

    @property
    def hfu(self) -> float:
        """Hardware FLOP utilisation: what was really computed, recomputation included."""
        peak = OpCosts(self.cluster.gpu()).peak(self._precision)
        done = 0.0
        for rank in self.graph.classes:
            plan = self.graph.plans[rank.plan]
            rows = self.graph.tasks.segment[rank.task_of[~plan.is_comm]]
            ptr = self.graph.tasks.segment_ptr
            flop = np.concatenate([[0.0], np.cumsum(self.graph.op_flop)])
            done += rank.multiplicity * float((flop[ptr[rows + 1]] - flop[ptr[rows]]).sum())
        return done / (self.step_time_s * self.num_devices * peak) if self.step_time_s else 0.0

    @property
    def _precision(self) -> str:
        name = self.tree.training.precision
        return name

    # -- time -----------------------------------------------------------------

    @cached_property
    def spans(self) -> Spans:
        """Spans of the simulated devices, sorted by (lane, start)."""
        return spans_of(self.graph, self.timeline)

    @cached_property
    def devices(self) -> tuple[DeviceTimes, ...]:
        """Busy, exposed, waiting and bubble of every simulated device."""
        return device_times(self.graph, self.timeline, self.windows, self._uses[1])

    @property
    def exposed_s(self) -> np.ndarray:
        """float64[spans]: how much of each communication nothing hides [s]."""
        return self._uses[0]

    @cached_property
    def _uses(self) -> tuple[np.ndarray, dict[int, DeviceUse]]:
        return device_uses(self.spans)

    @cached_property
    def critical_path(self) -> CriticalPath:
        """The chain of causes that ends with the step."""
        return critical_path(self.graph, self.timeline, self.windows, self.spans)

    def _mean(self, values: list[float]) -> float:
        weights = [d.multiplicity for d in self.devices]
        return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)

    @property
    def bubble_fraction(self) -> float:
        """Part of the step in which a device idles for another pipeline stage; mean over all."""
        return self._mean([d.bubble_s for d in self.devices]) / self.step_time_s if self.step_time_s else 0.0

    @property
    def exposed_comm_s(self) -> dict[str, float]:
        """Communication by kind that computation did not hide [s]; mean over all devices."""
        kinds = sorted({kind for d in self.devices for kind in d.exposed_s})
        return {kind: self._mean([d.exposed_s.get(kind, 0.0) for d in self.devices]) for kind in kinds}

    @cached_property
    def link_utilisation(self) -> np.ndarray:
        """float64[links of the cluster]: part of its capacity that every link carried over the step."""
        folding = self.graph.folding
        used = usage.link_utilisation(self.graph.tasks, self.timeline)
        used *= self.timeline.makespan_s / self.step_time_s if self.step_time_s else 1.0
        utilisation = np.zeros(self.cluster.num_links)
        utilisation[folding.links] = used[folding.link_class]
        return utilisation

    @takes(InputError, link=Whole(minimum=0))
    def link_use(self, link: int) -> Steps:
        """Part of its capacity that one link of the cluster carries over time.

        Parameters
        ----------
        link
            Id of the link in the cluster.

        Returns
        -------
        Steps
            ``value[i]`` from ``time_s[i]`` on; empty for a link that carries nothing.
        """
        folding = self.graph.folding
        at = int(np.searchsorted(folding.links, link))
        if at == len(folding.links) or folding.links[at] != link:
            return Steps(np.empty(0), np.empty(0))
        steps = usage.link_steps(self.graph.tasks, self.timeline, int(folding.link_class[at]), self._flow_pieces)
        return Steps(steps.time_s, steps.value / float(self.cluster.link_capacity_Bps[link]))

    @cached_property
    def _flow_pieces(self) -> usage.FlowPieces:
        return usage.flow_pieces(self.graph.tasks, self.timeline)

    # -- memory -----------------------------------------------------------------

    @cached_property
    def memory_over_time(self) -> dict[int, MemorySteps]:
        """Live bytes of every simulated device."""
        return memory_over_time(self.graph, self.timeline)

    @property
    def peak_memory_bytes(self) -> float:
        """Most bytes of tensors live at once on any device (what ``max_memory_allocated`` reads)."""
        return max(steps.peak_bytes for steps in self.memory_over_time.values())

    @property
    def peak_device(self) -> int:
        """The device whose memory is fullest."""
        return max(self.memory_over_time, key=lambda device: self.memory_over_time[device].peak_bytes)

    @property
    def missing_bytes(self) -> float:
        """How much more memory the fullest device would need; 0 when it fits."""
        worst = 0.0
        for device, steps in self.memory_over_time.items():
            gpu = self.cluster.gpu(device)
            worst = max(worst, steps.peak_bytes + steps.reserve_bytes - gpu.memory_bytes)
        return worst

    @property
    def fits(self) -> bool:
        """Whether every device has the memory, the runtime's own reserve included."""
        return self.missing_bytes <= 0.0

    @takes(InputError, device=Maybe(Whole(minimum=0)))
    def memory_by_node(self, device: int | None = None) -> tuple[NodeMemory, ...]:
        """What the blocks of the tree hold of a device (default: the fullest) at its peak, the largest first."""
        device = self.peak_device if device is None else device
        played = {rank.device: number for number, rank in enumerate(self.graph.classes)}
        if device not in played:
            raise InputError(
                f"device={device} was not simulated; it is equivalent to one of {', '.join(map(str, sorted(played)))}"
            )
        number = played[device]
        return memory_by_node(self.graph, self.timeline, number)

    def memory_verdict(self) -> Verdict:
        """Whether it fits; if not, what is missing and which edits would make it fit (simulated)."""
        from proteus.result.verdict import verdict

        return verdict(self)

    # -- about itself -------------------------------------------------------------

    @property
    def assumptions(self) -> list[str]:
        """What was filled in where the user said nothing, and which curves stood in for others."""
        return assumptions(self)

    @property
    def plan(self) -> DecidedPlan:
        """Every field of the plan with its value and who set it: you, the framework or Proteus.

        The attention kernel is the one that runs on the cluster's GPUs.
        """
        return self.tree.decided.with_values("framework", attention=self.graph.framework.attention)

    @property
    def idle_devices(self) -> int:
        """Devices of the cluster that the strategy does not use."""
        return self.cluster.num_devices - self.num_devices

    @property
    def headline(self) -> str:
        """What was simulated, in one line."""
        return headline(self)

    def to_dict(self) -> dict[str, Any]:
        """The headline as plain values."""
        return {
            "headline": self.headline,
            "plan": self.plan.to_dict(),
            "plan_origins": self.plan.origins(),
            "idle_devices": self.idle_devices,
            "step_time_s": self.step_time_s,
            "step_time_low_s": self.step_time_band.low_s,
            "step_time_high_s": self.step_time_band.high_s,
            "undecided": [
                {"switch": s.name, "other": s.other, "step_time_s": s.step_time_s} for s in self.step_time_band.switches
            ],
            "samples_per_s": self.samples_per_s,
            "tokens_per_s": self.tokens_per_s,
            "mfu": self.mfu,
            "peak_memory_bytes": self.peak_memory_bytes,
            "fits": self.fits,
            "bubble_fraction": self.bubble_fraction,
            "exposed_comm_s": self.exposed_comm_s,
            "assumptions": self.assumptions,
        }

    @takes(InputError, sensitivities=Switch(), progress=Maybe(A(Progress)))
    def explain(self, *, sensitivities: bool = False, progress: Progress | None = None) -> Explanation:
        """Why the step takes as long as it does, as a ladder that adds up to it.

        Parameters
        ----------
        sensitivities
            Also simulate better machines: faster links of each kind, faster
            compute, no launch overhead.  Takes several simulations.
        progress
            May stop these simulations.
        """
        from proteus.result.explain import explain

        return explain(self, sensitivities=sensitivities, progress=progress)

    @takes(InputError, path=FilePath())
    def to_chrome_trace(self, path: str | Path) -> None:
        """Write a trace that Perfetto opens (.json or .json.gz)."""
        from proteus.result.trace import write_chrome_trace

        write_chrome_trace(self, path)

    def to_columns(self) -> dict[str, np.ndarray]:
        """The spans as one array per column; see :func:`proteus.result.columns.to_columns`."""
        from proteus.result.columns import to_columns

        return to_columns(self)

    def to_dataframe(self) -> Any:
        """The spans as a ``pandas.DataFrame``, one row each."""
        from proteus.result.columns import to_dataframe

        return to_dataframe(self)

    def compare(self, other: Result) -> Comparison:
        """What changes from this result to `other`."""
        if not isinstance(other, Result):
            raise InputError(f"compare: {other!r} is not a result to compare with")
        from proteus.result.compare import compare

        return compare(self, other)

    if TYPE_CHECKING:
        # ``proteus/__init__.py`` gives it to the class: the views of the report read results.
        def to_html(self, path: str | Path) -> None:
            """Write one offline file with the linked views."""

    def table(self) -> list[tuple[str, str]]:
        """The lines that a result prints as."""
        exposed = ", ".join(f"{kind} {format_seconds(s)}" for kind, s in self.exposed_comm_s.items() if s > 0) or "none"
        verdict = "fits" if self.fits else f"OUT OF MEMORY, {format_bytes(self.missing_bytes)} missing"
        speed = f"{self.tokens_per_s:,.0f} tokens/s" if self.tokens_per_s else f"{self.samples_per_s:,.1f} samples/s"
        return [
            ("strategy", f"{self.tree.mesh!r} {self.tree.schedule.name}"),
            ("cluster", repr(self.cluster)),
            *([("WARNING", warning)] if (warning := idle_warning(self)) else []),
            ("step time", format_seconds(self.step_time_s)),
            ("likely", str(self.step_time_band)),
            ("throughput", f"{speed} · MFU {self.mfu:.1%}"),
            (
                "peak memory",
                f"{format_bytes(self.peak_memory_bytes)} of {format_bytes(self.cluster.gpu().memory_bytes)}, {verdict}",
            ),
            ("bubble", f"{self.bubble_fraction:.1%}"),
            ("exposed", exposed),
            *(("assumed", line) for line in self.assumptions if line != warning),
        ]

    def __repr__(self) -> str:
        rows = self.table()
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.headline, *(f"  {n:<{width}}  {v}" for n, v in rows)])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        import html

        del include, exclude
        cells = "".join(f"<tr><th>{html.escape(n)}</th><td>{html.escape(v)}</td></tr>" for n, v in self.table())
        title = html.escape(self.headline)
        return {"text/plain": repr(self), "text/html": f"<table><caption>{title}</caption>{cells}</table>"}
