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
from proteus.cluster.survey import SeenGpu, Survey
from proteus.errors import TopologyError
from proteus.units import GB

_LOG = re.compile(r"^(.*?NCCL\s+(?:INFO|TRACE|WARN)\s)(.*)$")
_LINK = re.compile(
    r"^(?P<indent>\s*)\+\s*(?P<type>[A-Z0-9]+)\s*\[\s*(?P<bw>[\d.]+)\s*\]\s*-\s*(?P<what>\w+/\S+)(?P<rest>.*)$"
)
_CPU = re.compile(r"^\s*CPU/(\S+)")
_PATHS = re.compile(r"^\s*(GPU/\S+)\s*:(.*)$")
_PATH = re.compile(r"(\w+/\S+)\s*\(\d+/[\d.]+/(\w+)\)")
#: what NCCL counts for one NVLink by generation [GB/s] (src/graph/topo.h: sm60 18, sm70 and sm80 20,
#: sm90 20.6, sm86 12, sm100 40.1; older releases 21 and 22)
_PORT_GBPS = (20.6, 22.0, 21.0, 20.0, 40.1, 18.0, 12.0)
_MAX_PORTS = 18
#: NCCL's rate of a link that is no limit [GB/s]
_LOCAL_GBPS = 5000.0
#: distances by the names of NCCL's paths, nearest first
_DISTANCE = {"NVL": 0, "NVB": 0, "C2C": 0, "PIX": 1, "PXB": 2, "P2C": 3, "PXN": 3, "PHB": 4, "SYS": 5, "NET": 6}


def read_nccl_dump(text: str, name: str) -> Survey:
    """What the log of the first rank says about its host."""
    lines = _of_first_rank(text.split("\n"))
    warnings: list[str] = []
    cpus: list[Node] = []
    nodes: dict[str, Node] = {}
    open_: list[tuple[int, Node]] = []
    links: list[tuple[Node, str, float, str]] = []
    paths: dict[str, dict[str, str]] = {}
    for number, line in lines:
        link, cpu, table = _LINK.match(line), _CPU.match(line), _PATHS.match(line)
        if link:
            column = len(link["indent"])
            while open_ and open_[-1][0] >= column:
                open_.pop()
            _take(number, link, open_, nodes, links, warnings, column)
        elif cpu:
            node = Node(kind="cpu", name=f"cpu{len(cpus)}", line=number)
            node.numa = _numa(cpu[1])
            cpus.append(node)
            open_ = [(-1, node)]
        elif table:
            paths[table[1]] = dict(_PATH.findall(table[2]))
    if not cpus:
        raise TopologyError("line 1: no CPU line after '=== System'; give the whole block of the log")
    _join(links, nodes)
    survey = survey_of_tree("nccl-dump", name, cpus, warnings, tells_nvlink=True)
    return _with_paths(survey, nodes, paths)


def _of_first_rank(lines: list[str]) -> list[tuple[int, str]]:
    """The lines of the first block, without what the log puts in front; ranks write between each other."""
    block: list[tuple[int, str]] = []
    prefix: str | None = None
    for number, text in enumerate(lines, 1):
        match = _LOG.match(text)
        before, line = (match[1], match[2]) if match else ("", text)
        if prefix is None:
            if "=== System" in line:
                prefix = before
        elif before == prefix and line.strip():
            if "=== System" in line:
                break
            block.append((number, line))
    if prefix is None:
        raise TopologyError("line 1: no line '=== System'; give the log of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH")
    return block


def _take(
    number: int,
    link: re.Match[str],
    open_: list[tuple[int, Node]],
    nodes: dict[str, Node],
    links: list[tuple[Node, str, float, str]],
    warnings: list[str],
    column: int,
) -> None:
    if not open_:
        raise TopologyError(f"line {number}: {link['what']} hangs from nothing; a CPU line belongs above it")
    kind, what, rate_GBps = link["type"], link["what"], float(link["bw"])
    parent = open_[-1][1]
    rate_Bps = rate_GBps * GB if 0 < rate_GBps < _LOCAL_GBPS else None
    family = what.split("/")[0]
    if kind == "PCI" and family == "GPU":
        node = parent.add(Node(kind="gpu", name=what, line=number, rate_Bps=rate_Bps))
        rank = re.match(r"\s*\((\d+)\)", link["rest"])
        node.label = int(rank[1]) if rank else None
    elif kind == "PCI" and family in ("PCI", "NIC"):
        node = parent.add(Node(kind="pci", name=what, line=number, rate_Bps=rate_Bps))
    elif kind == "NET" and family == "NET":
        node = parent.add(Node(kind="nic", name=what, line=number, rate_Bps=rate_Bps))
        if rate_Bps is None:
            warnings.append(f"line {number}: {what} has {rate_GBps:g} GB/s; its speed is taken as not told")
    else:
        links.append((parent, kind, rate_GBps, what))
        return
    nodes[what] = node
    open_.append((column, node))


def _join(links: list[tuple[Node, str, float, str]], nodes: dict[str, Node]) -> None:
    """NVLink and xGMI from the rates that NCCL shows."""
    for node, kind, rate_GBps, what in links:
        if node.kind != "gpu" or kind not in ("NVL", "XGMI"):
            continue
        ports = _ports(rate_GBps)
        if what.startswith("NVS"):
            node.switch_ports += ports
        elif what in nodes:
            node.direct[what] = node.direct.get(what, 0) + ports
            node.is_xgmi = kind == "XGMI"


def _ports(rate_GBps: float) -> int:
    """How many NVLinks NCCL has added up.

    >>> [_ports(rate) for rate in (22.0, 44.0, 240.0, 370.8)]
    [1, 2, 12, 18]
    """
    for port in _PORT_GBPS:
        count = round(rate_GBps / port)
        if 1 <= count <= _MAX_PORTS and abs(rate_GBps - count * port) < 0.01 * rate_GBps:
            return count
    return max(1, round(rate_GBps / _PORT_GBPS[-1]))


def _numa(text: str) -> int | None:
    """NUMA node of a CPU such as ``0``, ``0-1`` or ``FFFFFFFFFFFFFFFF`` (none)."""
    last = text.split("-")[-1]
    return int(last, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,4}", last) else None


def _with_paths(survey: Survey, nodes: dict[str, Node], paths: dict[str, dict[str, str]]) -> Survey:
    """The survey with NCCL's own distances, where its table has them."""
    order = sorted((node for node in nodes.values() if node.kind == "gpu"), key=lambda node: node.label or 0)
    names = [node.name for node in order]
    pairs = []
    for a, b, word in survey.pairs:
        told = paths.get(names[a], {}).get(names[b], word)
        pairs.append((a, b, word if told in ("NVL", "LOC") else told))
    seen: list[SeenGpu] = []
    for gpu, name in zip(survey.gpus, names, strict=True):
        to_nic = paths.get(name, {})
        far = {nic.name: _DISTANCE[to_nic[nic.name]] for nic in survey.nics if to_nic.get(nic.name) in _DISTANCE}
        least = min(far.values(), default=0)
        near = tuple(nic for nic, distance in far.items() if distance == least)
        seen.append(replace(gpu, nearest=near) if far else gpu)
    return replace(survey, pairs=tuple(pairs), gpus=tuple(seen))
