"""Reader of ``nvidia-smi topo -m`` (and ``-mp``)."""

from __future__ import annotations

import re

from proteus.cluster.readers.models import find_models
from proteus.cluster.readers.smi_matrix import Matrix, Row, find_matrix
from proteus.cluster.readers.smi_repair import Cells, cells_by_column
from proteus.cluster.readers.smi_tree import place
from proteus.cluster.survey import SeenGpu, SeenNic, Survey
from proteus.errors import TopologyError

#: how far two devices are apart, nearest first; SOC and PSB are names of old drivers
DISTANCE = {"PIX": 1, "PSB": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
_LEGEND = re.compile(r"^\W*(NIC\d+)\s*:\s*(\S+)\s*$")
_PCI_ONLY = re.compile(r"topo\s+(?:-mp|-pm|-m\s+-p|-p\s+-m)\b")
_NUMA = re.compile(r"\d+(?:[,\-]\d+)*")


def has_matrix(text: str) -> bool:
    """Whether `text` holds a matrix of GPUs."""
    try:
        find_matrix(text.split("\n"), [])
    except TopologyError:
        return False
    return True


def read_smi_topo(text: str, name: str) -> Survey:
    """What ``nvidia-smi topo -m`` says.

    Cells that a paste has lost are restored where the rest of the matrix
    leaves one way, with a warning; otherwise the file is refused.
    """
    lines = text.split("\n")
    warnings: list[str] = []
    matrix = find_matrix(lines, warnings)
    cells = cells_by_column(matrix, warnings)
    both = cells | {(b, a): cell for (a, b), cell in cells.items() if (b, a) not in cells}
    numa, cpus = _affinities(matrix, warnings)
    pci_only = bool(_PCI_ONLY.search(text))
    if pci_only:
        warnings.append("topo -mp shows PCIe only; NVLink, if there is any, is not in this file")
    pairs = _pairs(matrix, both, warnings)
    if not pairs and len(matrix.gpus) > 1:
        raise TopologyError(
            f"line {matrix.rows[0].line}: no cell between two GPUs holds NV#, PIX, PXB, PHB, NODE or SYS; "
            "give the output of nvidia-smi topo -m"
        )
    legend = {match[1]: match[2] for line in lines if (match := _LEGEND.match(line))}
    tree = place(matrix.gpus, matrix.nics, both, [numa[g] or cpus[g] for g in matrix.gpus])
    models = find_models(lines, [int(label[3:]) for label in matrix.gpus], warnings)
    return Survey(
        kind="smi-topo",
        name=name,
        cpus=tree.cpus,
        switches=tree.switches,
        gpus=tuple(
            SeenGpu(
                label=label[3:],
                parent=tree.parents[label],
                numa=_number(numa[label]),
                model=models[i],
                nearest=_nearest(label, matrix.nics, both),
            )
            for i, label in enumerate(matrix.gpus)
        ),
        nics=tuple(SeenNic(name=nic, parent=tree.parents[nic], device=legend.get(nic)) for nic in matrix.nics),
        pairs=pairs,
        direct=tuple((a, b, int(word[2:])) for a, b, word in pairs if word.startswith("NV")),
        tells_nvlink=not pci_only,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _pairs(matrix: Matrix, cells: Cells, warnings: list[str]) -> tuple[tuple[int, int, str], ...]:
    pairs, unknown = [], []
    for i, a in enumerate(matrix.gpus):
        for j, b in enumerate(matrix.gpus[i + 1 :], i + 1):
            if (a, b) in cells:
                pairs.append((i, j, cells[a, b]))
            else:
                unknown.append(f"{a}-{b}")
    if unknown:
        warnings.append(f"not told: {', '.join(unknown)}; their place follows from the other pairs, or is the same CPU")
    return tuple(pairs)


def _nearest(gpu: str, nics: list[str], cells: Cells) -> tuple[str, ...] | None:
    if not nics:
        return None
    far = {nic: DISTANCE[cells[gpu, nic]] for nic in nics if cells.get((gpu, nic)) in DISTANCE}
    if len(far) < len(nics):
        # A row that was cut: a nearer NIC may be among those not told.
        return None
    least = min(far.values())
    return tuple(nic for nic, distance in far.items() if distance == least)


def _affinities(matrix: Matrix, warnings: list[str]) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """NUMA and CPU lists per GPU."""
    numa: dict[str, str | None] = dict.fromkeys(matrix.gpus)
    cpus: dict[str, str | None] = dict.fromkeys(matrix.gpus)
    for row in matrix.rows:
        if row.label in numa:
            fields = _tail(row, matrix, warnings)
            cpus[row.label] = _told(fields.get("CPU AFFINITY", ""))
            value = _told(fields.get("NUMA AFFINITY", ""))
            numa[row.label] = value if value and _NUMA.fullmatch(value) else None
    return numa, cpus


def _tail(row: Row, matrix: Matrix, warnings: list[str]) -> dict[str, str]:
    """The lists behind the cells by heading."""
    headings, words = matrix.headings, _joined(row.tail)
    if len(words) == len(headings):
        return dict(zip(headings, words, strict=False))
    fields = row.fields[len(matrix.columns) :]
    if fields and [part for part in fields if part] == words:
        return dict(zip(headings, fields, strict=False))
    is_list = bool(words) and ("-" in words[0] or "," in words[0])
    if is_list and len(words) < len(headings) and headings[0] == "CPU AFFINITY":
        return dict(zip(headings, words, strict=False))
    if words:
        warnings.append(
            f"line {row.line}: row {row.label} has {len(words)} lists for {len(headings)} headings; they are left out"
        )
    return {}


def _joined(words: list[str]) -> list[str]:
    """Lists that were written with blanks after the commas."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].endswith(","):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _told(text: str) -> str | None:
    return text if text and text.upper() not in ("N/A", "-1") else None


def _number(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text
