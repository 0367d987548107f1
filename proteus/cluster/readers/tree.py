"""The PCI tree that NCCL's files hold, and the survey of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from proteus.cluster.survey import Branch, SeenGpu, SeenNic, Survey
from proteus.errors import TopologyError
from proteus.hardware import Gpu


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A CPU, PCIe bridge, GPU or NIC while a file is being read.

    ``rate_Bps`` is that of the link to its parent, None when not told.  A
    GPU's ``direct`` maps other GPUs (by the name the file uses for targets)
    to ports; ``switch_ports`` counts ports into NVSwitch.
    """

    kind: str
    name: str
    line: int
    rate_Bps: float | None = None
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    numa: int | None = None
    label: int | None = None
    model: Gpu | None = None
    direct: dict[str, int] = field(default_factory=dict)
    switch_ports: int = 0
    is_xgmi: bool = False

    def add(self, child: Node) -> Node:
        """Hang `child` from this node."""
        child.parent = self
        self.children.append(child)
        return child

    def walk(self) -> list[Node]:
        """This node and all below it, in the order of the file."""
        return [self, *(node for child in self.children for node in child.walk())]

    def chain(self) -> list[Node]:
        """The nodes above it, nearest first."""
        above, node = [], self.parent
        while node is not None:
            above.append(node)
            node = node.parent
        return above


