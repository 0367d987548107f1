"""Reader of the topology that NCCL logs with NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH.

::

    === System : maxBw 0.3 totalBw 12.0 ===
    CPU/0 (1/1/2)
    + PCI[12.0] - PCI/1000 (...)
                  + PCI[12.0] - GPU/2000 (0)
                                + NVL[22.0] - GPU/3000
                  + PCI[12.0] - NIC/4000
                                + NET[12.5] - NET/0 (...)
    ==========================================
    GPU/2000 :GPU/2000 (0/5000.0/LOC) GPU/3000 (1/22.0/NVL) NET/0 (3/12.5/PIX)
"""

from __future__ import annotations

import re
from dataclasses import replace

from proteus.cluster.readers.tree import Node, survey_of_tree
from proteus.cluster.survey import SeenGpu, Survey, max_ports
from proteus.errors import TopologyError
from proteus.units import GB

_LOG = re.compile(r"^(.*?)NCCL\s+(?:INFO|TRACE|WARN)\s(.*)$")
#: host, process, thread and device in front of a line; a time before it changes from line to line
_WRITER = re.compile(r"\S+:\d+:\d+\s*\[\d+\]")
_LINK = re.compile(
    r"^(?P<indent>\s*)\+\s*(?P<type>[A-Z0-9]+)\s*\[\s*(?P<bw>\d+(?:\.\d+)?)\s*\]\s*-\s*(?P<what>\w+/\S+)(?P<rest>.*)$"
)
_CPU = re.compile(r"^\s*CPU/(\S+)")
_PATHS = re.compile(r"^\s*(GPU/\S+)\s*:(.*)$")
_PATH = re.compile(r"(\w+/\S+)\s*\(\d+/[\d.]+/(\w+)\)")
#: what NCCL counts for one NVLink by generation [GB/s] (src/graph/topo.h: sm60 18, sm70 and sm80 20,
#: sm90 20.6, sm86 12, sm100 40.1; older releases 21 and 22), and RCCL for one xGMI
_PORT_GBPS = {"NVL": (20.6, 22.0, 21.0, 20.0, 40.1, 18.0, 12.0), "XGMI": (36.0, 48.0, 24.0)}
#: NCCL prints one digit after the point
_PRINTED_GBPS = 0.06
#: NCCL's rate of a link that is no limit [GB/s]
_LOCAL_GBPS = 5000.0
#: lanes of a GPU or switch below this are a link that sleeps, not one that works [GB/s]
_ASLEEP_GBPS = 1.0
#: distances by the names of NCCL's paths, nearest first
_DISTANCE = {"NVL": 0, "NVB": 0, "C2C": 0, "PIX": 1, "PXB": 2, "P2C": 3, "PXN": 3, "PHB": 4, "SYS": 5, "NET": 6}


def read_nccl_dump(text: str, name: str) -> Survey:
    """What the log of the first rank says about its host.  GPUs are numbered by rank within it."""
    tree = _Tree()
    paths: dict[str, dict[str, str]] = {}
    for number, line in _of_first_rank(text.split("\n")):
        if link := _LINK.match(line):
            tree.link(number, link)
        elif cpu := _CPU.match(line):
            tree.cpu(number, cpu[1])
        elif table := _PATHS.match(line):
            paths.setdefault(table[1], {}).update(_PATH.findall(table[2]))
    if not tree.cpus:
        raise TopologyError("line 1: no CPU line after '=== System'; give the whole block of the log")
    tree.finish()
    survey = survey_of_tree("nccl-dump", name, tree.cpus, tree.warnings, tells_nvlink=True)
    return _with_paths(survey, [gpu.name for gpu in sorted(tree.gpus(), key=lambda gpu: gpu.label or 0)], paths)


def _of_first_rank(lines: list[str]) -> list[tuple[int, str]]:
    """The lines of the first block, without what the log puts in front; ranks write between each other."""
    block: list[tuple[int, str]] = []
    first: str | None = None
    for number, text in enumerate(lines, 1):
        match = _LOG.match(text)
        before, line = (match[1], match[2]) if match else ("", text)
        writer = named[0] if (named := _WRITER.search(before)) else before
        if first is None:
            if "=== System" in line:
                first = writer
        elif writer == first and line.strip():
            if "=== System" in line:
                break
            block.append((number, line))
    if first is None:
        raise TopologyError("line 1: no line '=== System'; give the log of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH")
    return block


