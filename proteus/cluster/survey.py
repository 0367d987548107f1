"""What a topology file says about one host, whatever kind of file it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from proteus.cluster.fabric import NetworkFamily
from proteus.cluster.host import Host, build
from proteus.cluster.kinds import DEFAULT_NIC_GBPS, MEMORY_BPS, SOCKET_BPS, LinkKind
from proteus.cluster.layout import Layout, Slot
from proteus.cluster.wiring import Direct, cube_mesh, full_mesh
from proteus.errors import TopologyError
from proteus.hardware import Gpu, gpus
from proteus.hardware.gpu import PCIE_X16_BPS
from proteus.units import GB, GBIT_PER_S

#: PCIe generation of a host about which nothing is known
_DEFAULT_PCIE_GEN = 4
#: one NVLink or xGMI port when the GPU is not known, one direction [B/s]: NVLink 2, 3 and 4 have 25
#: (stas00/ml-engineering network README)
_DEFAULT_PORT_BPS = 25 * GB
#: GPUs of a DGX-1
_CUBE_SIZE = 8
#: names that Linux gives to NICs of a kind (rdma-core's kernel device names, systemd's net names)
_FAMILY_NAMES: dict[NetworkFamily, str] = {
    "roce": r"roce|bnxt_re|irdma|rxe|ionic",
    "efa": r"rdmap|efa",
    "ethernet": r"(eth|en[opsx])\w*\d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A PCIe switch; a rate of None is not stated in the file."""

    name: str
    parent: str
    rate_Bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """A GPU of the file.

    Parameters
    ----------
    label
        Its number there.
    parent
        Switch or CPU that it hangs from.
    numa
        NUMA node: a number, a list as the file writes it, or None.
    model
        Which GPU it is, when the file tells.
    rate_Bps
        Its PCIe lanes, when the file tells [B/s].
    nearest
        Its nearest NICs, all ties; empty when none is near, None when the file does not tell.
    """

    label: str
    parent: str
    numa: int | str | None = None
    model: Gpu | None = None
    rate_Bps: float | None = None
    nearest: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNic:
    """A NIC of the file; `device` is the name that its legend gives."""

    name: str
    parent: str
    rate_Bps: float | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One host as a file describes it.

    Parameters
    ----------
    kind
        ``"nccl-xml"``, ``"smi-topo"``, ``"rocm-smi"`` or ``"nccl-dump"``.
    name
        Of the file.
    cpus, switches, gpus, nics
        The parts, in the order of the file.
    pairs
        ``(a, b, keyword)`` for GPUs a < b, keyword as the file has it.
    direct
        ``(a, b, ports)``: NVLink or xGMI ports between two GPUs; 0 when there
        are some and the file does not say how many.
    switched
        NVLink ports of each GPU into NVSwitch; empty without NVSwitch.
    is_xgmi
        Whether the direct links are AMD's.
    tells_nvlink
        False when NVLink may be there although the file shows none.
    warnings
        What was repaired or assumed.
    """

    kind: str
    name: str
    cpus: tuple[str, ...]
    switches: tuple[Branch, ...] = ()
    gpus: tuple[SeenGpu, ...]
    nics: tuple[SeenNic, ...] = ()
    pairs: tuple[tuple[int, int, str], ...] = ()
    direct: tuple[tuple[int, int, int], ...] = ()
    switched: tuple[int, ...] = ()
    is_xgmi: bool = False
    tells_nvlink: bool = True
    warnings: tuple[str, ...] = ()


def host_of_survey(survey: Survey, gpu: Gpu | None = None) -> Host:
    """The host that a file describes, with what it leaves open taken from the GPU.

    Parameters
    ----------
    survey
        What the file says.
    gpu
        The GPU in it; None: the one that the file names, if it does.
    """
    if gpu is not None and not gpu.nvlink_links and len(survey.gpus) > 1 and (survey.direct or survey.switched):
        shown = "NVSwitch" if survey.switched else "xGMI" if survey.is_xgmi else "NVLink"
        raise TopologyError(f"the file shows {shown} between GPUs, and {gpu.name} has none; give the GPU that it is")
    models = tuple(gpu or seen.model for seen in survey.gpus)
    known = next((model for model in models if model is not None), None)
    generation = known.pcie_gen if known else _DEFAULT_PCIE_GEN
    notes: list[str] = []
    direct, switched = _nvlinks(survey, known, notes)
    nics, network_notes = _nics(survey, known, generation)
    slots = tuple(_gpu_slot(i, seen, models[i], generation) for i, seen in enumerate(survey.gpus))
    lanes_Bps = max(slot.up_Bps for slot in slots)
    layout = Layout(
        cpus=survey.cpus,
        switches=tuple(
            Slot(name=b.name, parent=b.parent, up_Bps=b.rate_Bps or lanes_Bps, kind=_bridge_kind(b, survey))
            for b in survey.switches
        ),
        gpu_slots=slots,
        nics=nics,
        gpus=models,
        direct=direct,
        direct_kind=LinkKind.XGMI if survey.is_xgmi or (known and known.vendor == "amd") else LinkKind.NVLINK,
        switched_Bps=switched,
        socket_Bps=SOCKET_BPS[generation],
        memory_Bps=MEMORY_BPS[generation],
        nearest=tuple(tuple(map(_vertex, seen.nearest or ())) for seen in survey.gpus) if survey.nics else (),
    )
    return build(survey.name, layout, notes=tuple(notes), network_notes=network_notes)


@cache
def max_ports() -> int:
    """Most NVLink ports of any known GPU."""
    return max(gpus.load(name).nvlink_links for name in gpus.names())


def network_of_survey(survey: Survey) -> NetworkFamily:
    """What the NICs speak, by their names; InfiniBand where they do not tell.

    An mlx5 NIC may speak RoCE as well; no topology file says so.
    """
    names = [nic.device or nic.name for nic in survey.nics]
    for family, pattern in _FAMILY_NAMES.items():
        if names and all(re.match(pattern, name) for name in names):
            return family
    return "ib"


def _bridge_kind(branch: Branch, survey: Survey) -> LinkKind:
    return LinkKind.HOST_BRIDGE if branch.parent in survey.cpus else LinkKind.PCIE


def _gpu_slot(index: int, seen: SeenGpu, model: Gpu | None, generation: int) -> Slot:
    if model is not None and model.c2c_Bps:
        return Slot(name=f"gpu{index}", parent=seen.parent, up_Bps=model.c2c_Bps, kind=LinkKind.C2C)
    own_Bps = model.pcie_Bps if model is not None else PCIE_X16_BPS[generation]
    return Slot(name=f"gpu{index}", parent=seen.parent, up_Bps=min(own_Bps, seen.rate_Bps or own_Bps))


def _nvlinks(survey: Survey, gpu: Gpu | None, notes: list[str]) -> tuple[Direct, tuple[float, ...]]:
    """Direct links and rates into NVSwitch [B/s]."""
    port_Bps = gpu.nvlink_port_Bps if gpu and gpu.nvlink_port_Bps else _DEFAULT_PORT_BPS
    count = len(survey.gpus)
    switched = survey.switched or _ports_into_switch(survey, gpu.nvlink_links if gpu else 0)
    if switched:
        return (), tuple(ports * port_Bps for ports in switched)
    if survey.direct or survey.tells_nvlink:
        peers = [sum(g in (a, b) for a, b, _ in survey.direct) for g in range(count)]
        total_Bps = gpu.nvlink_Bps if gpu and gpu.nvlink_Bps else 2 * port_Bps * max(1, *peers)
        return tuple(
            (a, b, ports * port_Bps if ports else total_Bps / max(peers[a], peers[b])) for a, b, ports in survey.direct
        ), ()
    if gpu is None:
        notes.append("the file shows neither NVLink nor which GPU it is; pass gpu=... to have its usual links")
        return (), ()
    if not gpu.nvlink_links or count < 2:
        return (), ()
    if gpu.has_nvswitch:
        notes.append(
            f"the file shows no NVLink; the {count} {gpu.name} are taken to be joined by NVSwitch, as in their usual "
            "host"
        )
        return (), (gpu.nvlink_Bps,) * count
    if gpu.vendor == "amd":
        notes.append(f"the file shows no xGMI; each pair of the {count} {gpu.name} is taken to be joined directly")
        return full_mesh(count, gpu.nvlink_Bps), ()
    if gpu.wiring == "cube" and count == _CUBE_SIZE:
        notes.append(f"the file shows no NVLink; the 8 {gpu.name} are taken to be wired as the cube mesh of a DGX-1")
        return cube_mesh(gpu.nvlink_links, gpu.nvlink_port_Bps), ()
    return (), ()


def _ports_into_switch(survey: Survey, ports_of_gpu: int) -> tuple[int, ...]:
    """Ports of each GPU into NVSwitch, when the pairs show more links than a GPU has ports."""
    shown: list[list[int]] = [[] for _ in survey.gpus]
    for a, b, ports in survey.direct:
        shown[a].append(ports)
        shown[b].append(ports)
    if all(shown) and any(sum(ports) > (ports_of_gpu or max_ports()) for ports in shown) and not survey.is_xgmi:
        return tuple(max(ports) for ports in shown)
    return ()


def _nics(survey: Survey, gpu: Gpu | None, generation: int) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """NICs with their rates, and what was assumed about them."""
    usual_Gbps = DEFAULT_NIC_GBPS[generation]
    usual_Bps = usual_Gbps * GBIT_PER_S
    seen = survey.nics
    if not seen:
        note = f"the file shows no NIC; one of {usual_Gbps:g} Gb/s per host is assumed"
        return (Slot(name="nic0", parent=survey.cpus[0], up_Bps=usual_Bps),), (note,)
    notes = []
    unknown = [nic.name for nic in seen if nic.rate_Bps is None]
    if unknown:
        notes.append(f"the file does not tell the speed of {_few(unknown)}; {usual_Gbps:g} Gb/s each is assumed")
    parents = {nic.name: nic.parent for nic in seen}
    if gpu is not None and gpu.c2c_Bps:
        # Beside a Grace CPU nvidia-smi calls every NIC SYS; they hang from the same CPUs as the GPUs.
        with_gpus = list(dict.fromkeys(g.parent for g in survey.gpus))
        lone = [nic.name for nic in seen if nic.parent not in with_gpus]
        parents.update({name: with_gpus[i * len(with_gpus) // len(lone)] for i, name in enumerate(lone)})
        if lone:
            notes.append(f"the place of {_few(lone)} is not told; they are dealt to the CPUs of the GPUs in order")
    slots = tuple(
        Slot(name=_vertex(nic.name), parent=parents[nic.name], up_Bps=nic.rate_Bps or usual_Bps) for nic in seen
    )
    return slots, tuple(notes)


def _vertex(name: str) -> str:
    """A NIC's name without the slash that separates host and link in the names of links."""
    return name.replace("/", "-")


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more NICs"
