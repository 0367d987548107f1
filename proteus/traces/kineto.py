"""PyTorch profiler (Kineto) traces: JSON and .json.gz, CUDA and ROCm, old and new names of the same things.

Categories and fields are those of libkineto/src/output_json.cpp; before 2022
(the plugin for TensorBoard) categories were capitalised and ids written as
``external id``.
"""

from __future__ import annotations

import math
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from proteus.traces.events import (
    Collective,
    FileEvents,
    Names,
    kernel_table,
    launch_table,
    memory_table,
    op_table,
    whole,
)
from proteus.traces.jsonstream import EventFile
from proteus.traces.kinds import kind_of_collective

#: category → what it is to us
_KERNEL, _COPY, _LAUNCH, _OP, _ANNOTATION = range(5)
_CATEGORIES = {
    "kernel": _KERNEL, "Kernel": _KERNEL, "mtia_kernel": _KERNEL, "concurrent_kernel": _KERNEL,
    "gpu_memcpy": _COPY, "gpu_memset": _COPY, "Memcpy": _COPY, "Memset": _COPY,
    "cuda_runtime": _LAUNCH, "cuda_driver": _LAUNCH, "Runtime": _LAUNCH, "hip_runtime": _LAUNCH,
    "privateuse1_runtime": _LAUNCH, "xpu_runtime": _LAUNCH, "mtia_runtime": _LAUNCH, "privateuse1_driver": _LAUNCH,
    "cpu_op": _OP, "Operator": _OP,
    "user_annotation": _ANNOTATION,
}  # fmt: skip
_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
#: bytes of an element; names of PyTorch c10/core/ScalarType.h, as record_param_comms writes them
_DTYPE_BYTES = {
    "Byte": 1, "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Short": 2, "Half": 2, "BFloat16": 2,
    "Int": 4, "Float": 4, "Long": 8, "Double": 8,
}  # fmt: skip
#: events; some hundred million fit no memory
MAX_EVENTS = 200_000_000
_NAMED_RANK = re.compile(r"(?:rank|worker)[-_.]?(\d{1,6})", re.IGNORECASE)


