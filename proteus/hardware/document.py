"""Chips and boards as YAML, in and out.

Two forms of file::

    chip: gh100               a whole chip with its boards, as those in ``chips/``
    generation: hopper
    fallback: [ga100]
    boards: {h100-sxm: {memory_MiB: 81559, ...}}
    curves: {gemm: {half: {params: {...}, sigma: 0.06, rows: 1136, source: ...}}}

    gpu: my-h100              one board that is like another but for what is said
    like: h100-sxm
    memory_MiB: 65536

Human units stand here and nowhere else: MiB, GBps (1e9 B/s), Gbps, TFLOPS, W.
Figures of a sheet are dense peaks, links one direction, memory as the driver
reports it.  A source "vendor specification" alone means the vendor's data
sheet, not checked against a second source; so are memory_MiB, num_sms,
pci_devices (the PCI ID list) and archs everywhere.
``docs/how-to/add-a-gpu.md`` goes through every key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from proteus.errors import InputError, unknown
from proteus.hardware.chip import (
    COMM_CLASSES,
    COMPUTE_CLASSES,
    DEFAULT_OVERLAP,
    POWER_EXPONENT,
    Chip,
    Clock,
    FittedCurve,
    Libraries,
    Overlap,
)
from proteus.hardware.curves import FAMILIES
from proteus.hardware.gpu import DTYPES, PCIE_X16_BPS, Gpu, Wiring
from proteus.hardware.yamlfile import Section
from proteus.units import GB, GBIT_PER_S, TFLOP, MiB

#: words of a name: it stands in messages, flags and file names
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+ ()-]{0,63}")
#: families of fitted links that NVLink may belong to
_NVLINK = re.compile(r"nvlink\d{1,2}")
#: LLVM's names of AMD's architectures
_ARCHITECTURE = re.compile(r"gfx\d{1,2}[0-9a-f]{2}")
_DEFAULTS = Libraries()


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The sheet of one board, before it meets its chip.

    Parameters
    ----------
    sheet
        Fields of :class:`Gpu` that the file states.
    aliases
        Other names that people give it.
    pci_devices, archs
        PCI device ids, and architecture names of AMD that mean this board.
    """

    name: str
    sheet: Mapping[str, Any] = field(repr=False)
    aliases: tuple[str, ...] = ()
    pci_devices: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFile:
    """A chip and its boards."""

    chip: Chip
    boards: tuple[Board, ...]

    def gpu(self, board: Board, lenders: tuple[Chip, ...]) -> Gpu:
        """The board with this chip on it."""
        chip = self.chip
        for family in FAMILIES:
            if not any(family in lender.curves for lender in (chip, *lenders)):
                raise InputError(
                    f"chip {chip.name}: neither it nor a fallback has a {family} curve; name a chip like it "
                    "in fallback, for example [gh100]"
                )
        of_chip = {
            "generation": chip.generation,
            "compute_capability": chip.compute_capability,
        }
        return Gpu(name=board.name, chip=chip, lenders=lenders, **{**of_chip, **board.sheet})


# -- in ------------------------------------------------------------------------------------------


def read_chip(values: Any, where: str) -> ChipFile:
    """A whole chip from the values of a file.

    Raises
    ------
    InputError
        A key is unknown or missing, or a value cannot be; the message has its place.
    """
    top = Section(values, where)
    name = _name(top, "chip")
    chip = Chip(
        name=name,
        vendor=top.word("vendor", ("nvidia", "amd"), "nvidia"),
        generation=_name(top, "generation"),
        compute_capability=_capability(top),
        fallback=top.words("fallback"),
        architecture=_architecture(top),
        nvlink=_nvlink(top),
        has_nvls=top.boolean("has_nvls", False),
        network_Bps=top.number("network_Gbps", 100.0, minimum=0.1, maximum=1e5) * GBIT_PER_S,
        libraries=_libraries(top.section("libraries")),
        clock=_clock(top.section("clock")),
        overlap=_overlap(top.section("overlap")) if "overlap" in top else DEFAULT_OVERLAP,
        curves=_curves(top.section("curves")),
        source=top.text("source") if "source" in top else "",
    )
    boards = tuple(_board(board, section) for board, section in top.section("boards").sections())
    top.done()
    if not boards:
        raise InputError(f"{where}: boards is missing; a chip needs one board at least")
    for board in boards:
        for key in ("memory_bytes", "memory_Bps", "peak_flops", "pcie_gen", "source"):
            if key not in board.sheet:
                raise InputError(f"{where}: boards: {board.name}: {_KEYS[key]} is missing")
        if chip.vendor == "nvidia" and board.sheet.get("nvlink_links") and chip.nvlink is None:
            raise InputError(
                f"{where}: nvlink is missing; {board.name} has NVLink, so name the family whose collectives "
                "describe it, for example nvlink4"
            )
    return ChipFile(chip=chip, boards=boards)


