"""Putting the cells of damaged rows under the right columns, or refusing to.

A row is right when it has as many cells as there are columns and its own
column holds the X.  Otherwise a cell is missing.  The matrix is symmetric, so
the right rows tell what the missing ones must hold; a placement counts only
if it is the single one that fits.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, islice

from proteus.cluster.readers.smi_matrix import Matrix, Row
from proteus.errors import TopologyError

Cells = dict[tuple[str, str], str]

#: ways to place the cells of one row that are tried
_MAX_PLACEMENTS = 20_000


def cells_by_column(matrix: Matrix, warnings: list[str]) -> Cells:
    """``(row, column) -> keyword`` for every cell that is known.

    Raises
    ------
    TopologyError
        A row cannot be placed without guessing.
    """
    _add_missing_columns(matrix, warnings)
    columns = matrix.columns
    known: Cells = {}
    damaged: list[Row] = []
    for row in matrix.rows:
        placed = _plain(row, columns)
        if placed is None:
            damaged.append(row)
        else:
            known.update(_by_column(row, columns, placed))
    # Rows with the fewest missing cells first: each helps the next.
    for row in sorted(damaged, key=lambda row: -len(row.cells)):
        known.update(_by_column(row, columns, _repaired(row, columns, known, warnings)))
    _check_symmetry(matrix, known, warnings)
    missing = [label for label in matrix.gpus if all(row.label != label for row in matrix.rows)]
    if missing:
        warnings.append(
            f"line {matrix.rows[-1].line}: the rows of {', '.join(missing)} are missing; "
            "what their columns in the other rows do not tell stays unknown"
        )
    return known


def _by_column(row: Row, columns: list[str], cells: list[str | None]) -> Cells:
    return {(row.label, column): cell for column, cell in zip(columns, cells, strict=True) if cell is not None}


def _add_missing_columns(matrix: Matrix, warnings: list[str]) -> None:
    """Give the header the GPUs that have rows and no column."""
    for row in matrix.rows:
        if row.label in matrix.columns:
            continue
        place = sum(int(label[3:]) < int(row.label[3:]) for label in matrix.gpus)
        if not (place < len(row.cells) and row.cells[place] == "X"):
            raise TopologyError(
                f"line {row.line}: row {row.label} has no column in the header of line {matrix.line} "
                f"({' '.join(matrix.columns)}), and its X does not stand where it would belong"
            )
        matrix.gpus.insert(place, row.label)
        warnings.append(f"line {matrix.line}: the header lacks {row.label}, which has a row; the column is added")


def _plain(row: Row, columns: list[str]) -> list[str | None] | None:
    """The cells of a row that needs no repair; an empty tab field is an unknown cell."""
    own_column = columns.index(row.label)
    if len(row.cells) == len(columns) and row.cells[own_column] == "X" and row.cells.count("X") == 1:
        return [None if cell == "N/A" else cell for cell in row.cells]
    fields = row.fields[: len(columns)]
    filled = [part for part in fields if part]
    if len(fields) == len(columns) and filled == row.cells and fields[own_column] == "X":
        return [part or None for part in fields]
    return None


def _repaired(row: Row, columns: list[str], known: Cells, warnings: list[str]) -> list[str | None]:
    own_column, count, wanted = columns.index(row.label), len(row.cells), len(columns)
    mirror = [known.get((column, row.label)) for column in columns]
    if count > wanted:
        raise TopologyError(
            f"line {row.line}: row {row.label} has {count} cells for {wanted} columns; a column is missing in the "
            f"header ({columns[0]} ... {columns[-1]}), or a cell was added"
        )
    if row.is_last and (not row.tail or _is_cut_word(row.tail)):
        cut = _cut_row(row, own_column, mirror, wanted)
        if cut is not None:
            warnings.append(
                f"line {row.line}: row {row.label} ends after {count} of {wanted} cells; the rest is taken from the "
                "columns of the other rows where they tell"
            )
            return cut
    answers: list[list[str | None]] = []
    for places in islice(combinations(range(wanted), count), _MAX_PLACEMENTS):
        filled = _placed(row.cells, places, own_column, mirror)
        if filled is not None and filled not in answers:
            answers.append(filled)
            if len(answers) > 1:
                break
    if len(answers) == 1 and None not in answers[0]:
        warnings.append(
            f"line {row.line}: row {row.label} has {count} cells for {wanted} columns; the missing ones are taken from "
            "the columns of the other rows, the only way that fits"
        )
        return answers[0]
    why = "no placement fits the other rows" if not answers else "the other rows leave more than one way to place them"
    raise TopologyError(
        f"line {row.line}: row {row.label} has {count} cells for {wanted} columns, and {why}; "
        "correct the row or give the output of nvidia-smi topo -m again"
    )


def _is_cut_word(tail: list[str]) -> bool:
    return len(tail) == 1 and any(
        word.startswith(tail[0]) for word in ("SYS", "SOC", "NODE", "NV", "PHB", "PXB", "PIX")
    )


def _cut_row(row: Row, own_column: int, mirror: list[str | None], wanted: int) -> list[str | None] | None:
    """A row whose end is missing: its cells are the first ones; the last may be cut inside."""
    cells: list[str | None] = list(row.cells)
    if len(cells) > own_column and cells[own_column] != "X":
        return None
    mirror_cell = mirror[len(cells) - 1]
    last = row.cells[-1]
    if mirror_cell is not None and mirror_cell != last and mirror_cell.startswith(last):
        cells[-1] = mirror_cell
    if any(m is not None and c != m for c, m in zip(cells, mirror, strict=False) if c != "X"):
        return None
    filled = [*cells, *mirror[len(cells) :]]
    filled[own_column] = "X"
    return filled[:wanted]


def _placed(
    cells: list[str], places: tuple[int, ...], own_column: int, mirror: list[str | None]
) -> list[str | None] | None:
    """`cells` at `places`, the rest from `mirror`; None when that contradicts it."""
    filled = list(mirror)
    filled[own_column] = "X"
    for place, cell in zip(places, cells, strict=True):
        if (cell == "X") != (place == own_column) or (mirror[place] is not None and mirror[place] != cell):
            return None
        filled[place] = cell
    return filled


def _check_symmetry(matrix: Matrix, known: Cells, warnings: list[str]) -> None:
    """Where two rows disagree, the one that agrees more with the others counts, then the commoner word."""
    line = {row.label: row.line for row in matrix.rows}
    clashes = [(a, b) for (a, b), cell in known.items() if known.get((b, a), cell) != cell]
    faults = Counter(a for a, _ in clashes)
    common = Counter(known.values())
    order = {column: i for i, column in enumerate(matrix.columns)}
    for a, b in clashes:
        if order[a] < order[b]:
            right, wrong = sorted(((a, b), (b, a)), key=lambda pair: (faults[pair[0]], -common[known[pair]]))
            warnings.append(
                f"line {line[wrong[0]]}: {wrong[0]}-{wrong[1]} is {known[wrong]}, but line {line[right[0]]} has "
                f"{known[right]}, which is taken"
            )
            known[wrong] = known[right]