def read_kineto(path: Path) -> FileEvents:
    """The events of one file.

    Raises
    ------
    InputError
        It is no trace.
    """
    file = EventFile(path=path)
    names = Names()
    collectives: list[Collective] = []
    known: dict[tuple[object, ...], int] = {}
    kernels, launches, ops, memory = kernel_table(), launch_table(), op_table(), memory_table()
    steps: dict[int, tuple[float, float]] = {}
    origin: float | None = None
    malformed = negative = before_zero = twice = first_malformed = 0
    category_of, id_of = _CATEGORIES.get, names.id_of
    for event in file.events():
        category = event.get("cat")
        if type(category) is not str:
            if event.get("name") != "[memory]":
                continue
            sort = None
        else:
            sort = category_of(category)
        if sort is None and event.get("name") != "[memory]":
            continue
        try:
            ts = float(event["ts"])
            if not math.isfinite(ts):
                raise ValueError
            if ts < 0.0:
                before_zero += 1
                continue
            if origin is None:
                origin = ts
            ts -= origin
            if sort is None:
                args = event["args"]
                if args.get("Device Type") == 1 and "Total Allocated" in args:
                    memory.add(ts, whole(args.get("Device Id")), float(args["Total Allocated"]))
                continue
            if event.get("ph") != "X":
                continue
            dur, name = float(event["dur"]), event["name"]
            if not math.isfinite(dur) or type(name) is not str:
                raise ValueError
            if dur < 0.0:
                negative += 1
                continue
            args = event.get("args") or {}
            if sort <= _COPY:
                stream = args.get("stream")
                if stream is None:
                    stream = str(event.get("tid")).removeprefix("stream ")
                device = args.get("device")
                row = -1
                if "Collective name" in args:
                    collective = _collective(args)
                    key = (collective.kind, collective.size_bytes, collective.group, collective.group_size)
                    row = known.setdefault(key, len(collectives))
                    if row == len(collectives):
                        collectives.append(collective)
                kernels.add(
                    ts, dur, whole(event["pid"] if device is None else device), whole(stream),
                    whole(args.get("correlation")), float(args.get("bytes", 0.0)), id_of(name), sort == _COPY, row,
                )  # fmt: skip
            elif sort == _LAUNCH:
                if "correlation" in args:
                    launches.add(ts, dur, whole(args["correlation"]), _thread(event))
            else:
                if name.startswith("ProfilerStep"):
                    step = _STEP.match(name)
                    if step:
                        twice += int(step[1]) in steps
                        steps.setdefault(int(step[1]), (ts, ts + dur))
                    continue
                ops.add(ts, dur, _thread(event), id_of(name))
            if file.num_events > MAX_EVENTS:
                file.warnings.append(f"holds more than {MAX_EVENTS} events; the rest is not read")
                break
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            first_malformed = first_malformed or file.num_events
            malformed += 1
    warnings = file.warnings
    if file.num_damaged:
        warnings.append(f"{file.num_damaged} events are no JSON and were skipped")
    if malformed:
        warnings.append(
            f"{malformed} events lack a time, name or id that can be read and were skipped, "
            f"the first is event {first_malformed}"
        )
    if negative:
        warnings.append(f"{negative} events have a negative duration and were skipped")
    if before_zero:
        warnings.append(f"{before_zero} events have a negative time and were skipped")
    if twice:
        warnings.append(f"{twice} profiler steps stand there twice; the first of each counts")
    rank, world_size, backend = _distributed(file.fields.get("distributedInfo"))
    if rank is None:
        rank = rank_in_name(path)
    return FileEvents(
        source=str(path),
        kernels=kernels.columns(),
        launches=launches.columns(),
        ops=ops.columns(),
        memory=memory.columns(),
        names=names.texts(),
        collectives=tuple(collectives),
        steps=dict(sorted(steps.items())),
        rank=rank,
        world_size=world_size,
        backend=backend,
        device_names=_device_names(file.fields.get("deviceProperties")),
        origin_us=(origin or 0.0) + _base_us(file.fields.get("baseTimeNanoseconds")),
        num_events=file.num_events,
        warnings=warnings,
    )


def rank_in_name(path: Path) -> int | None:
    """The rank that a file's name says: ``rank-34.pt.trace.json``, ``worker0.json``."""
    found = _NAMED_RANK.search(path.name)
    return int(found[1]) if found else None


def _thread(event: dict[str, Any]) -> int:
    """A number for the thread of a host event, which may be written as text."""
    thread = event.get("tid")
    try:
        return whole(thread)
    except (ValueError, TypeError):
        return zlib.crc32(str(thread).encode("utf-8", "replace"))


def _collective(args: dict[str, Any]) -> Collective:
    width = _DTYPE_BYTES.get(str(args.get("dtype")), 0)
    elements = max(float(args.get("In msg nelems") or 0), float(args.get("Out msg nelems") or 0))
    return Collective(
        kind=kind_of_collective(str(args["Collective name"])),
        size_bytes=elements * width,
        group=str(args.get("Process Group Description") or args.get("Process Group Name") or "")[:100],
        group_size=whole(args.get("Group size"), 0),
    )


def _distributed(info: Any) -> tuple[int | None, int | None, str | None]:
    if not isinstance(info, dict):
        return None, None, None
    rank, world_size, backend = info.get("rank"), info.get("world_size"), info.get("backend")
    is_rank = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 2**31
    is_size = isinstance(world_size, int) and not isinstance(world_size, bool) and 0 < world_size < 2**31
    return rank if is_rank else None, world_size if is_size else None, backend if isinstance(backend, str) else None


def _device_names(properties: Any) -> dict[int, str]:
    if not isinstance(properties, list):
        return {}
    return {
        row["id"]: row["name"]
        for row in properties
        if isinstance(row, dict) and isinstance(row.get("id"), int) and isinstance(row.get("name"), str)
    }


def _base_us(base: Any) -> float:
    """Microseconds that were taken from every time of the file; PyTorch 2.4 and later."""
    try:
        base_us = float(base) / 1e3
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return base_us if np.isfinite(base_us) else 0.0