def read_like(values: Any, where: str) -> tuple[str, Board]:
    """The name of a known board, and one that differs from it in what the file says."""
    top = Section(values, where)
    name, like = _name(top, "gpu"), top.text("like")
    return like, _board(name, top)


#: keys of a file by fields of a sheet
_KEYS = {
    "memory_bytes": "memory_MiB",
    "memory_Bps": "memory_GBps",
    "peak_flops": "TFLOPS",
    "pcie_gen": "pcie_gen",
    "source": "source",
}


def _board(name: str, row: Section) -> Board:
    if not _NAME.fullmatch(name):
        raise InputError(f"{row.where}: {name!r} is not a name of a GPU; letters, digits, blanks and ._+()- make one")
    sheet: dict[str, Any] = {}
    if "memory_MiB" in row:
        sheet["memory_bytes"] = int(row.number("memory_MiB", minimum=1.0, maximum=1e8) * MiB)
    for key, field_name, unit in (
        ("memory_GBps", "memory_Bps", GB),
        ("nvlink_GBps", "nvlink_Bps", GB),
        ("c2c_GBps", "c2c_Bps", GB),
        ("tdp_W", "tdp_w", 1.0),
    ):
        if key in row:
            sheet[field_name] = row.number(key, maximum=1e6) * unit
    if "TFLOPS" in row:
        peaks = row.section("TFLOPS")
        sheet["peak_flops"] = {
            dtype: peaks.number(dtype, minimum=1e-6, maximum=1e7) * TFLOP for dtype in DTYPES if dtype in peaks
        }
        peaks.done()
    for key, maximum in (("nvlink_links", 1024), ("num_sms", 100_000)):
        if key in row:
            sheet[key] = row.whole(key, maximum=maximum)
    if "pcie_gen" in row:
        sheet["pcie_gen"] = row.whole("pcie_gen", minimum=min(PCIE_X16_BPS), maximum=max(PCIE_X16_BPS))
    if "wiring" in row:
        sheet["wiring"] = row.word("wiring", get_args(Wiring))
    if "generation" in row:
        sheet["generation"] = _name(row, "generation")
    if "compute_capability" in row:
        sheet["compute_capability"] = _capability(row)
    if "source" in row:
        sheet["source"] = row.text("source")
    board = Board(
        name=name,
        sheet=sheet,
        aliases=row.words("aliases"),
        pci_devices=tuple(device.lower() for device in row.words("pci_devices")),
        archs=row.words("archs"),
    )
    row.done()
    return board


def _name(section: Section, key: str) -> str:
    name = section.text(key)
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{section.where}: {key}: {name[:60]!r} is not a name; letters, digits, blanks and ._+()- make one"
        )
    return name


def _capability(section: Section) -> tuple[int, int] | None:
    if "compute_capability" not in section:
        return None
    text = section.values["compute_capability"]
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,2})", text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f'{section.where}: compute_capability: {text!r}; write it in quotes, as "9.0"')
    return int(match[1]), int(match[2])


def _architecture(section: Section) -> str:
    if "architecture" not in section:
        return ""
    name = section.text("architecture")
    if not _ARCHITECTURE.fullmatch(name):
        raise InputError(f"{section.where}: architecture: {name!r} is none of AMD's; write for example gfx942")
    return name


def _nvlink(section: Section) -> str | None:
    if "nvlink" not in section:
        return None
    family = section.text("nvlink")
    if not _NVLINK.fullmatch(family):
        raise InputError(f"{section.where}: nvlink: {family!r} is not a family of links; write for example nvlink4")
    return family


def _libraries(row: Section) -> Libraries:
    libraries = Libraries(
        cublas_bytes=int(row.number("cublas_MiB", _DEFAULTS.cublas_bytes / MiB, maximum=1e6) * MiB),
        transformer_engine_bytes=int(
            row.number("transformer_engine_MiB", _DEFAULTS.transformer_engine_bytes / MiB, maximum=1e6) * MiB
        ),
    )
    row.done()
    return libraries


def _clock(row: Section) -> Clock:
    ratio = {"minimum": 1e-6, "maximum": 1e6}
    clock = Clock(
        reference_W_per_TFLOPS=row.number("reference_W_per_TFLOPS", **ratio)
        if "reference_W_per_TFLOPS" in row
        else None,
        exponent=row.number("exponent", POWER_EXPONENT, maximum=3.0),
        sustained=row.number("sustained", 1.0, minimum=0.01, maximum=1.0),
        fp32_full_W_per_TFLOPS=row.number("fp32_full_W_per_TFLOPS", **ratio)
        if "fp32_full_W_per_TFLOPS" in row
        else None,
        source=row.text("source") if row.values else "",
    )
    row.done()
    return clock


