"""A PCIe tree that gives every pair the distance that ``nvidia-smi topo -m`` tells.

Devices at most PIX apart hang from one switch, switches at most PXB apart
from one above them, and what is at most NODE apart from one CPU.  A pair
that shows NVLink hides its PCIe distance; it follows from a third device, or
from the NUMA nodes and CPU lists of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from proteus.cluster.survey import Branch

_SWITCH, _SWITCHES, _CPU = 1, 2, 4
_LEVEL = {"PIX": 1, "PSB": 1, "PXB": 2, "PHB": 4, "NODE": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieTree:
    """CPUs, switches and what every device hangs from."""

    cpus: tuple[str, ...]
    switches: tuple[Branch, ...]
    parents: dict[str, str]


def place(gpus: list[str], nics: list[str], cells: dict[tuple[str, str], str], homes: list[str | None]) -> PcieTree:
    """Place all devices; `homes` is the NUMA node or CPU list of each GPU, None when not told."""
    devices = [*gpus, *nics]
    home = dict(zip(gpus, homes, strict=True))
    levels: list[list[set[str]]] = []
    for level in (_SWITCH, _SWITCHES, _CPU):
        near = [(a, b) for (a, b), cell in cells.items() if _LEVEL.get(cell, 9) <= level]
        if level == _CPU:
            hidden = [(a, b) for a, b in combinations(gpus, 2) if cells.get((a, b), "NV").startswith("NV")]
            near += [(a, b) for a, b in hidden if home[a] == home[b]]
        levels.append(_groups(devices, near))
    by_switch, by_switches, by_cpu = levels
    # NICs that are far from every GPU share one CPU of their own.
    groups_with_gpus = [group for group in by_cpu if group.intersection(gpus)]
    lone = set().union(*(group for group in by_cpu if not group.intersection(gpus)))
    cpu_groups = [*groups_with_gpus, lone] if lone else groups_with_gpus
    parents: dict[str, str] = {}
    switches: list[Branch] = []
    for number, group in enumerate(cpu_groups):
        for upper in (s for s in by_switches if s <= group):
            lower = [s for s in by_switch if s <= upper]
            parent = f"cpu{number}"
            if len(lower) > 1:
                parent = _switch(switches, parent)
            for devices_below in lower:
                shared = _switch(switches, parent) if len(devices_below) > 1 else parent
                parents |= dict.fromkeys(devices_below, shared)
    return PcieTree(cpus=tuple(f"cpu{i}" for i in range(len(cpu_groups))), switches=tuple(switches), parents=parents)


def _switch(switches: list[Branch], parent: str) -> str:
    switches.append(Branch(name=f"pcie{len(switches)}", parent=parent))
    return switches[-1].name


def _groups(devices: list[str], near: list[tuple[str, str]]) -> list[set[str]]:
    """Connected components, in the order of `devices`."""
    group = {device: {device} for device in devices}
    for a, b in near:
        if group[a] is not group[b]:
            group[a] |= group[b]
            for device in group[b]:
                group[device] = group[a]
    return [group[d] for d in devices if d == next(x for x in devices if x in group[d])]
