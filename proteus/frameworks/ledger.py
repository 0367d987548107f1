"""The ledger: every constant and rule of every framework, its source, and the published tables that shaped it.

python -m proteus.frameworks.ledger docs/frameworks-ledger.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from proteus.frameworks import kernels
from proteus.frameworks.catalogue import definition, names
from proteus.frameworks.framework import GROUPS
from proteus.frameworks.values import written

_INTRO = """\
# Sources of the framework constants

Every constant and every rule of [proteus/frameworks/data](../proteus/frameworks/data), with its source and the
published tables of training runs that influenced it. `none: documentation` means that documentation or code alone
supports the value. A value supported by only one published table is not part of a framework: the list at the end has
these values, each with the change that restores it. A test keeps this page complete. It is written by
`python -m proteus.frameworks.ledger docs/frameworks-ledger.md`.
"""
#: values used before that only one table supports: (text of the framework, table, what the table shows)
WITHDRAWN = (
    (
        "megatron-core, transfer_s=5.5e-4",
        "zero_bubble_t4",
        "440 to 610 us of idle time around a transfer for which the host waits, from how its steps grow with the "
        "micro-batches",
    ),
    (
        "megatron-deepspeed, op_s=7e-5",
        "vtrain_single_h1024",
        "launch-bound runs with hidden 1024 and micro-batch 1: 3.1 ms per layer",
    ),
    (
        "megatron-bridge, biased_products=2",
        "mbridge, mbx (GPT OSS)",
        "bf16 steps of the one model whose experts have biases; models without biases do not show it",
    ),
    (
        "megatron-bridge, expert_s=6e-5",
        "mbridge, mbx, dgxc",
        "launch-bound runs of experts; Transformer Engine's own issues say 9 to 33 us",
    ),
    (
        "megatron-core, fragmentation=0.3",
        "aleph_13, aleph_30 and their kin",
        "which of 639 runs of one publisher ran out of memory; their steps on 256 GPUs also imply a network of "
        "31 Gb/s per GPU; the setting network_Gbps=31 of a row restores it",
    ),
)


def ledger() -> str:
    """The page."""
    lines = [_INTRO]
    for name in names():
        title, like = definition(name).title, _file(name).get("like")
        lines += [f"## {title}", "", f"`{name}`" + (f", otherwise as `{like}`" if like else ""), ""]
        lines += ["| value | tables | source |", "|---|---|---|"]
        lines += [f"| {value} | {tables} | {source} |" for value, tables, source in rows(name)]
        lines.append("")
    lines += ["## Attention kernels", "", "| kernel | source |", "|---|---|"]
    lines += [f"| `{name}` | {kernels.source(name)} |" for name in kernels.names()]
    lines += ["", "## Removed: supported by one table alone", "", "| to restore it | table | what it shows |"]
    lines += ["|---|---|---|", *(f"| `{text}` | {table} | {shown} |" for text, table, shown in WITHDRAWN)]
    return "\n".join(lines) + "\n"


def rows(name: str) -> Iterator[tuple[str, str, str]]:
    """(value with its condition, tables, source) of a framework's own file."""
    top = _file(name)
    yield from _rows(top, "", "", ())
    for rule in top.get("when", ()):
        condition = " and ".join(f"{fact} {_said(wanted)}" for fact, wanted in rule["if"].items())
        yield from _rows(rule, f" if {condition}", rule.get("source", ""), rule.get("tables", ()))


def _rows(top: dict[str, Any], condition: str, source: str, tables: Any) -> Iterator[tuple[str, str, str]]:
    for group in (*GROUPS, "defaults", "recipes"):
        for key, item in top.get(group, {}).items():
            row = item if isinstance(item, dict) else {"value": item, "source": source, "tables": tables}
            value = row["value"]
            text = written(tuple(value) if isinstance(value, list) else value)
            shaped = ", ".join(row.get("tables", ())) or "none: documentation"
            yield f"`{key} = {text}`{condition}", shaped, row["source"].replace("|", "\\|")


def _said(wanted: Any) -> str:
    if isinstance(wanted, list):
        return " or ".join(map(str, wanted))
    return written(wanted)


def _file(name: str) -> dict[str, Any]:
    text = resources.files("proteus.frameworks").joinpath(f"data/{name}.yaml").read_text("utf-8")
    top: dict[str, Any] = yaml.safe_load(text)
    return top


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(ledger(), encoding="utf-8")