def _overlap(row: Section) -> Overlap:
    compute, comm = row.section("compute"), row.section("comm")
    overlap = Overlap(
        compute=tuple(compute.numbers(kind, len(COMM_CLASSES), maximum=100.0) for kind in COMPUTE_CLASSES),
        comm=tuple(comm.numbers(kind, len(COMPUTE_CLASSES), maximum=100.0) for kind in COMM_CLASSES),
        source=row.text("source"),
    )
    for section in (compute, comm, row):
        section.done()
    return overlap


def _curves(row: Section) -> dict[str, dict[str, FittedCurve]]:
    curves: dict[str, dict[str, FittedCurve]] = {}
    for family, keys in row.sections():
        if family not in FAMILIES:
            raise InputError(f"{row.where}: {unknown('family of kernels', family, FAMILIES)}")
        kind = FAMILIES[family]
        curves[family] = {}
        for key, entry in keys.sections():
            params = entry.section("params")
            curves[family][key] = FittedCurve(
                params=kind(*(params.number(name, maximum=1e9) for name in kind._fields)),
                sigma=entry.number("sigma", maximum=10.0),
                rows=entry.whole("rows"),
                source=entry.text("source"),
            )
            params.done()
            entry.done()
    return curves


# -- out -----------------------------------------------------------------------------------------


def to_yaml(gpu: Gpu) -> str:
    """The file of a chip with this one board."""
    import yaml

    chip = gpu.chip
    body: dict[str, Any] = {"chip": chip.name, "generation": chip.generation, "fallback": list(chip.fallback)}
    if chip.vendor != "nvidia":
        body["vendor"] = chip.vendor
    if chip.compute_capability is not None:
        body["compute_capability"] = "{}.{}".format(*chip.compute_capability)
    if chip.architecture:
        body["architecture"] = chip.architecture
    if chip.nvlink is not None:
        body["nvlink"] = chip.nvlink
    body["has_nvls"] = chip.has_nvls
    body["network_Gbps"] = _in_unit(chip.network_Bps, GBIT_PER_S)
    body["libraries"] = {
        "cublas_MiB": chip.libraries.cublas_bytes / MiB,
        "transformer_engine_MiB": chip.libraries.transformer_engine_bytes / MiB,
    }
    if chip.clock != Clock():
        clock = {name: getattr(chip.clock, name) for name in Clock.__dataclass_fields__}
        body["clock"] = {name: value for name, value in clock.items() if value is not None}
    body["overlap"] = {
        "compute": dict(zip(COMPUTE_CLASSES, map(list, chip.overlap.compute), strict=True)),
        "comm": dict(zip(COMM_CLASSES, map(list, chip.overlap.comm), strict=True)),
        "source": chip.overlap.source,
    }
    if chip.source:
        body["source"] = chip.source
    body["boards"] = {gpu.name: _board_values(gpu)}
    body["curves"] = curves_values(chip.curves)
    if not chip.curves:
        del body["curves"]
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120)


def curves_values(curves: Mapping[str, Mapping[str, FittedCurve]]) -> dict[str, Any]:
    """Fitted curves as they stand in a file."""
    return {
        family: {
            key: {
                "params": dict(zip(type(curve.params)._fields, curve.params, strict=True)),
                "sigma": curve.sigma,
                "rows": curve.rows,
                "source": curve.source,
            }
            for key, curve in keys.items()
        }
        for family, keys in curves.items()
    }


def _board_values(gpu: Gpu) -> dict[str, Any]:
    values: dict[str, Any] = {
        "memory_MiB": gpu.memory_bytes / MiB,
        "memory_GBps": _in_unit(gpu.memory_Bps, GB),
        "TFLOPS": {dtype: _in_unit(peak, TFLOP) for dtype, peak in gpu.peak_flops.items()},
        "nvlink_GBps": _in_unit(gpu.nvlink_Bps, GB),
        "nvlink_links": gpu.nvlink_links,
        "wiring": gpu.wiring,
        "c2c_GBps": _in_unit(gpu.c2c_Bps, GB),
        "pcie_gen": gpu.pcie_gen,
        "source": gpu.source,
    }
    if gpu.tdp_w is not None:
        values["tdp_W"] = gpu.tdp_w
    if gpu.num_sms is not None:
        values["num_sms"] = gpu.num_sms
    if gpu.generation != gpu.chip.generation:
        values["generation"] = gpu.generation
    if gpu.compute_capability != gpu.chip.compute_capability and gpu.compute_capability is not None:
        values["compute_capability"] = "{}.{}".format(*gpu.compute_capability)
    return values


def _in_unit(value: float, unit: float) -> float:
    """`value` in human units, chosen so that the loader gives exactly `value` again.

    >>> _in_unit(2.039e12, GB), _in_unit(494.5e12, TFLOP)
    (2039.0, 494.5)
    """
    near = value / unit
    shorter = (round(near, digits) for digits in range(7))
    beside = (math.nextafter(near, side) for side in (0.0, math.inf))
    return next((number for number in (*shorter, near, *beside) if number * unit == value), near)
