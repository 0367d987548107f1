"""Another GPU in a host: which of its links go with it, and which hosts it does not fit into.

====================  =======================================================
the host has          a GPU brings
====================  =======================================================
NVSwitch              its NVLink; refused unless it is made for NVSwitch
a mesh or cube        its NVLink or xGMI; refused without ports enough
bridges between pairs its NVLink where it is a card with bridges, else nothing
no NVLink             nothing
Grace CPUs            its chip-to-chip link; refused without one
PCIe slots            its lanes, at most those of the slot
====================  =======================================================
"""

from __future__ import annotations

from dataclasses import replace

from proteus.cluster.kinds import LinkKind
from proteus.cluster.layout import Design, Layout
from proteus.cluster.wiring import Direct, cube_mesh, full_mesh, pairs
from proteus.errors import TopologyError
from proteus.hardware import Gpu

#: how GPUs of modules are joined, which no slot for cards offers
_MODULES = ("nvswitch", "mesh", "cube")


def joined(design: Design, gpu: Gpu, count: int) -> tuple[Direct, tuple[float, ...]]:
    """Direct links, and rates into NVSwitch [B/s], of `count` such GPUs in a host of that design."""
    match design.wiring:
        case "nvswitch":
            return (), (gpu.nvlink_Bps,) * count
        case "mesh":
            return full_mesh(count, gpu.nvlink_Bps), ()
        case "cube":
            return cube_mesh(gpu.nvlink_links, gpu.nvlink_port_Bps, count), ()
        case "pairs" if gpu.nvlink_links and gpu.wiring not in _MODULES:
            return pairs(count, gpu.nvlink_Bps), ()
    return (), ()


def link_up(design: Design, gpu: Gpu) -> tuple[float, LinkKind]:
    """Rate and kind of the link between such a GPU and what it hangs from [B/s]."""
    if design.has_c2c:
        return gpu.c2c_Bps, LinkKind.C2C
    return min(gpu.pcie_Bps, design.lanes_Bps), LinkKind.PCIE


def kind_of_links(gpu: Gpu) -> LinkKind:
    """Kind of the direct links between GPUs of that vendor."""
    return LinkKind.XGMI if gpu.vendor == "amd" else LinkKind.NVLINK


def refitted(name: str, layout: Layout, gpu: Gpu) -> Layout:
    """The layout with another GPU in every slot.

    Raises
    ------
    TopologyError
        The host's design does not take that GPU; the message says why.
    """
    count = len(layout.gpus)
    design = layout.design
    if design is None:
        return _kept(name, layout, gpu)
    _check(name, design, gpu, count)
    direct, switched_Bps = joined(design, gpu, count)
    up_Bps, kind = link_up(design, gpu)
    return replace(
        layout,
        gpus=(gpu,) * count,
        gpu_slots=tuple(replace(slot, up_Bps=up_Bps, kind=kind) for slot in layout.gpu_slots),
        direct=direct,
        switched_Bps=switched_Bps,
    )


def notes(layout: Layout) -> tuple[str, ...]:
    """What is to be said of GPUs whose own links the host does not use."""
    design, gpu = layout.design, layout.gpus[0]
    if design is None or gpu is None or len(layout.gpus) < 2 or not gpu.nvlink_links:
        return ()
    if design.wiring in ("none", "pairs") and gpu.wiring in _MODULES:
        return (f"{gpu.name} has {gpu.nvlink_links} NVLink or xGMI ports that this host's PCIe slots leave unused",)
    return ()


def _kept(name: str, layout: Layout, gpu: Gpu) -> Layout:
    """Links that were measured or stated stay; a GPU with other links would not have them."""
    for old in layout.gpus:
        if old is not None and _links(old) != _links(gpu):
            raise TopologyError(
                f"{name}: its links were measured or stated for {old.name}, and {gpu.name} has others; "
                "take a preset or a topology file and give it that GPU"
            )
    return replace(layout, gpus=(gpu,) * len(layout.gpus))


def _links(gpu: Gpu) -> tuple[object, ...]:
    return gpu.nvlink_Bps, gpu.nvlink_links, gpu.c2c_Bps, gpu.pcie_gen


def _check(name: str, design: Design, gpu: Gpu, count: int) -> None:
    if design.has_c2c and not gpu.c2c_Bps:
        raise TopologyError(
            f"{name}: its GPUs hang from Grace CPUs by chip-to-chip links, and {gpu.name} has none; "
            "take a host with PCIe"
        )
    if gpu.c2c_Bps and not design.has_c2c:
        raise TopologyError(
            f"{name}: {gpu.name} hangs from a Grace CPU of its own ({gpu.c2c_Bps / 1e9:g} GB/s); this host has PCIe "
            "slots. Take a host with Grace CPUs, such as gb200-nvl72"
        )
    if count < 2 or design.wiring in ("none", "pairs"):
        return
    words = f"{gpu.nvlink_links} NVLink or xGMI ports" if gpu.nvlink_links else "neither NVLink nor xGMI"
    if design.wiring == "nvswitch" and gpu.wiring != "nvswitch":
        raise TopologyError(
            f"{name}: its GPUs are joined by NVSwitch; {gpu.name} has {words} and its usual host no NVSwitch "
            f"(wiring: {gpu.wiring}). Take a host that it fits into, or a Gpu with wiring='nvswitch'"
        )
    if design.wiring == "nvswitch":
        return
    if kind_of_links(gpu) is not design.kind or not gpu.nvlink_links:
        raise TopologyError(
            f"{name}: its GPUs are joined by {design.kind.name}; {gpu.name} has "
            f"{gpu.nvlink_links or 'no'} ports of {kind_of_links(gpu).name}"
        )
    if design.wiring == "cube" and gpu.wiring != "cube":
        raise TopologyError(f"{name}: its GPUs are wired as a cube mesh, which {gpu.name} is not made for")
    if design.wiring == "mesh" and gpu.nvlink_links < count - 1:
        raise TopologyError(f"{name}: each GPU reaches {count - 1} others directly; {gpu.name} has {words}")
