"""A machine as it was measured: what its devices, its links and its host take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from proteus.cluster import Cluster
from proteus.cluster.host import build
from proteus.cluster.kinds import LinkKind
from proteus.cluster.layout import Layout, Slot
from proteus.costs.collectives import choose, payload_bytes
from proteus.costs.measured import CollectiveTimes, MeasuredOverlap
from proteus.costs.ops import Calibration
from proteus.costs.shapes import group_shapes
from proteus.costs.work import Work
from proteus.errors import TopologyError
from proteus.hardware import Gpu


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredMachine:
    """Devices of one host, and times that were measured on them.

    Parameters
    ----------
    name
        Of the host's processor or GPU.
    device
        Sheet of one device: rates of a large GEMM and of a copy where it
        is not a GPU of the catalogue.
    num_devices
        Processes that measured together.
    works
        Seconds of kernels.
    collectives
        Seconds of collectives over bytes.
    overlap
        How much kernels and collectives slow each other.
    launch_s, op_s
        Host time per launch, and what a module under autograd adds [s].
    is_host
        The devices are the host's own cores: their kernels' times hold the
        dispatch already.
    about
        Backend, threads, versions, what could not be measured.
    """

    name: str
    device: Gpu
    num_devices: int
    works: Mapping[Work, float] = field(default_factory=dict)
    collectives: tuple[CollectiveTimes, ...] = ()
    overlap: MeasuredOverlap = field(default_factory=MeasuredOverlap)
    launch_s: float = 0.0
    op_s: float = 0.0
    is_host: bool
    about: Mapping[str, str] = field(default_factory=dict)
    _calibration: Calibration = field(init=False, repr=False)

    def __post_init__(self) -> None:
        calibration = Calibration(
            measured_s=dict(self.works),
            collectives=self.collectives,
            overlap=self.overlap,
            launch_s=0.0 if self.is_host else self.launch_s,
            op_s=0.0 if self.is_host else self.op_s,
            source=f"measured on {self.name}",
        )
        object.__setattr__(self, "_calibration", calibration)

    def __repr__(self) -> str:
        return f"MeasuredMachine({self.name}: {self.num_devices} devices, {len(self.works)} kernels)"

    @property
    def calibration(self) -> Calibration:
        """For :func:`proteus.simulate`."""
        return self._calibration

    def cluster(self) -> Cluster:
        """One host whose devices each have one link into its shared memory.

        The capacity of a link is the highest rate that a measured collective
        reached over it.
        """
        rates = [_flow_Bps(times, _joined(self, 1.0)) for times in self.collectives]
        return _joined(self, max(rates, default=self.device.memory_Bps))

    def summary(self) -> dict[str, str | int | float]:
        """The machine in a few numbers, by names with their units."""
        summary: dict[str, str | int | float] = {"machine": self.name, "devices": self.num_devices}
        summary |= {f"{dtype}_flops": rate for dtype, rate in self.device.peak_flops.items()}
        summary |= {"memory_Bps": self.device.memory_Bps, "link_Bps": float(self.cluster().link_capacity_Bps.min())}
        summary |= {f"{times.kind} among {times.num_ranks}, latency_s": times.latency_s for times in self.collectives}
        summary |= {"launch_s": self.launch_s, "op_s": self.op_s, "kernels": len(self.works)}
        return summary | dict(self.about)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the machine as JSON."""
        from proteus.profiling.file import write

        write(self, path)


def _joined(machine: MeasuredMachine, link_Bps: float) -> Cluster:
    """The devices, each with a link of that rate into the host's memory."""
    device, count = machine.device, machine.num_devices
    layout = Layout(
        cpus=("shared",),
        gpu_slots=tuple(
            Slot(name=f"device{i}", parent="shared", up_Bps=link_Bps, kind=LinkKind.PCIE) for i in range(count)
        ),
        gpus=(device,) * count,
        socket_Bps=device.memory_Bps,
        memory_Bps=device.memory_Bps,
    )
    return Cluster(name=machine.name, runs=((build(machine.name, layout), 1),))


def _flow_Bps(times: CollectiveTimes, unit: Cluster) -> float:
    """What the busiest link carried in the fastest measurement; links of `unit` have 1 B/s."""
    if times.num_ranks > unit.num_devices:
        raise TopologyError(
            f"{unit.name}: {times.kind} was measured among {times.num_ranks}, more than its {unit.num_devices} devices"
        )
    (shape,), _ = group_shapes(np.arange(times.num_ranks)[None, :], unit)
    best = 0.0
    for size_bytes in times.size_bytes:
        algorithm = choose(times.kind, shape, size_bytes).algorithm
        moved = payload_bytes(times.kind, shape, algorithm, size_bytes)
        best = max(best, moved / times.at(size_bytes) / shape.limit(algorithm).rate_Bps)
    return best
