"""What a reader of any format hands over: the events of one file as columns, not yet cleaned or linked."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proteus.traces.kinds import KernelKind


class Names:
    """Text kept once each, known by number."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def id_of(self, name: str) -> int:
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = len(self._ids)
        return found

    def texts(self) -> tuple[str, ...]:
        return tuple(self._ids)


class Table:
    """Columns that grow row by row; a row costs its numbers and no Python object."""

    def __init__(self, **types: str) -> None:
        self._names = tuple(types)
        self._columns = tuple(array(code) for code in types.values())
        self._puts = tuple(column.append for column in self._columns)

    def add(self, *row: float) -> None:
        """Append one row; where a value does not fit its column, no part of it stays.

        Raises
        ------
        OverflowError, TypeError
        """
        length = len(self._columns[0])
        try:
            for put, value in zip(self._puts, row, strict=True):
                put(value)  # type: ignore[arg-type]
        except (OverflowError, TypeError):
            for column in self._columns:
                del column[length:]
            raise

    def __len__(self) -> int:
        return len(self._columns[0])

    def columns(self) -> dict[str, np.ndarray]:
        """The columns as arrays of their own."""
        return {
            name: np.array(column) if len(column) else np.empty(0, column.typecode)
            for name, column in zip(self._names, self._columns, strict=True)
        }


@dataclass(slots=True, kw_only=True)
class Collective:
    """What ``record_param_comms`` says of a collective.

    Parameters
    ----------
    kind
        None where the metadata name none.
    size_bytes
        The larger of what goes in and what comes out, per rank; 0 where unknown.
    group
        Name of the process group; empty where unknown.
    group_size
        0 where unknown.
    """

    kind: KernelKind | None
    size_bytes: float
    group: str
    group_size: int


@dataclass(slots=True, kw_only=True)
class FileEvents:
    """One file.

    Times are microseconds since `origin_us`, so that their digits are kept.

    Parameters
    ----------
    kernels
        ``ts``, ``dur``, ``device``, ``stream``, ``correlation`` (-1 without),
        ``bytes``, ``name``, ``is_copy``, ``collective`` (-1 or number in
        `collectives`).
    launches
        Calls of the runtime: ``ts``, ``dur``, ``correlation``, ``thread``.
    ops
        Operators on the host: ``ts``, ``dur``, ``thread``, ``name``.
    memory
        Bytes allocated on a device: ``ts``, ``device``, ``bytes``.
    steps
        Number → start and end.
    rank, world_size, backend
        None where the file does not say.
    warnings
        What is wrong with the file, in words.
    """

    source: str
    kernels: dict[str, np.ndarray]
    launches: dict[str, np.ndarray]
    ops: dict[str, np.ndarray]
    memory: dict[str, np.ndarray]
    names: tuple[str, ...]
    collectives: tuple[Collective, ...] = ()
    steps: dict[int, tuple[float, float]] = field(default_factory=dict)
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    device_names: dict[int, str] = field(default_factory=dict)
    origin_us: float = 0.0
    num_events: int = 0
    warnings: list[str] = field(default_factory=list)


def kernel_table() -> Table:
    return Table(
        ts="d", dur="d", device="q", stream="q", correlation="q", bytes="d", name="i", is_copy="b", collective="i"
    )  # fmt: skip


def launch_table() -> Table:
    return Table(ts="d", dur="d", correlation="q", thread="q")


def op_table() -> Table:
    return Table(ts="d", dur="d", thread="q", name="i")


def memory_table() -> Table:
    return Table(ts="d", device="q", bytes="d")


def whole(value: Any, otherwise: int = -1) -> int:
    """A whole number that fits 64 bits, also written as text.

    Raises
    ------
    ValueError
        It is something else.
    """
    if value is None:
        return otherwise
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number of more than 64 bits")
    return number


def product(dims: Iterable[Any]) -> float:
    """Number of elements."""
    total = 1.0
    for dim in dims:
        total *= float(dim)
    return total
