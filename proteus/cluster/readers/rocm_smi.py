"""Reader of ``rocm-smi --showtopo``."""

from __future__ import annotations

import re

from proteus.cluster.survey import SeenGpu, Survey
from proteus.errors import TopologyError
from proteus.hardware import Gpu, gpus

_NUMA = re.compile(r"GPU\s*\[(\d+)\].*Numa (Node|Affinity)\s*:\s*(-?\d+)", re.IGNORECASE)
_MODEL = re.compile(r"Card (?:series|model)\s*:\s*(.+)", re.IGNORECASE)
_TYPE_TITLE = "link type between two gpus"
_HOPS_TITLE = "hops between two gpus"
#: words of the link type table; "0" is the GPU itself
_TYPES = ("XGMI", "PCIE", "QPI")

Table = dict[tuple[int, int], str]


def read_rocm_smi(text: str, name: str) -> Survey:
    """What ``rocm-smi --showtopo`` says; the table of link types is needed."""
    lines = text.split("\n")
    tables = _tables(lines)
    if _TYPE_TITLE not in tables:
        raise TopologyError(
            "line 1: no table 'Link Type between two GPUs'; give the whole output of rocm-smi --showtopo"
        )
    numbers, types = tables[_TYPE_TITLE]
    _, hops = tables.get(_HOPS_TITLE, (numbers, {}))
    warnings: list[str] = []
    pairs, direct = [], []
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers[i + 1 :], i + 1):
            word = _agreed(types, a, b, warnings)
            if word is None:
                continue
            pairs.append((i, j, word))
            if word == "XGMI" and hops.get((a, b), "1") == "1":
                direct.append((i, j, 0))
    numa_of_gpu: dict[int, int] = {}
    for match in filter(None, map(_NUMA.search, lines)):
        if match[2].lower() == "node":
            numa_of_gpu[int(match[1])] = int(match[3])
        else:  # the same number, for a GPU whose node is not printed
            numa_of_gpu.setdefault(int(match[1]), int(match[3]))
    numa = [numa_of_gpu.get(n, -1) for n in numbers]
    nodes = sorted(set(numa) - {-1}) or [-1]
    parents = {node: f"cpu{k}" for k, node in enumerate(nodes)} | ({-1: "cpu0"} if -1 in numa else {})
    model = _model(lines)
    return Survey(
        kind="rocm-smi",
        name=name,
        cpus=tuple(f"cpu{k}" for k in range(len(nodes))),
        gpus=tuple(
            SeenGpu(label=str(n), parent=parents[node], numa=node if node >= 0 else None, model=model)
            for n, node in zip(numbers, numa, strict=True)
        ),
        pairs=tuple(pairs),
        direct=tuple(direct),
        is_xgmi=True,
        warnings=tuple(warnings),
    )


def _tables(lines: list[str]) -> dict[str, tuple[list[int], Table]]:
    """Every table of the output by its title, with its GPU numbers."""
    tables: dict[str, tuple[list[int], Table]] = {}
    title = ""
    columns: list[int] = []
    short: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if line.strip().startswith("==") and "between two GPUs" in line:
            title, columns = re.sub(r"[=\s]+", " ", line).strip().lower(), []
        elif title and words and all(re.fullmatch(r"GPU\d+", word) for word in words):
            columns = [int(word[3:]) for word in words]
            if title in tables:
                raise TopologyError(f"line {number}: a second table {title!r}; give the output of one machine")
            tables[title] = (columns, {})
        elif columns and words and re.fullmatch(r"GPU\d+", words[0]):
            if title in short:
                raise TopologyError(
                    f"line {short[title]}: a row of {title!r} has fewer cells than the {len(columns)} GPUs, and rows "
                    "follow it; a cell is missing, the columns cannot be told"
                )
            if len(words) - 1 < len(columns):
                short[title] = number
            _row(number, title, columns, words, tables[title][1])
        elif columns and words and line.strip().startswith("=="):
            title, columns = "", []
    for title, (columns, table) in tables.items():
        if title == _TYPE_TITLE and not table:
            raise TopologyError(
                f"line 1: the table {title!r} of {len(columns)} GPUs has no rows; give the whole output"
            )
    return tables


def _row(number: int, title: str, columns: list[int], words: list[str], table: Table) -> None:
    gpu, cells = int(words[0][3:]), words[1:]
    if gpu not in columns:
        raise TopologyError(f"line {number}: row GPU{gpu} has no column; the columns are {columns}")
    # A row that ends early was cut; its cells still stand below the right columns when its own is a 0.
    place = columns.index(gpu)
    if len(cells) > len(columns):
        raise TopologyError(f"line {number}: row GPU{gpu} of {title!r} has {len(cells)} cells for {len(columns)} GPUs")
    if place < len(cells) and cells[place] not in ("0", "N/A", "SELF", "-", "X"):
        raise TopologyError(
            f"line {number}: row GPU{gpu} of {title!r} has {cells[place]!r} where it meets itself; 0 belongs there, "
            "a cell is missing or added"
        )
    for peer_gpu, cell in zip(columns, cells, strict=False):
        if peer_gpu != gpu:
            if title == _TYPE_TITLE and cell.upper() not in _TYPES and cell != "N/A":
                raise TopologyError(
                    f"line {number}: link type {cell!r} between GPU{gpu} and GPU{peer_gpu}; "
                    f"known are {', '.join(_TYPES)}"
                )
            table[gpu, peer_gpu] = cell.upper()


def _agreed(types: Table, a: int, b: int, warnings: list[str]) -> str | None:
    one, two = types.get((a, b)), types.get((b, a))
    if one is None and two is None:
        warnings.append(f"the link between GPU{a} and GPU{b} is not told (rows are cut); PCIE is taken")
        return None
    if one is not None and two is not None and one != two:
        warnings.append(f"GPU{a} to GPU{b} is {one} but {two} on the way back; PCIE is taken")
        return "PCIE"
    return one or two


def _model(lines: list[str]) -> Gpu | None:
    models = {gpus.find(match[1].strip()) for line in lines if (match := _MODEL.search(line))} - {None}
    return models.pop() if len(models) == 1 else None
