"""Measured machines as JSON files, and back with every value checked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from proteus.costs.collective_types import Collective
from proteus.costs.measured import CollectiveTimes, MeasuredOverlap
from proteus.costs.overlap import ComputeClass
from proteus.costs.work import Family, Work
from proteus.errors import InputError, context
from proteus.files import atomic_write
from proteus.hardware import Gpu, gpus
from proteus.hardware.gpu import Wiring
from proteus.profiling.machine import MeasuredMachine

#: first key of a file, and the version of its form
MARK, VERSION = "proteus_machine", 2
#: files beyond this are refused [bytes]: a kernel takes 200, no model has so many
MAX_BYTES = 64 * 2**20


#: what of a device's sheet a file holds
SHEET = (
    *("name", "vendor", "generation", "memory_bytes", "memory_Bps", "peak_flops", "nvlink_Bps", "nvlink_links"),
    *("wiring", "c2c_Bps", "pcie_gen", "tdp_w", "num_sms", "source"),
)


def is_machine(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it holds a measured machine."""
    try:
        with open(path, encoding="utf-8") as file:
            return f'"{MARK}"' in file.read(256)
    except (OSError, UnicodeDecodeError):
        return False


def write(machine: MeasuredMachine, path: str | os.PathLike[str]) -> None:
    """Save a machine; the file appears whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(to_plain(machine), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: str | os.PathLike[str]) -> MeasuredMachine:
    """The machine that :func:`proteus.profiling.profile` saved.

    Raises
    ------
    InputError
        The file holds no measured machine, or a value in it cannot be.
    """
    file = Path(path)
    if file.stat().st_size > MAX_BYTES:
        raise InputError(f"{path}: {file.stat().st_size:,} bytes; a measured machine has at most {MAX_BYTES:,}")
    with context(str(path)):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise InputError(f"no JSON: {error}") from error
        return from_plain(document)


def to_plain(machine: MeasuredMachine) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        MARK: VERSION,
        "name": machine.name,
        "about": dict(machine.about),
        "device": {name: _plain(getattr(machine.device, name)) for name in SHEET},
        "num_devices": machine.num_devices,
        "is_host": machine.is_host,
        "launch_s": machine.launch_s,
        "op_s": machine.op_s,
        "overlap": {
            side: {kind.name.lower(): share for kind, share in getattr(machine.overlap, side).items()}
            for side in ("compute", "comm")
        },
        "collectives": [asdict(times) for times in machine.collectives],
        "works": [{**asdict(work), "time_s": time_s} for work, time_s in machine.works.items()],
    }


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def from_plain(document: Any) -> MeasuredMachine:
    """The machine of plain values, each of them checked."""
    top = _Record(document, "the file")
    if top.integer(MARK) != VERSION:
        raise InputError(f"{MARK} is {document[MARK]}; this version reads {VERSION}. Run `proteus profile` again")
    overlap = top.record("overlap")
    return MeasuredMachine(
        name=top.text("name"),
        about={key: str(value) for key, value in top.record("about").values.items()},
        device=_device(top.record("device")),
        num_devices=top.integer("num_devices", minimum=1),
        is_host=top.boolean("is_host"),
        launch_s=top.number("launch_s"),
        op_s=top.number("op_s"),
        overlap=MeasuredOverlap(compute=_shares(overlap.record("compute")), comm=_shares(overlap.record("comm"))),
        collectives=tuple(_collective(row) for row in top.records("collectives")),
        works=dict(_work(row) for row in top.records("works")),
    )


def _device(row: _Record) -> Gpu:
    peaks = row.record("peak_flops")
    name, generation = row.text("name"), row.text("generation")
    known = gpus.find(name)
    chip, lenders = (known.chip, known.lenders) if known is not None else gpus.unmeasured(name, generation)
    row.text("vendor")
    wiring: Any = row.known(row.text("wiring"), get_args(Wiring))
    return Gpu(
        name=name,
        generation=generation,
        compute_capability=None if known is None else known.compute_capability,
        chip=chip,
        lenders=lenders,
        memory_bytes=row.integer("memory_bytes", minimum=1),
        memory_Bps=row.number("memory_Bps", above=0.0),
        peak_flops={dtype: peaks.number(dtype, above=0.0) for dtype in peaks.values},
        nvlink_Bps=row.number("nvlink_Bps"),
        nvlink_links=row.integer("nvlink_links"),
        wiring=wiring,
        c2c_Bps=row.number("c2c_Bps"),
        pcie_gen=row.integer("pcie_gen", minimum=1, maximum=6),
        tdp_w=None if row.values.get("tdp_w") is None else row.number("tdp_w"),
        num_sms=None if row.values.get("num_sms") is None else row.integer("num_sms", minimum=1),
        source=row.text("source"),
    )


def _shares(row: _Record) -> dict[ComputeClass, float]:
    known = {kind.name.lower(): kind for kind in ComputeClass}
    return {known[row.known(name, known)]: row.number(name) for name in row.values}


def _collective(row: _Record) -> CollectiveTimes:
    return CollectiveTimes(
        kind=Collective(row.known(row.text("kind"), list(Collective))),
        num_ranks=row.integer("num_ranks", minimum=2),
        size_bytes=row.numbers("size_bytes"),
        time_s=row.numbers("time_s"),
    )


def _work(row: _Record) -> tuple[Work, float]:
    work = Work(
        family=Family(row.known(row.text("family"), list(Family))),
        flop=row.number("flop"),
        bytes=row.number("bytes"),
        dtype=row.text("dtype"),
        shape=tuple(int(size) for size in row.numbers("shape")),
        num_kernels=row.integer("num_kernels"),
        variant=row.text("variant"),
    )
    return work, row.number("time_s")


class _Record:
    """A JSON object whose values are asked for by name and kind."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise InputError(f"{where} is not a JSON object; is it a file of `proteus profile`?")
        self.values: Mapping[str, Any] = values
        self.where = where

    def _get(self, name: str) -> Any:
        if name not in self.values:
            raise InputError(f"{self.where} lacks {name!r}; is it a file of `proteus profile`?")
        return self.values[name]

    def known(self, name: str, names: Sequence[str] | Mapping[str, Any]) -> str:
        if name not in names:
            raise InputError(f"{self.where}: {name!r} is none of {', '.join(names)}")
        return name

    def text(self, name: str) -> str:
        value = self._get(name)
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {name}={value!r} is not text")
        return value

    def boolean(self, name: str) -> bool:
        value = self._get(name)
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {name}={value!r} is neither true nor false")
        return value

    def number(self, name: str, *, above: float | None = None) -> float:
        return _number(self._get(name), f"{self.where}: {name}", above)

    def numbers(self, name: str) -> tuple[float, ...]:
        values = self._get(name)
        if not isinstance(values, list):
            raise InputError(f"{self.where}: {name} is not a list of numbers")
        return tuple(_number(value, f"{self.where}: {name}", None) for value in values)

    def integer(self, name: str, *, minimum: int = 0, maximum: int = 2**53) -> int:
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise InputError(f"{self.where}: {name}={value!r} is not a whole number from {minimum} to {maximum}")
        return value

    def record(self, name: str) -> _Record:
        return _Record(self._get(name), f"{self.where}: {name}")

    def records(self, name: str) -> list[_Record]:
        values = self._get(name)
        if not isinstance(values, list):
            raise InputError(f"{self.where}: {name} is not a list")
        return [_Record(value, f"{self.where}: {name}[{i}]") for i, value in enumerate(values)]


def _number(value: Any, where: str, above: float | None) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise InputError(f"{where}={value!r} is not a number of at least 0")
    if above is not None and value <= above:
        raise InputError(f"{where}={value!r} is not above {above:g}")
    return value
