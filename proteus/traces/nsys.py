"""Exports of Nsight Systems: ``nsys export --type sqlite``.

Tables and columns: Nsight Systems user guide, "SQLite Schema Reference".
Times are whole nanoseconds; names stand in ``StringIds``.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from proteus.errors import InputError
from proteus.traces.events import FileEvents, Names, Table, kernel_table, launch_table, memory_table, op_table
from proteus.traces.kineto import MAX_EVENTS, rank_in_name

_MAGIC = b"SQLite format 3\0"
#: CUPTI's names of the kinds of a copy (CUpti_ActivityMemcpyKind), as Kineto writes them
_COPIES: dict[object, str] = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}


def is_sqlite(path: Path) -> bool:
    """Whether a file begins as SQLite's do."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_nsys(path: Path) -> FileEvents:
    """The events of one export.

    Raises
    ------
    InputError
        It is damaged or no export of Nsight Systems.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            return _read(path, base)
    except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is a damaged SQLite file or no export of Nsight Systems: {error}") from None


def _read(path: Path, base: sqlite3.Connection) -> FileEvents:
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables & {"CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"}:
        raise InputError("holds no tables of Nsight Systems; export with: nsys export --type sqlite REPORT.nsys-rep")
    names = Names()
    texts: dict[object, object] = {row[0]: row[1] for row in _rows(base, "StringIds", tables, "id", "value")}
    kernels, launches, ops = kernel_table(), launch_table(), op_table()
    origin = _first_time(base, tables)
    broken = 0
    shared = ("start", "end", "deviceId", "streamId", "correlationId")
    for *event, name in _rows(base, "CUPTI_ACTIVITY_KIND_KERNEL", tables, *shared, "demangledName"):
        broken += not _add(kernels, origin, *event, 0.0, names.id_of(_text(texts, name)), 0, -1)
    for *event, size, kind in _rows(base, "CUPTI_ACTIVITY_KIND_MEMCPY", tables, *shared, "bytes", "copyKind"):
        name_id = names.id_of(f"Memcpy {_COPIES.get(kind, kind)}")
        broken += not _add(kernels, origin, *event, size or 0, name_id, 1, -1)
    for *event, size in _rows(base, "CUPTI_ACTIVITY_KIND_MEMSET", tables, *shared, "bytes"):
        broken += not _add(kernels, origin, *event, size or 0, names.id_of("Memset (Device)"), 1, -1)
    for start, end, thread, correlation in _rows(
        base, "CUPTI_ACTIVITY_KIND_RUNTIME", tables, "start", "end", "globalTid", "correlationId"
    ):
        broken += not _add(launches, origin, start, end, correlation, thread)
    for start, end, thread, text, text_id in _rows(
        base, "NVTX_EVENTS", tables, "start", "end", "globalTid", "text", "textId"
    ):
        name = text if isinstance(text, str) else _text(texts, text_id)
        if end is not None and name:
            broken += not _add(ops, origin, start, end, thread, names.id_of(name))
    warnings = [f"{broken} events lack a time or an id that can be read and were skipped"] if broken else []
    if len(kernels) >= MAX_EVENTS:
        warnings.append(f"holds more than {MAX_EVENTS} events; the rest is not read")
    gpus = _rows(base, "TARGET_INFO_GPU", tables, "id", "name")
    columns = kernels.columns()
    return FileEvents(
        source=str(path),
        kernels=columns,
        launches=launches.columns(),
        ops=ops.columns(),
        memory=memory_table().columns(),
        names=names.texts(),
        rank=rank_in_name(path) if len(np.unique(columns["device"])) == 1 else None,
        device_names={number: name for number, name in gpus if isinstance(number, int) and isinstance(name, str)},
        origin_us=origin / 1e3,
        num_events=len(kernels) + len(launches) + len(ops),
        warnings=warnings,
    )


def _rows(base: sqlite3.Connection, table: str, tables: set[str], *columns: str) -> Iterator[tuple[object, ...]]:
    """Rows of a table, in order of its first column; columns that the version does not write are None."""
    if table not in tables:
        return
    there = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
    picked = ", ".join(f'"{name}"' if name in there else "NULL" for name in columns)
    yield from base.execute(f'SELECT {picked} FROM "{table}" ORDER BY 1 LIMIT {MAX_EVENTS}')


def _first_time(base: sqlite3.Connection, tables: set[str]) -> float:
    """Nanoseconds of the first kernel; times count from there so that they keep their digits."""
    for start, *_ in _rows(base, "CUPTI_ACTIVITY_KIND_KERNEL", tables, "start"):
        if isinstance(start, int):
            return float(start)
    return 0.0


def _add(table: Table, origin: float, *event: object) -> bool:
    """Append an event with its times in microseconds; False where they, or an id, are not what they must be."""
    start, end, *rest = event
    if not isinstance(start, int) or not isinstance(end, int) or end < start or start < 0:
        return False
    if not all(isinstance(value, int | float) for value in rest):
        return False
    table.add((start - origin) / 1e3, (end - start) / 1e3, *rest)  # type: ignore[arg-type]
    return True


def _text(texts: dict[object, object], number: object) -> str:
    text = texts.get(number)
    return text if isinstance(text, str) else "unknown"
