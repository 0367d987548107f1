"""The catalogue of GPUs: ``gpus.load("a100-80gb")``."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib import resources

from proteus.cluster.gpu import Gpu
from proteus.errors import TopologyError, unknown
from proteus.units import GB, TFLOP, MiB

_DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4")
#: words that say who made or sells a GPU, or which memory it has, and not which one it is
_NOISE = re.compile(r"nvidia|tesla|geforce|quadro|amd|instinct|radeon|graphics|hbm\d?e?")


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = resources.files("proteus.cluster").joinpath("data/gpus.csv").read_text("utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _squeeze(name: str) -> str:
    """The letters and digits of `name` that tell GPUs apart."""
    return re.sub(r"[^a-z0-9]", "", _NOISE.sub("", name.lower()))


@cache
def _index() -> dict[str, str]:
    index: dict[str, str] = {}
    for row in _rows():
        for name in (row["name"], *row["aliases"].split("|")):
            if name:
                other = index.setdefault(_squeeze(name), row["name"])
                assert other == row["name"], f"alias {name!r} means both {other} and {row['name']}"
    return index


def _number(text: str) -> float | None:
    return float(text) if text else None


def _gpu(row: dict[str, str]) -> Gpu:
    peaks = {dtype: _number(row[f"{dtype}_TFLOPS"]) for dtype in _DTYPES}
    sms = row["num_sms"]
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        generation=row["generation"],
        memory_bytes=int(row["memory_MiB"]) * MiB,
        memory_Bps=float(row["memory_GBps"]) * GB,
        peak_flops={dtype: peak * TFLOP for dtype, peak in peaks.items() if peak is not None},
        nvlink_Bps=float(row["nvlink_GBps"]) * GB,
        nvlink_links=int(row["nvlink_links"]),
        has_nvswitch=row["nvswitch"] == "yes",
        c2c_Bps=float(row["c2c_GBps"]) * GB,
        pcie_gen=int(row["pcie_gen"]),
        tdp_w=_number(row["tdp_W"]),
        num_sms=int(sms) if sms else None,
        source=row["source"],
    )


def names() -> tuple[str, ...]:
    """Catalogue names of all known GPUs."""
    return tuple(row["name"] for row in _rows())


@cache
def _load(name: str) -> Gpu:
    return _gpu(next(row for row in _rows() if row["name"] == name))


def find(name: str) -> Gpu | None:
    """The GPU of that name or alias, or None.

    Case, blanks, hyphens and words like "NVIDIA" do not matter.
    """
    known = _index().get(_squeeze(name))
    return _load(known) if known is not None else None


def load(name: str) -> Gpu:
    """The GPU of that name or alias.

    Raises
    ------
    TopologyError
        The name is not known; the message lists the nearest ones.

    Examples
    --------
    >>> load("NVIDIA A100-SXM4-80GB").name
    'a100-80gb'
    >>> load("h100").peak_flops["bf16"]
    989000000000000.0
    """
    gpu = find(name)
    if gpu is None:
        raise TopologyError(unknown("GPU", name, (n for row in _rows() for n in _aliases(row))))
    return gpu


def _aliases(row: dict[str, str]) -> list[str]:
    return [row["name"], *(alias for alias in row["aliases"].split("|") if alias)]


def by_pci_device(device: str) -> Gpu | None:
    """The GPU with that PCI device id (``"0x20b5"``), or None."""
    wanted = device.lower().removeprefix("0x")
    for row in _rows():
        if wanted and wanted in row["pci_devices"].split("|"):
            return _load(row["name"])
    return None


def by_arch(arch: str) -> Gpu | None:
    """The GPU meant by AMD's architecture name (``"gfx942"``, ``"942"``), where one stands for it."""
    for row in _rows():
        if arch and arch.lower().removeprefix("gfx") in row["archs"].split("|"):
            return _load(row["name"])
    return None
