"""What a published run did where it does not say: its framework's defaults, and what is known of its table.

The defaults are those of :mod:`proteus.frameworks`.  ``data/frameworks.yaml``
holds what is of the runs themselves: which release a table without a version
means, and what the authors of a table say of all their runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus import frameworks
from proteus.frameworks import Framework
from proteus.frameworks.rules import release

#: vocabulary of a run that does not say: GPT-2's
GPT2_VOCAB = 50257


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of runs whose framework a table writes with one of `words`.

    Parameters
    ----------
    before, not_on
        The version (``24.09``) from which on, and the generations of GPUs on
        which, a later entry is meant: this one is of the time before them.
    framework
        Text of the framework that ran; None: the one that the table names.
    defaults
        Plan fields that these runs set otherwise than the framework.
    overlap_steps
        Schedules under which every rank begins the next step when it has ended its own.
    dropout
        They train with the dropout of the family's paper.
    gathers_logits, recomputes_head
        The loss is computed on the whole vocabulary by every tensor rank; the
        projection to the vocabulary runs again like all other layers.
    gpu_Gbps
        Network of one GPU of their machines [Gb/s].
    lora
        What their runs of adapters add to the text of the framework.
    """

    name: str
    source: str
    words: tuple[str, ...]
    before: str | None = None
    not_on: tuple[str, ...] = ()
    framework: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    overlap_steps: tuple[str, ...] = ()
    dropout: bool = False
    gathers_logits: bool = False
    recomputes_head: bool = False
    gpu_Gbps: float | None = None
    vocab: int = GPT2_VOCAB
    lora: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The framework of a published run and what is known of its table."""

    framework: Framework
    entry: Entry

    @property
    def name(self) -> str:
        return self.entry.name or self.framework.name

    def default(self, field_name: str, otherwise: Any) -> Any:
        """What the run does in a plan field that it does not say."""
        return {**self.framework.defaults, **self.entry.defaults}.get(field_name, otherwise)


@cache
def _entries() -> tuple[Entry, ...]:
    text = resources.files("proteus.validation").joinpath("data/frameworks.yaml").read_text("utf-8")
    known = {item.name for item in fields(Entry)}
    entries = []
    for row in yaml.safe_load(text):
        assert set(row) <= known, f"{row['name']}: {sorted(set(row) - known)}"
        lists = {key: tuple(row.get(key, ())) for key in ("words", "not_on", "overlap_steps")}
        entries.append(Entry(**{**row, **lists}))
    return tuple(entries)


def framework_of(text: str, version: str = "", generation: str = "") -> Published:
    """The framework that a free text names, by its version and by the time of its GPUs.

    >>> framework_of("nemo", "nemo 24.05").framework.text
    'nemo@24.05'
    >>> [framework_of("megatron-lm", generation=generation).framework.text for generation in ("ampere", "hopper")]
    ['megatron-lm@2', 'megatron-bridge']
    """
    named, number = f"{text} {version}", release(version)
    entry = next(
        item
        for item in _entries()
        if any(word in named for word in item.words)
        and (item.before is None or (number is not None and number < (release(item.before) or ())))
        and generation not in item.not_on
    )
    if entry.framework is not None:
        return Published(framework=frameworks.load(entry.framework), entry=entry)
    return Published(framework=frameworks.find(text, version) or frameworks.load("ddp"), entry=entry)
