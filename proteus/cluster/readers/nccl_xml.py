"""Reader of the topology XML of NCCL and RCCL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from proteus.cluster.readers.tree import Node, survey_of_tree
from proteus.cluster.survey import Survey
from proteus.errors import TopologyError
from proteus.hardware import gpus
from proteus.units import GB

#: payload of one PCIe lane by its transfer rate [GT/s] -> [B/s], after line coding
_LANE_BPS = {2.5: 0.25 * GB, 5.0: 0.5 * GB, 8.0: 0.985 * GB, 16.0: 1.969 * GB, 32.0: 3.938 * GB, 64.0: 7.563 * GB}
#: PCI classes of end points: 3D and display controllers and accelerators; InfiniBand, Ethernet, other network
_GPU_CLASSES = ("0x0302", "0x0300", "0x0380", "0x1200")
_NIC_CLASSES = ("0x0207", "0x0200", "0x0280")
_NVSWITCH_CLASS = "0x068000"
#: the NVLink bridge of a POWER CPU
_CPU_BRIDGE_CLASS = "0x068001"
#: speeds of <net> are Mb/s; above this a file must have meant kb/s [Mb/s]
_MAX_NIC_MBPS = 10e6
#: lanes of a GPU or switch below this are a link that sleeps, not one that works [B/s]
_ASLEEP_BPS = 1 * GB
#: what may nest deeper is no PCI tree
_MAX_DEPTH = 64


@dataclass(slots=True)
class _Element:
    tag: str
    attributes: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)

    def get(self, key: str) -> str:
        return self.attributes.get(key, "").strip()


def _parse(text: str) -> _Element:
    """The elements with their lines; no document type, no entities."""
    parser = expat.ParserCreate()
    roots: list[_Element] = []
    stack: list[_Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = _Element(tag, attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)
        if len(stack) > _MAX_DEPTH:
            raise TopologyError(f"line {element.line}: elements nest deeper than {_MAX_DEPTH}; that is no PCI tree")

    def end(_tag: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise TopologyError(
            f"line {parser.CurrentLineNumber}: a document type or entity; a topology has none, remove it"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        # The declaration may stand at the very beginning only, and the text is decoded already.
        parser.Parse(re.sub(r"<\?xml[^>]*\?>", "", text, count=1), True)
    except expat.ExpatError as error:
        at = f"line {error.lineno}"
        inside = f" inside <{stack[-1].tag}> of line {stack[-1].line}" if stack else ""
        raise TopologyError(f"{at}: not well-formed XML{inside}: {expat.errors.messages[error.code]}") from error
    return roots[0]


def _cut_out(text: str, warnings: list[str]) -> str:
    """The system element without what stands around it in a paste; lines keep their numbers."""
    start, end = text.find("<system"), text.rfind("</system>")
    before = text[:start] if start >= 0 else ""
    if before.strip() and not before.lstrip().startswith("<"):
        warnings.append(f"line {before.count(chr(10)) + 1}: what stands before <system> is left out")
        text = "\n" * before.count("\n") + text[start:]
        end = text.rfind("</system>")
    after = text[end:].removeprefix("</system>") if end >= 0 else ""
    if after.strip():
        warnings.append("what stands behind </system> is left out")
        text = text[: len(text) - len(after)]
    return text


def read_nccl_xml(text: str, name: str) -> Survey:
    """What a topology XML says.

    GPUs and NICs are the elements ``<gpu>`` and ``<net>``, and PCI end points
    of their classes that have no such element inside: files that clouds give
    to NCCL list only those.
    """
    reader = _Reader()
    root = _parse(_cut_out(text, reader.warnings))
    if root.tag == "graphs":
        raise TopologyError(
            f"line {root.line}: a channel graph (<graphs>, NCCL_GRAPH_DUMP_FILE), not a topology; "
            "give the <system> file that NCCL_TOPO_DUMP_FILE writes"
        )
    if root.tag != "system":
        raise TopologyError(f"line {root.line}: the root is <{root.tag}>; a topology begins with <system>")
    for child in root.children:
        if child.tag == "cpu":
            reader.cpu(child)
        elif child.tag in ("pci", "nic"):
            reader.below(child, reader.loose_cpu(child.line))
    # A template lists bare PCI devices; NCCL asks the driver for NVLink when it starts.
    return survey_of_tree("nccl-xml", name, reader.cpus, reader.warnings, tells_nvlink=not reader.bare_gpus)


class _Reader:
    def __init__(self) -> None:
        self.cpus: list[Node] = []
        self.warnings: list[str] = []
        self.bare_gpus = False

    def cpu(self, element: _Element) -> None:
        numa = self.whole(element, "numaid")
        node = Node(kind="cpu", name=f"cpu{len(self.cpus)}", line=element.line)
        node.numa = numa if numa is not None and numa >= 0 else None
        self.cpus.append(node)
        for child in element.children:
            self.below(child, node)

    def loose_cpu(self, line: int) -> Node:
        if not self.cpus:
            self.warnings.append(f"line {line}: devices outside any <cpu>; one CPU is taken to hold them all")
            self.cpus.append(Node(kind="cpu", name="cpu0", line=line))
        return self.cpus[-1]

    def below(self, element: _Element, parent: Node) -> None:
        if element.tag == "pci":
            self.pci(element, parent)
        elif element.tag == "nic":
            for net in element.children:
                if net.tag == "net":
                    self.net(net, parent, None)
        elif element.tag == "gpu":
            self.gpu(element, parent, None)

    def pci(self, element: _Element, parent: Node) -> None:
        rate_Bps = self.lanes(element)
        ends = [child for child in element.children if child.tag == "gpu"]
        nets = [net for nic in element.children if nic.tag == "nic" for net in nic.children if net.tag == "net"]
        for gpu in ends:
            self.gpu(gpu, parent, element, rate_Bps)
        for net in nets:
            self.net(net, parent, rate_Bps)
        bridges = [child for child in element.children if child.tag == "pci"]
        if bridges:
            node = parent.add(Node(kind="pci", name=element.get("busid"), line=element.line, rate_Bps=rate_Bps))
            for child in bridges:
                self.pci(child, node)
        elif not ends and not nets:
            self.leaf(element, parent, rate_Bps)

    def leaf(self, element: _Element, parent: Node, rate_Bps: float | None) -> None:
        kind = element.get("class").lower()
        name = element.get("busid").lower() or f"line {element.line}"
        if kind.startswith(_GPU_CLASSES):
            self.bare_gpus = True
            model = gpus.by_pci_device(element.get("device"))
            parent.add(Node(kind="gpu", name=name, line=element.line, rate_Bps=rate_Bps, model=model))
        elif kind.startswith(_NIC_CLASSES):
            # Its port is not told, only its lanes: leave the rate open.
            parent.add(Node(kind="nic", name=name, line=element.line))

    def gpu(self, element: _Element, parent: Node, pci: _Element | None, rate_Bps: float | None = None) -> None:
        busid = (pci.get("busid") if pci is not None else element.get("busid")).lower()
        device = pci.get("device") if pci is not None else ""
        node = parent.add(Node(kind="gpu", name=busid or f"line {element.line}", line=element.line, rate_Bps=rate_Bps))
        node.label = self.whole(element, "dev")
        node.model = gpus.by_pci_device(device) or gpus.by_arch(element.get("gcn"))
        for link in element.children:
            if link.tag in ("nvlink", "xgmi"):
                self.nvlink(link, node)

    def nvlink(self, element: _Element, gpu: Node) -> None:
        ports = self.whole(element, "count")
        if ports is None or ports < 1:
            self.warnings.append(f"line {element.line}: <{element.tag}> without a count; 1 is taken")
            ports = 1
        gpu.is_xgmi = element.tag == "xgmi"
        target, kind = element.get("target").lower(), element.get("tclass").lower()
        if kind == _CPU_BRIDGE_CLASS:
            self.warnings.append(
                f"line {element.line}: NVLink between GPU and CPU is not modelled; its PCIe lanes are used"
            )
        elif kind == _NVSWITCH_CLASS or target.startswith("fffffff:"):
            gpu.switch_ports += ports
        else:
            gpu.direct[target] = gpu.direct.get(target, 0) + ports

    def net(self, element: _Element, parent: Node, rate_Bps: float | None) -> None:
        name = element.get("name") or f"net{element.get('dev')}"
        speed_text = element.get("speed")
        try:
            speed_Mbps = float(speed_text)
        except ValueError:
            speed_Mbps = 0.0
        if not 0 < speed_Mbps < float("inf"):
            self.warnings.append(
                f"line {element.line}: NIC {name} has the speed {speed_text!r}; a number in Mb/s belongs there"
            )
            port_Bps = None
        elif speed_Mbps > _MAX_NIC_MBPS:
            self.warnings.append(f"line {element.line}: NIC {name} has {speed_text} Mb/s; no NIC has, so kb/s is taken")
            port_Bps = speed_Mbps * 1e3 / 8
        else:
            port_Bps = speed_Mbps * 1e6 / 8
        if port_Bps is not None and rate_Bps is not None:
            port_Bps = min(port_Bps, rate_Bps)
        parent.add(Node(kind="nic", name=name, line=element.line, rate_Bps=port_Bps))

    def lanes(self, element: _Element) -> float | None:
        speed, width = element.get("link_speed"), self.whole(element, "link_width")
        match = re.match(r"([\d.]+)\s*GT/s", speed)
        lane_Bps = _LANE_BPS.get(float(match[1])) if match and re.fullmatch(r"\d+(\.\d+)?", match[1]) else None
        rate_Bps = lane_Bps * width if lane_Bps and width and width > 0 else None
        if rate_Bps is not None and rate_Bps < _ASLEEP_BPS and not element.get("class").startswith(_NIC_CLASSES):
            self.warnings.append(
                f"line {element.line}: the lanes of {element.get('busid')} show {rate_Bps / GB:g} GB/s; a link that "
                "sleeps does, so the rate is taken as not told"
            )
            return None
        return rate_Bps

    def whole(self, element: _Element, key: str) -> int | None:
        text = element.get(key)
        if not text:
            return None
        if not re.fullmatch(r"[+-]?\d{1,9}", text):
            raise TopologyError(f"line {element.line}: {key}={text!r} of <{element.tag}> is not a whole number")
        return int(text)