def survey_of_tree(kind: str, name: str, cpus: list[Node], warnings: list[str], *, tells_nvlink: bool) -> Survey:
    """The survey of a PCI tree.

    GPUs are numbered as the file numbers them, else in its order.  Two GPUs
    are PIX below one bridge, PXB below several, PHB below one CPU, SYS
    otherwise, as in NCCL.
    """
    nodes = [node for cpu in cpus for node in cpu.walk()]
    gpus = _numbered([node for node in nodes if node.kind == "gpu"], warnings)
    nics = [node for node in nodes if node.kind == "nic"]
    if not gpus:
        raise TopologyError("line 1: no GPU in the file; a topology needs at least 1")
    _distinct_names(nics, warnings)
    parents, branches, rates = _collapsed(cpus, [*gpus, *nics])
    by_target = {gpu.name: i for i, gpu in enumerate(gpus)}
    direct = _direct(gpus, by_target, warnings)
    switched = tuple(gpu.switch_ports for gpu in gpus) if all(gpu.switch_ports for gpu in gpus) else ()
    return Survey(
        kind=kind,
        name=name,
        cpus=tuple(cpu.name for cpu in cpus),
        switches=branches,
        gpus=tuple(
            SeenGpu(
                label=str(gpu.label),
                parent=parents[gpu],
                numa=gpu.chain()[-1].numa if gpu.parent else None,
                model=gpu.model,
                rate_Bps=rates[gpu],
                nearest=tuple(nic.name for nic in nearest(gpu, nics)) if nics else None,
            )
            for gpu in gpus
        ),
        nics=tuple(SeenNic(name=nic.name, parent=parents[nic], rate_Bps=rates[nic]) for nic in nics),
        pairs=tuple(
            (a, b, _keyword(gpus, a, b, direct, switched)) for a in range(len(gpus)) for b in range(a + 1, len(gpus))
        ),
        direct=tuple((a, b, ports) for (a, b), ports in sorted(direct.items())),
        switched=switched,
        is_xgmi=any(gpu.is_xgmi for gpu in gpus),
        tells_nvlink=tells_nvlink,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def nearest(gpu: Node, nics: list[Node]) -> list[Node]:
    """NICs with the deepest ancestor in common with `gpu`; none when not even the CPU is."""
    for ancestor in gpu.chain():
        below = [nic for nic in nics if ancestor in nic.chain()]
        if below:
            return below
    return []


def pci_keyword(a: Node, b: Node) -> str:
    """PIX, PXB, PHB or SYS between two end points."""
    up, down = a.chain(), b.chain()
    common = next((node for node in up if node in down), None)
    if common is None:
        return "SYS"
    if common.kind == "cpu":
        return "PHB"
    return "PIX" if up.index(common) == down.index(common) == 0 else "PXB"


def _keyword(gpus: list[Node], a: int, b: int, direct: dict[tuple[int, int], int], switched: tuple[int, ...]) -> str:
    if switched:
        return f"NV{min(switched[a], switched[b])}"
    ports = direct.get((a, b))
    if ports is None:
        return pci_keyword(gpus[a], gpus[b])
    return f"xgmix{ports}" if gpus[a].is_xgmi else f"NV{ports}"


def _numbered(gpus: list[Node], warnings: list[str]) -> list[Node]:
    labels = [gpu.label for gpu in gpus]
    if None in labels or len(set(labels)) < len(labels):
        if any(label is not None for label in labels):
            warnings.append(f"GPU numbers {labels} are incomplete or repeated; the order of the file is used instead")
        for i, gpu in enumerate(gpus):
            gpu.label = i
    return sorted(gpus, key=lambda gpu: gpu.label or 0)


def _distinct_names(nics: list[Node], warnings: list[str]) -> None:
    seen: dict[str, int] = {}
    for nic in nics:
        count = seen[nic.name] = seen.get(nic.name, 0) + 1
        if count > 1:
            warnings.append(f"line {nic.line}: a second NIC {nic.name!r}; it is called {nic.name}#{count} here")
            nic.name = f"{nic.name}#{count}"


def _collapsed(
    cpus: list[Node], ends: list[Node]
) -> tuple[dict[Node, str], tuple[Branch, ...], dict[Node, float | None]]:
    """Parents, bridges and rates when bridges with a single end point below are merged into its lanes."""
    load: dict[Node, int] = {}
    for end in ends:
        for node in end.chain():
            load[node] = load.get(node, 0) + 1
    branches: list[Branch] = []
    names = {cpu: cpu.name for cpu in cpus}

    def upward(node: Node) -> tuple[str, float | None]:
        """Name of the first shared vertex above, and the slowest link on the way."""
        rates = [node.rate_Bps]
        for above in node.chain():
            if above in names:
                break
            rates.append(above.rate_Bps)
        known_rates = [rate for rate in rates if rate is not None]
        return names[above], min(known_rates, default=None)

    for cpu in cpus:
        for node in cpu.walk():
            if node.kind == "pci" and load.get(node, 0) > 1:
                parent, rate_Bps = upward(node)
                names[node] = f"pcie{len(branches)}"
                branches.append(Branch(name=names[node], parent=parent, rate_Bps=rate_Bps))
    placed = {end: upward(end) for end in ends}
    return {end: at[0] for end, at in placed.items()}, tuple(branches), {end: at[1] for end, at in placed.items()}


def _direct(gpus: list[Node], by_target: dict[str, int], warnings: list[str]) -> dict[tuple[int, int], int]:
    """Ports by pair of GPUs; both ends must tell the same."""
    ports_of_pair: dict[tuple[int, int], int] = {}
    for i, gpu in enumerate(gpus):
        for target, ports in gpu.direct.items():
            peer = by_target.get(target)
            if peer == i:
                warnings.append(
                    f"line {gpu.line}: the {ports} NVLinks of GPU {gpu.label} point at itself; no link is made of them"
                )
            elif peer is None:
                warnings.append(
                    f"line {gpu.line}: a link of GPU {gpu.label} leads to {target}, which is not in the file; "
                    "it is left out"
                )
            else:
                ports_of_pair[i, peer] = ports_of_pair.get((i, peer), 0) + ports
    pairs: dict[tuple[int, int], int] = {}
    for (i, peer), ports in ports_of_pair.items():
        back = ports_of_pair.get((peer, i))
        if back is None:
            warnings.append(
                f"only GPU {gpus[i].label} tells of its link with GPU {gpus[peer].label}; it is taken as true"
            )
        elif back != ports and i < peer:
            warnings.append(
                f"GPU {gpus[i].label} tells of {ports} links with GPU {gpus[peer].label}, which tells of {back}; "
                "the smaller counts"
            )
        pairs[min(i, peer), max(i, peer)] = min(ports, back if back is not None else ports)
    return pairs
