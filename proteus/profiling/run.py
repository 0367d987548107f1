"""The whole profile: the device's sheet, what the trees need, the processes, and the machine of it all."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from proteus.costs import precision as precisions
from proteus.costs.measured import MeasuredOverlap
from proteus.costs.ops import OpCosts
from proteus.errors import InputError
from proteus.hardware import Gpu, gpus
from proteus.profiling.demand import demand_of
from proteus.profiling.machine import MeasuredMachine
from proteus.profiling.operators import dispatch, peaks, shared_out
from proteus.profiling.processes import Findings, Setting, measure_together
from proteus.profiling.timing import Clock
from proteus.strategy import StrategyTree

#: PCIe generation written into the sheet of a device that has none; no measured time depends on it
NO_PCIE = 3
_BACKENDS = ("gloo", "nccl")


def profile_trees(
    trees: Sequence[StrategyTree], *, backend: str | None, threads: int | None, budget_s: float
) -> MeasuredMachine:
    """See :func:`proteus.profiling.profile`."""
    if not trees:
        raise InputError("profile: no strategy given; its ops and collectives are what is measured")
    setting = _setting(max(tree.num_devices for tree in trees), backend, threads, budget_s)
    before = torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    try:
        machine = _bare_machine(setting, _dtypes(trees))
    finally:
        torch.set_num_threads(before)
    demand = demand_of(trees, machine.cluster())
    return _with_findings(machine, measure_together(demand, setting), [str(c.op.kind) for c in demand.calls.values()])


def _setting(num_ranks: int, backend: str | None, threads: int | None, budget_s: float) -> Setting:
    gpus_here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if backend is None:
        backend = "nccl" if gpus_here >= num_ranks and dist.is_nccl_available() else "gloo"
    if backend not in _BACKENDS:
        raise InputError(f"backend {backend!r} is none of {', '.join(_BACKENDS)}")
    if backend == "nccl" and gpus_here < num_ranks:
        raise InputError(f"backend nccl: the strategy needs {num_ranks} GPUs, this machine has {gpus_here}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Setting(
        num_ranks=num_ranks, backend=backend, threads=threads or max(cores // num_ranks, 1), budget_s=budget_s
    )


def _dtypes(trees: Sequence[StrategyTree]) -> list[str]:
    """The dtypes of the trees' activations, and fp32, in which losses are computed."""
    return sorted({"fp32", *(precisions.load(tree.training.precision).activation for tree in trees)})


def _bare_machine(setting: Setting, dtypes: Sequence[str]) -> MeasuredMachine:
    """The machine with its sheet and its host times, before anything that a strategy needs."""
    clock = Clock(setting.device(0), setting.budget_s)
    launch_s, op_s = dispatch(clock)
    device = _cpu(clock, setting, dtypes) if setting.backend == "gloo" else _gpu(clock, dtypes)
    return MeasuredMachine(
        name=device.name,
        device=device,
        num_devices=setting.num_ranks,
        launch_s=launch_s,
        op_s=op_s,
        is_host=setting.backend == "gloo",
        about={
            "backend": setting.backend,
            "threads of each process": str(setting.threads),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )


def _cpu(clock: Clock, setting: Setting, dtypes: Sequence[str]) -> Gpu:
    """The sheet of one process's share of the host."""
    rates = peaks(clock, dtypes)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // setting.num_ranks
    return _sheet(_processor(), "cpu", memory_bytes, rates, None, "measured: a large GEMM and a copy, on the CPU")


def _gpu(clock: Clock, dtypes: Sequence[str]) -> Gpu:
    """The GPU's sheet from the catalogue, or one from its driver and two measurements."""
    known = gpus.find(torch.cuda.get_device_name(clock.device))
    if known is not None:
        return known
    facts = torch.cuda.get_device_properties(clock.device)
    source = "measured: a large GEMM and a copy"
    return _sheet(
        facts.name,
        f"sm_{facts.major}{facts.minor}",
        facts.total_memory,
        peaks(clock, dtypes),
        facts.multi_processor_count,
        source,
    )


def _sheet(
    name: str, generation: str, memory_bytes: int, rates: Mapping[str, float], num_sms: int | None, source: str
) -> Gpu:
    chip, lenders = gpus.unmeasured(name, generation)
    return Gpu(
        name=name,
        generation=generation,
        chip=chip,
        lenders=lenders,
        memory_bytes=memory_bytes,
        memory_Bps=rates["memory"],
        peak_flops={dtype: rate for dtype, rate in rates.items() if dtype != "memory"},
        pcie_gen=NO_PCIE,
        tdp_w=None,
        num_sms=num_sms,
        source=source,
    )


def _processor() -> str:
    """The model of the host's processor."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8", errors="replace").splitlines() if facts.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _with_findings(machine: MeasuredMachine, findings: Findings, kinds: Sequence[str]) -> MeasuredMachine:
    left = {kind for kind, item in zip(kinds, findings.ops) if item is None}
    lacking = [*findings.lacking, *(f"op {kind}: left to the cost model" for kind in sorted(left))]
    return replace(
        machine,
        works=shared_out((item for item in findings.ops if item is not None), OpCosts(machine.device)),
        collectives=tuple(findings.collectives),
        overlap=MeasuredOverlap(
            compute={kind: pair[0] for kind, pair in findings.overlap.items()},
            comm={kind: pair[1] for kind, pair in findings.overlap.items()},
        ),
        about={**machine.about, **({"not measured": "; ".join(lacking)} if lacking else {})},
    )
