"""The matrix of ``nvidia-smi topo -m``: finding its header and rows in any text.

What people save is a paste: prompts, other output and log prefixes around it,
tabs turned into blanks or lost, lines wrapped or cut.  Words decide, not
positions: a header is a run of device names, a row is a device name followed
by cells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from proteus.errors import TopologyError

_KEYWORDS = r"X|NV\d{1,2}|SYS|SOC|NODE|PHB|PXB|PSB|PIX|N/A"
#: more stand in no header of a host; the search for wrapped words takes the square of it
_MAX_WORDS = 1000
_CELL = re.compile(_KEYWORDS)
#: cells with a lost separator; NV18 beside another cell still splits in one way
_FUSED = re.compile(rf"(?:{_KEYWORDS}){{2,}}")
#: a cell that lost a letter; what it was is told by the other rows
_BROKEN = re.compile(r"[A-Z#?]{1,4}")
#: the last cell with the CPU list behind it, as in SYS0-27
_FUSED_WITH_CPUS = re.compile(r"(X|SYS|SOC|NODE|PHB|PXB|PSB|PIX)(\d[\d,\-]*)")
_HEADING = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID", re.IGNORECASE)
_HEADER_WORD = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID|\S+", re.IGNORECASE)
_GPU = re.compile(r"GPU\d+")
_FUSED_NAMES = re.compile(r"(?:GPU\d{1,2}|NIC\d{1,2}|mlx[45]_\d{1,2})+?(?=$|GPU|NIC|mlx)")
_NAME = re.compile(r"[A-Za-z][\w.\-]*\d[\w.\-]*|[A-Za-z]\w*_[\w.\-]*")
_LABEL_WITH_CELL = re.compile(rf"((?:GPU|NIC)\d+)({_KEYWORDS})")
_LIST = re.compile(r"\d[\d,\-]*|0x[0-9a-fA-F,x]+|N/A|-1")
#: what a heading reads like when the end of the line was cut off
_HEADING_PART = re.compile(r"CPU|NUMA|Affinity|GPU|ID|NUM\w?|Affin\w*|Aff\w*|CP|G|N|A|I", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class Row:
    """A line of the matrix: its cells as they stand there, and the lists behind them."""

    label: str
    line: int
    cells: list[str]
    tail: list[str]
    fields: list[str] = field(default_factory=list)
    is_last: bool = False


@dataclass(slots=True, kw_only=True)
class Matrix:
    """Header and rows."""

    line: int
    gpus: list[str]
    nics: list[str]
    headings: list[str]
    rows: list[Row]

    @property
    def columns(self) -> list[str]:
        return [*self.gpus, *self.nics]


def find_matrix(lines: list[str], warnings: list[str]) -> Matrix:
    """The first matrix of the text.

    Raises
    ------
    TopologyError
        There is none.
    """
    # The frames of tables in pages and boxes.
    lines = [line.replace("|", " ").replace("│", " ") for line in lines]
    headers = [i for i, line in enumerate(lines) if _header(line, i + 1, []) is not None]
    if not headers:
        return _without_header(lines, warnings)
    for start in headers:
        new_warnings: list[str] = []
        matrix = _matrix_at(lines, start, new_warnings)
        if matrix.rows:
            warnings += new_warnings
            return matrix
    raise TopologyError(f"line {headers[0] + 1}: a header of GPUs without any row; give the whole output")


def _matrix_at(lines: list[str], start: int, warnings: list[str]) -> Matrix:
    """The matrix whose header is line `start`; without rows when there are none."""
    matrix = _header(lines[start], start + 1, warnings)
    assert matrix is not None
    repeated = {column for column in matrix.columns if matrix.columns.count(column) > 1}
    if repeated:
        raise TopologyError(f"line {start + 1}: the columns {', '.join(sorted(repeated))} stand there more than once")
    first = start + 1
    while first < len(lines) and (more := _header_continued(lines[first], matrix)):
        warnings.append(f"line {first + 1}: read as the rest of the header, which was wrapped")
        matrix.nics += more[0]
        matrix.headings += more[1]
        first += 1
    matrix.rows = _rows(lines, first, matrix, warnings)
    return matrix


def _header(text: str, line: int, warnings: list[str]) -> Matrix | None:
    spaced = _HEADING.sub(lambda heading: f" {heading[0]} ", text)
    words = _HEADER_WORD.findall(spaced)
    if len(words) > _MAX_WORDS:
        return None
    start = next((i for i, word in enumerate(words) if _names(word) and _GPU.match(word)), None)
    if start is None:
        return None
    gpus: list[str] = []
    nics: list[str] = []
    headings: list[str] = []
    for i, word in enumerate(words[start:]):
        parts = _names(word)
        if _HEADING.fullmatch(word):
            headings.append(re.sub(r"\s+", " ", word).upper())
        elif headings or (i and not parts):
            # After the first heading only headings follow; a cut one says nothing more.
            if not _HEADING_PART.fullmatch(word):
                return None
            if headings[-1:] != [""]:
                headings.append("")
        else:
            if len(parts) > 1:
                warnings.append(f"line {line}: {word!r} read as {' '.join(parts)} (a separator was lost)")
            for part in parts:
                if _CELL.fullmatch(part):
                    return None
                (gpus if _GPU.fullmatch(part) else nics).append(part)
    if not gpus or (len(gpus) + len(nics) < 2 and not headings):
        return None
    return Matrix(line=line, gpus=gpus, nics=nics, headings=headings, rows=[])


def _names(word: str) -> list[str]:
    """Device names in one word of a header; more than one when separators were lost."""
    parts = _FUSED_NAMES.findall(word)
    if len(parts) > 1 and "".join(parts) == word:
        return parts
    return [word] if _NAME.fullmatch(word) else []


def _header_continued(text: str, matrix: Matrix) -> tuple[list[str], list[str]] | None:
    words = _HEADER_WORD.findall(text)
    nics = [word for word in words if not _HEADING.fullmatch(word)]
    headings = [re.sub(r"\s+", " ", word).upper() for word in words if _HEADING.fullmatch(word)]
    names = all(_NAME.fullmatch(word) and not _GPU.match(word) and not _CELL.fullmatch(word) for word in nics)
    fits = names and not (matrix.headings and nics)
    return (nics, headings) if words and fits and (headings or len(nics) > 1) else None


def _rows(lines: list[str], first: int, matrix: Matrix, warnings: list[str]) -> list[Row]:
    rows: list[Row] = []
    last_text = max((i for i, text in enumerate(lines) if text.strip()), default=0)
    for i in range(first, len(lines)):
        if "Legend" in lines[i]:
            break
        if _header(lines[i], i + 1, []) is not None:
            warnings.append(f"line {i + 1}: a second matrix begins here; only the first is read")
            break
        row = _row(lines[i], i + 1, matrix.columns, warnings)
        if row is None:
            if rows and _continues(lines[i], rows[-1], matrix):
                more = _split(lines[i].split(), i + 1, warnings)
                warnings.append(f"line {i + 1}: read as the rest of row {rows[-1].label}, which was wrapped")
                rows[-1].cells += more[0]
                rows[-1].tail += more[1]
                rows[-1].fields = []
            continue
        if any(row.label == previous.label for previous in rows):
            warnings.append(f"line {i + 1}: a second row {row.label}; only the first is read")
            break
        row.is_last = i == last_text
        rows.append(row)
    return rows


def _row(text: str, line: int, columns: list[str], warnings: list[str]) -> Row | None:
    words = text.split()
    for i, word in enumerate(words[:8]):
        fused = _LABEL_WITH_CELL.fullmatch(word)
        label = fused[1] if fused else word
        if label not in columns and not _GPU.fullmatch(label):
            continue
        rest = words[i + 1 :]
        if fused:
            warnings.append(f"line {line}: {word!r} read as {label} {fused[2]} (a separator was lost)")
            rest = [fused[2], *rest]
        cells, tail = _split(rest, line, warnings)
        if not cells:
            return None
        fields = text[text.index(word) :].split("\t")[1:] if "\t" in text else []
        return Row(label=label, line=line, cells=cells, tail=tail, fields=[part.strip() for part in fields])
    return None


def _split(words: list[str], line: int, warnings: list[str]) -> tuple[list[str], list[str]]:
    """Cells, and the lists behind them."""
    cells: list[str] = []
    for i, word in enumerate(words):
        if _CELL.fullmatch(word) and not (word == "N/A" and _only_lists(words[i:])):
            cells.append(word)
            continue
        fused = _FUSED_WITH_CPUS.fullmatch(word)
        if _FUSED.fullmatch(word):
            parts = _CELL.findall(word)
            warnings.append(f"line {line}: {word!r} read as {' '.join(parts)} (a separator was lost)")
            cells += parts
        elif fused:
            warnings.append(f"line {line}: {word!r} read as {fused[1]} {fused[2]} (a separator was lost)")
            return [*cells, fused[1]], [fused[2], *words[i + 1 :]]
        elif cells and _BROKEN.fullmatch(word) and i + 1 < len(words):
            warnings.append(f"line {line}: {word!r} is no keyword; it is taken as not told")
            cells.append("N/A")
        else:
            return cells, words[i:]
    return cells, []


def _only_lists(words: list[str]) -> bool:
    return all(_LIST.fullmatch(word) for word in words)


def _continues(text: str, row: Row, matrix: Matrix) -> bool:
    """Whether a line without a label is the wrapped end of `row`."""
    words = text.split()
    if not words:
        return False
    cells, tail = _split(words, 0, [])
    if len(cells) + len(tail) != len(words) or not _only_lists(tail):
        return False
    if cells:
        return not row.tail and len(row.cells) + len(cells) <= len(matrix.columns)
    return len(row.cells) == len(matrix.columns) and len(row.tail) + len(tail) <= len(matrix.headings)


def _without_header(lines: list[str], warnings: list[str]) -> Matrix:
    """Columns named after the rows, when the header line is gone and the rows are whole."""
    names = [word for text in lines for word in text.split()[:1] if _NAME.fullmatch(word) and not _CELL.fullmatch(word)]
    rows = [row for i, text in enumerate(lines) if (row := _row(text, i + 1, names, warnings)) is not None]
    labels = [row.label for row in rows]
    gpus = [label for label in labels if _GPU.fullmatch(label)]
    nics = labels[len(gpus) :]
    if len(rows) < 2 or len(set(labels)) < len(labels) or labels[: len(gpus)] != gpus or not gpus:
        raise TopologyError(
            "line 1: no line names the columns (GPU0 GPU1 ...); give the whole output of nvidia-smi topo -m"
        )
    for i, row in enumerate(rows):
        if len(row.cells) != len(rows) or row.cells[i] != "X":
            raise TopologyError(
                f"line {row.line}: the header line is missing, and row {row.label} with {len(row.cells)} cells does "
                f"not fit {len(rows)} rows; give the whole output of nvidia-smi topo -m"
            )
    warnings.append(f"line {rows[0].line}: the header line is missing; the columns are named after the rows")
    return Matrix(line=rows[0].line, gpus=gpus, nics=nics, headings=[], rows=rows)
