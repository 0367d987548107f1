"""Chakra execution traces (``.et``): read, written, and taken as a measurement where they record times.

A file is a row of protobuf messages, each with its length in front: the
metadata, then the nodes (schema/protobuf/et_def.proto of mlcommons/chakra,
version 0.0.4).  The few rules of the wire format that this needs stand below,
so that no protobuf library is needed::

    key = field << 3 | type      type 0: varint   1: 8 bytes   2: length and bytes   5: 4 bytes
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

import numpy as np

from proteus.arguments import FilePath, takes
from proteus.errors import InputError, context
from proteus.files import atomic_write
from proteus.traces.events import Collective, FileEvents, Names, kernel_table, launch_table, memory_table, op_table
from proteus.traces.kinds import KernelKind

#: bytes; a node with the shapes of all its inputs takes some thousand
MAX_MESSAGE_BYTES = 16 << 20
#: nodes in one file
MAX_NODES = 50_000_000
_VERSION = "0.0.4"
_NAMED_RANK = re.compile(r"\.(\d{1,6})\.et$")

#: what an attribute may be
Value = bool | int | float | str | tuple[int, ...] | tuple[str, ...]


class NodeType(IntEnum):
    """Types of nodes, numbered as in the schema."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


#: collective of the schema → kind; a barrier moves nothing and is an all-reduce of one number in NCCL
COLLECTIVES = {
    0: KernelKind.ALL_REDUCE,
    1: KernelKind.REDUCE,
    2: KernelKind.ALL_GATHER,
    3: KernelKind.GATHER,
    4: KernelKind.SCATTER,
    5: KernelKind.BROADCAST,
    6: KernelKind.ALL_TO_ALL,
    7: KernelKind.REDUCE_SCATTER,
    8: KernelKind.REDUCE_SCATTER,
    9: KernelKind.ALL_REDUCE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of an execution trace.

    Parameters
    ----------
    ctrl_deps, data_deps
        Ids of the nodes that come before it.
    start_us, duration_us
        0 where not recorded.
    attributes
        Such as ``comm_type``, ``comm_size``, ``is_cpu_op``.
    """

    id: int
    name: str
    type: NodeType
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    start_us: int = 0
    duration_us: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_on_host(self) -> bool:
        """Whether it runs on the CPU; a node that does not say so does (Chakra's feeder assumes the same)."""
        return bool(self.attributes.get("is_cpu_op", True))

    @property
    def collective(self) -> KernelKind | None:
        """What a communication node moves; None of others."""
        if self.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            return KernelKind.SEND_RECV
        if self.type != NodeType.COMM_COLL:
            return None
        number = self.attributes.get("comm_type")
        return COLLECTIVES.get(number, KernelKind.UNKNOWN_COMM) if isinstance(number, int) else KernelKind.UNKNOWN_COMM


@takes(InputError, path=FilePath())
def read_chakra(path: str | os.PathLike[str]) -> tuple[Node, ...]:
    """The nodes of a Chakra execution trace, in the order of the file.

    Raises
    ------
    InputError
        With the byte: the file is cut, or no such trace.

    Examples
    --------
    >>> import tempfile
    >>> node = Node(id=3, name="sum", type=NodeType.COMM_COLL, attributes={"comm_type": 0, "comm_size": 1 << 20})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_chakra(Path(folder, "a.0.et"), [node])
    ...     (back,) = read_chakra(Path(folder, "a.0.et"))
    >>> back == node, back.collective.label
    (True, 'all_reduce')
    """
    with context(str(path)):
        try:
            with open(path, "rb") as file:
                return tuple(_nodes(file))
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


@takes(InputError, path=FilePath())
def write_chakra(path: str | os.PathLike[str], nodes: Iterable[Node]) -> None:
    """Write nodes as a Chakra execution trace.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        metadata = _text(1, _VERSION)
        file.write(_varint(len(metadata)) + metadata)
        for node in nodes:
            message = _node_bytes(node)
            file.write(_varint(len(message)) + message)


def is_chakra(path: Path) -> bool:
    """Whether a file is named as Chakra's are."""
    return path.name.lower().endswith(".et")


def read_chakra_events(path: Path) -> FileEvents:
    """The nodes that ran on the device, as events.

    Raises
    ------
    InputError
        The trace records no times: it is a workload for a simulator.
    """
    with open(path, "rb") as file:
        nodes = [node for node in _nodes(file) if node.type != NodeType.METADATA]
    timed = [node for node in nodes if node.duration_us > 0]
    if nodes and not timed:
        kinds = [node.collective.label if node.collective else node.type.name.lower() for node in nodes]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        raise InputError(
            f"records no times ({counts}): it is a workload and no measurement; "
            "proteus.traces.read_chakra gives its nodes"
        )
    names = Names()
    collectives: list[Collective] = []
    kernels, ops = kernel_table(), op_table()
    origin = min((node.start_us for node in timed), default=0)
    for node in timed:
        start, kind = float(node.start_us - origin), node.collective
        if node.is_on_host and kind is None:
            ops.add(start, float(node.duration_us), 0, names.id_of(node.name))
            continue
        row, size = -1, _number(node, "comm_size")
        if kind is not None:
            row = len(collectives)
            group = str(node.attributes.get("pg_name", ""))
            collectives.append(Collective(kind=kind, size_bytes=size, group=group, group_size=0))
        kernels.add(
            start, float(node.duration_us), 0, int(_number(node, "stream")), -1, size, names.id_of(node.name), 0, row
        )  # fmt: skip
    rank = _NAMED_RANK.search(path.name)
    return FileEvents(
        source=str(path),
        kernels=kernels.columns(),
        launches=launch_table().columns(),
        ops=ops.columns(),
        memory=memory_table().columns(),
        names=names.texts(),
        collectives=tuple(collectives),
        rank=int(rank[1]) if rank else None,
        origin_us=float(origin),
        num_events=len(nodes),
        warnings=[f"{len(nodes) - len(timed)} nodes have no duration and were skipped"]
        if len(timed) < len(nodes)
        else [],
    )


def _number(node: Node, name: str) -> float:
    value = node.attributes.get(name, 0)
    return float(value) if isinstance(value, int | float) and np.isfinite(value) and 0 <= value < 2**62 else 0.0


# -- reading ------------------------------------------------------------------------------


def _nodes(file: BinaryIO) -> Iterator[Node]:
    """The messages of a file after its metadata."""
    at, count = 0, 0
    while True:
        size, width = _length(file, at)
        if size is None:
            if at == 0:
                raise InputError("is empty")
            return
        if size > MAX_MESSAGE_BYTES:
            raise InputError(f"is no Chakra trace: byte {at} announces a message of {size} bytes")
        message = file.read(size)
        if len(message) < size:
            raise InputError(f"is cut: the message at byte {at} has {len(message)} of {size} bytes")
        try:
            if at > 0:
                yield _node(message)
            else:
                dict(_fields(message))  # the metadata; only their form is checked
        except (ValueError, IndexError, struct.error) as error:
            raise InputError(f"is no Chakra trace: the message at byte {at} is damaged ({error})") from None
        at += width + size
        count += 1
        if count > MAX_NODES:
            raise InputError(f"holds more than {MAX_NODES} nodes")


def _length(file: BinaryIO, at: int) -> tuple[int | None, int]:
    """The varint at the file's place and its width; None at the end."""
    value = 0
    for width in range(10):
        byte = file.read(1)
        if not byte:
            if width:
                raise InputError(f"is cut in the length at byte {at}")
            return None, 0
        value |= (byte[0] & 0x7F) << (7 * width)
        if byte[0] < 0x80:
            return value, width + 1
    raise InputError(f"is no Chakra trace: no length at byte {at}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for width in range(10):
        byte = data[at + width]
        value |= (byte & 0x7F) << (7 * width)
        if byte < 0x80:
            return value, at + width + 1
    raise ValueError("a number of more than 10 bytes")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and raw value of every field of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        size = 8 if wire == 1 else 4 if wire == 5 else -1
        if wire == 2:
            size, at = _read_varint(data, at)
        if size < 0 or at + size > len(data):
            raise ValueError(f"field {number} does not fit")
        yield number, data[at : at + size]
        at += size


def _node(data: bytes) -> Node:
    numbers: dict[int, int] = {}
    name = ""
    deps: dict[int, list[int]] = {4: [], 5: []}
    attributes: dict[str, Value] = {}
    for number, value in _fields(data):
        if number == 2 and isinstance(value, bytes):
            name = value.decode("utf-8", "replace")
        elif number in deps:
            deps[number] += _packed(value)
        elif number == 10 and isinstance(value, bytes):
            key, attribute = _attribute(value)
            if attribute is not None:
                attributes[key] = attribute
        elif isinstance(value, int):
            numbers[number] = value
    kind = numbers.get(3, 0)
    if kind not in NodeType._value2member_map_:
        raise ValueError(f"node type {kind} is unknown")
    return Node(
        id=numbers.get(1, 0),
        name=name,
        type=NodeType(kind),
        ctrl_deps=tuple(deps[4]),
        data_deps=tuple(deps[5]),
        start_us=numbers.get(6, 0),
        duration_us=numbers.get(7, 0),
        attributes=attributes,
    )


def _packed(value: int | bytes) -> list[int]:
    """Repeated varints, packed or one alone."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        found.append(number)
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _attribute(data: bytes) -> tuple[str, Value | None]:
    """Name and value of an attribute; None of a type that is not used here."""
    name = ""
    found: Value | None = None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            name = value.decode("utf-8", "replace")
        elif number == 27:
            found = bool(value)
        elif number in (7, 9) and isinstance(value, int):
            found = _signed(value)
        elif number in (11, 13) and isinstance(value, int):
            found = value
        elif number in (15, 17) and isinstance(value, int):
            found = (value >> 1) ^ -(value & 1)
        elif number == 3 and isinstance(value, bytes):
            found = struct.unpack("<d", value)[0]
        elif number == 5 and isinstance(value, bytes):
            found = struct.unpack("<f", value)[0]
        elif number in (19, 21) and isinstance(value, bytes):
            found = int.from_bytes(value, "little")
        elif number in (23, 25) and isinstance(value, bytes):
            found = int.from_bytes(value, "little", signed=True)
        elif number == 29 and isinstance(value, bytes):
            found = value.decode("utf-8", "replace")
        elif number in (8, 10, 12, 14) and isinstance(value, bytes):
            found = tuple(_signed(item) for _, values in _fields(value) for item in _packed(values))
        elif number == 30 and isinstance(value, bytes):
            found = tuple(item.decode("utf-8", "replace") for _, item in _fields(value) if isinstance(item, bytes))
    return name, found


# -- writing ------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode("utf-8"))


def _int(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""  # proto3 leaves zeros out


def _node_bytes(node: Node) -> bytes:
    parts = [_int(1, node.id), _text(2, node.name) if node.name else b"", _int(3, node.type)]
    for number, deps in ((4, node.ctrl_deps), (5, node.data_deps)):
        if deps:
            parts.append(_bytes(number, b"".join(map(_varint, deps))))
    parts += [_int(6, node.start_us), _int(7, node.duration_us)]
    parts += [_bytes(10, _text(1, name) + _value_bytes(value)) for name, value in node.attributes.items()]
    return b"".join(parts)


def _value_bytes(value: Value) -> bytes:
    """A value in the member of the schema's ``oneof`` for its type; a member is written though it is 0."""
    if isinstance(value, bool):
        return _varint(27 << 3) + _varint(value)
    if isinstance(value, int):
        return _varint(9 << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(3 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        return _text(29, value)
    if all(isinstance(item, int) for item in value):
        return _bytes(10, _bytes(1, b"".join(_varint(int(item)) for item in value)))
    return _bytes(30, b"".join(_text(1, str(item)) for item in value))
