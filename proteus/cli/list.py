"""``proteus list``: the models, clusters, GPUs, frameworks and schedules that have a name."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from proteus.cli.output import print_json

if TYPE_CHECKING:
    from proteus.hardware import Gpu

#: what is known of one named thing
Row = dict[str, Any]


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "list",
        help="list the models, clusters, GPUs, frameworks or schedules",
        description="List what Proteus knows by name, with what matters about each.",
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("--json", action="store_true", help="one JSON list on stdout, an object for each name")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    rows_of, columns = KINDS[options.kind]
    rows = rows_of()
    if options.json:
        print_json(rows)
    else:
        print(as_table(columns, ([format_cell(row) for format_cell in columns.values()] for row in rows)))
    return 0


def as_table(titles: Iterable[str], rows: Iterable[list[str]]) -> str:
    """Cells in columns as wide as they need to be.

    >>> print(as_table(["name", "memory"], [["t4", "15.0 GiB"], ["a100-80gb", "80.0 GiB"]]))
    name       memory
    t4         15.0 GiB
    a100-80gb  80.0 GiB
    """
    lines = [list(titles), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


# -- what there is --------------------------------------------------------------------


def models() -> list[Row]:
    """Every built-in model."""
    from proteus.model import zoo

    rows = []
    for name in zoo.names():
        model = zoo.load(name)
        rows.append(
            {
                "name": name,
                "family": model.facts["family"],
                "parameters": model.num_params,
                "active_parameters": model.facts.get("active_params", model.num_params),
                "layers": model.facts.get("layers"),
                "hidden": model.facts.get("hidden"),
                "experts": model.facts.get("experts"),
                "seq": model.seq if "seq" in model.facts else None,
                "aliases": zoo.aliases(name),
                "source": zoo.source(name),
            }
        )
    return rows


def clusters() -> list[Row]:
    """Every preset of hosts."""
    from proteus.cluster import clusters

    rows = []
    for name in clusters.names():
        cluster = clusters.load(name)
        layout = cluster.runs[0][0].layout
        rates_Bps = {nic.up_Bps for nic in layout.nics}
        rows.append(
            {
                "name": name,
                "hosts": cluster.num_hosts,
                "gpu": cluster.gpu().name,
                "gpus_per_host": len(layout.gpus),
                "gpu_links": "switched" if layout.switched_Bps else "direct" if layout.direct else "none",
                "nics_per_host": len(layout.nics),
                "nic_Bps": min(rates_Bps, default=None),
                "network": cluster.fabric.family,
            }
        )
    return rows


def load_gpus() -> list[Gpu]:
    """Every GPU of the catalogue."""
    from proteus import hardware

    return [hardware.load(name) for name in hardware.names()]


def gpus() -> list[Row]:
    """Every GPU with its data sheet."""
    return [
        {
            "name": gpu.name,
            "vendor": gpu.vendor,
            "generation": gpu.generation,
            "memory_bytes": gpu.memory_bytes,
            "memory_Bps": gpu.memory_Bps,
            "peak_flops": dict(gpu.peak_flops),
            "nvlink_Bps": gpu.nvlink_Bps,
            "source": gpu.source,
        }
        for gpu in load_gpus()
    ]


def framework(name: str) -> Row:
    """The title, the versions that its rules tell apart, and the defaults of a framework."""
    from proteus import frameworks as catalogue

    loaded = catalogue.load(name)
    return {"title": loaded.title, "versions": list(loaded.versions), "defaults": dict(loaded.defaults)}


def frameworks() -> list[Row]:
    """Every framework."""
    from proteus import frameworks as catalogue

    return [{"name": name, **framework(name)} for name in catalogue.names()]


def schedules() -> list[Row]:
    """Every pipeline schedule."""
    from proteus.strategy.schedule import SCHEDULES
    from proteus.strategy.schedules import patterns

    functions = {"1f1b": patterns.one_f_one_b}
    rows = []
    for name, rule in SCHEDULES.items():
        about = inspect.getdoc(functions.get(name) or getattr(patterns, name.replace("-", "_"))) or ""
        rows.append(
            {
                "name": name,
                "what": about.partition("\n")[0].replace("`", ""),
                "placement": rule.shape,
                "chunks_per_rank": {"line": "1", "loop": "2 or more", "v": "2"}[rule.shape],
                "takes_max_in_flight": rule.is_limited,
            }
        )
    return rows


# -- how a cell is written --------------------------------------------------------------


def _text(name: str) -> Callable[[Row], str]:
    return lambda row: "-" if row[name] in (None, "", [], ()) else str(row[name])


def _count(name: str) -> Callable[[Row], str]:
    from proteus.units import format_count

    return lambda row: format_count(row[name])


def _scaled(name: str, unit: float, suffix: str) -> Callable[[Row], str]:
    return lambda row: f"{row[name] / unit:.3g} {suffix}" if row[name] else "-"


def _peak(dtype: str) -> Callable[[Row], str]:
    return lambda row: f"{row['peak_flops'][dtype] / 1e12:.3g}" if dtype in row["peak_flops"] else "-"


def _pairs(name: str) -> Callable[[Row], str]:
    return lambda row: ", ".join(f"{key}={value}" for key, value in row[name].items()) or "-"


def _nics(row: Row) -> str:
    if not row["nics_per_host"]:
        return "-"
    return f"{row['nics_per_host']} × {row['nic_Bps'] * 8 / 1e9:.3g} Gb/s {row['network']}"


#: kind → its rows, and the columns of its table
KINDS: Mapping[str, tuple[Callable[[], list[Row]], Mapping[str, Callable[[Row], str]]]] = {
    "models": (
        models,
        {
            "name": _text("name"),
            "family": _text("family"),
            "parameters": _count("parameters"),
            "active": _count("active_parameters"),
            "layers": _text("layers"),
            "hidden": _text("hidden"),
            "experts": _text("experts"),
            "seq": _text("seq"),
        },
    ),
    "clusters": (
        clusters,
        {
            "name": _text("name"),
            "GPU": _text("gpu"),
            "GPUs per host": _text("gpus_per_host"),
            "GPU links": _text("gpu_links"),
            "NICs per host": _nics,
        },
    ),
    "gpus": (
        gpus,
        {
            "name": _text("name"),
            "generation": _text("generation"),
            "memory": _scaled("memory_bytes", 2**30, "GiB"),
            "bandwidth": _scaled("memory_Bps", 1e9, "GB/s"),
            "TFLOPS: fp32": _peak("fp32"),
            "fp16": _peak("fp16"),
            "bf16": _peak("bf16"),
            "fp8": _peak("fp8"),
            "nvlink": _scaled("nvlink_Bps", 1e9, "GB/s"),
        },
    ),
    "frameworks": (
        frameworks,
        {
            "name": _text("name"),
            "title": _text("title"),
            "versions": lambda row: ", ".join(row["versions"]) or "-",
            "defaults": _pairs("defaults"),
        },
    ),
    "schedules": (
        schedules,
        {"name": _text("name"), "chunks per rank": _text("chunks_per_rank"), "what": _text("what")},
    ),
}