class _Tree:
    """The tree as its lines come in; the column of the plus sign tells what hangs from what."""

    def __init__(self) -> None:
        self.cpus: list[Node] = []
        self.nodes: dict[str, Node] = {}
        self.open: list[tuple[int, Node]] = []
        self.links: list[tuple[Node, str, float, str]] = []
        self.warnings: list[str] = []

    def cpu(self, number: int, name: str) -> None:
        node = Node(kind="cpu", name=f"cpu{len(self.cpus)}", line=number)
        node.numa = _numa(name)
        self.cpus.append(node)
        self.open = [(-1, node)]

    def link(self, number: int, link: re.Match[str]) -> None:
        column, kind, target, rate_GBps = len(link["indent"]), link["type"], link["what"], float(link["bw"])
        while self.open and self.open[-1][0] >= column:
            self.open.pop()
        if not self.open:
            raise TopologyError(f"line {number}: {target} hangs from nothing; a CPU line belongs above it")
        parent, family = self.open[-1][1], target.split("/")[0]
        if kind == "LOC" and family == "GPU" and parent.kind == "gpu":
            # Newer logs print the device and, in it, the GPU.
            parent.label = _rank(link["rest"])
            self.nodes[target] = parent
            parent.name = target
        elif (kind == "NET" and family == "NET") or (kind == "PCI" and family in ("GPU", "DEV", "PCI", "NIC")):
            self.vertex(number, link, parent, family, column)
        else:
            gpu = parent if parent.kind == "gpu" else next(reversed(self.gpus()), None)
            if gpu is not None:
                self.links.append((gpu, kind, rate_GBps, target))

    def vertex(self, number: int, link: re.Match[str], parent: Node, family: str, column: int) -> None:
        vertex_name, rate_GBps = link["what"], float(link["bw"])
        if vertex_name in self.nodes and family != "PCI":
            self.warnings.append(f"line {number}: {vertex_name} a second time; only the first is read")
            return
        rate_Bps = rate_GBps * GB if 0 < rate_GBps < _LOCAL_GBPS else None
        if family in ("GPU", "DEV", "PCI") and rate_GBps < _ASLEEP_GBPS:
            self.warnings.append(
                f"line {number}: the lanes of {vertex_name} show {rate_GBps:g} GB/s; a link that sleeps does, so "
                "the rate is taken as not told"
            )
            rate_Bps = None
        kind = {"GPU": "gpu", "DEV": "gpu", "NET": "nic"}.get(family, "pci")
        node = parent.add(Node(kind=kind, name=vertex_name, line=number, rate_Bps=rate_Bps))
        if family == "GPU":
            node.label = _rank(link["rest"])
        self.nodes[vertex_name] = node
        self.open.append((column, node))

    def gpus(self) -> list[Node]:
        gpus = {id(node): node for node in self.nodes.values() if node.kind == "gpu"}
        return list(gpus.values())

    def finish(self) -> None:
        """NVLink and xGMI from the rates that NCCL shows; network cards without a NET are NICs too."""
        for node, kind, rate_GBps, target_name in self.links:
            if kind not in _PORT_GBPS:
                continue
            ports = _ports(rate_GBps, kind)
            if target_name.startswith("NVS"):
                node.switch_ports += ports
            elif target_name in self.nodes:
                target = self.nodes[target_name].name
                node.direct[target] = node.direct.get(target, 0) + ports
                node.is_xgmi = kind == "XGMI"
        for name, node in self.nodes.items():
            # One at no place of the PCIe tree (rate without limit) is a virtual device.
            if name.startswith("NIC/") and not node.children and node.rate_Bps is not None:
                node.kind, node.rate_Bps = "nic", None
        ranks = [gpu.label for gpu in self.gpus()]
        by_rank = None not in ranks and len(set(ranks)) == len(ranks)
        for i, gpu in enumerate(sorted(self.gpus(), key=lambda gpu: (gpu.label or 0) if by_rank else 0)):
            gpu.label = i


def _rank(rest: str) -> int | None:
    match = re.match(r"\s*\((\d{1,9})\)", rest)
    return int(match[1]) if match else None


def _ports(rate_GBps: float, kind: str = "NVL") -> int:
    """How many links NCCL has added up.

    >>> [_ports(rate) for rate in (22.0, 44.0, 240.0, 370.8)]
    [1, 2, 12, 18]
    """
    most = max_ports()
    for port in _PORT_GBPS[kind]:
        count = round(rate_GBps / port)
        if 1 <= count <= most and abs(rate_GBps - count * port) < _PRINTED_GBPS:
            return count
    return min(most, max(1, round(rate_GBps / _PORT_GBPS[kind][0])))


def _numa(text: str) -> int | None:
    """NUMA node of a CPU such as ``0``, ``0-1`` or ``FFFFFFFFFFFFFFFF`` (none)."""
    last = text.split("-")[-1]
    return int(last, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,4}", last) else None


def _with_paths(survey: Survey, names: list[str], paths: dict[str, dict[str, str]]) -> Survey:
    """The survey with NCCL's own distances, where its table has them."""
    pairs = []
    for a, b, word in survey.pairs:
        path_word = paths.get(names[a], {}).get(names[b], word)
        pairs.append((a, b, word if path_word in ("NVL", "LOC") else path_word))
    seen: list[SeenGpu] = []
    for gpu, name in zip(survey.gpus, names, strict=True):
        to_nic = paths.get(name, {})
        far = {nic.name: _DISTANCE[to_nic[nic.name]] for nic in survey.nics if to_nic.get(nic.name) in _DISTANCE}
        least = min(far.values(), default=0)
        near = tuple(nic for nic, distance in far.items() if distance == least)
        seen.append(replace(gpu, nearest=near) if far else gpu)
    return replace(survey, pairs=tuple(pairs), gpus=tuple(seen))
