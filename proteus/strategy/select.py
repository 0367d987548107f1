"""Selectors: which nodes of the tree a path pattern names.

A selector is a dotted path.  ``*`` stands for any one segment, ``3`` or
``0-11`` for copies of a block, and a path that stops above the leaves names
everything below it; the empty selector is the whole model.

    layers.*.attention.qkv     one op in every layer
    layers.0-11.mlp            the MLPs of the first twelve layers
    *.*.attention              attention in every indexed block
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from proteus.errors import StrategyError, unknown
from proteus.identity import ById
from proteus.model.graph import Block, Model

_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Match:
    """The copies of a block that a selector names, and the rest of its path.

    `copies` is None for all of them.
    """

    copies: range | None
    tail: tuple[str, ...]

    def covers(self, index: int) -> bool:
        return self.copies is None or index in self.copies

    def covers_op(self, op_name: str) -> bool:
        """Whether the op, or a module above it, is named."""
        segments = op_name.split(".")
        return len(self.tail) <= len(segments) and all(
            want in ("*", have) for want, have in zip(self.tail, segments, strict=False)
        )


def segments_of(selector: str) -> tuple[str, ...]:
    return tuple(selector.split(".")) if selector else ()


def match_block(selector: str, block: Block) -> Match | None:
    """How `selector` meets `block`; None when it names no op of it."""
    return _match(selector, ById(block))


@lru_cache(maxsize=8192)
def _match(selector: str, same: ById[Block]) -> Match | None:
    block = same.value
    parts = segments_of(selector)
    name_parts = block.name.split(".")
    if any(want not in ("*", have) for want, have in zip(parts, name_parts, strict=False)):
        return None
    rest = parts[len(name_parts) :]
    copies: range | None = None
    if block.indexed and rest:
        layer_range = _RANGE.match(rest[0])
        if not layer_range and rest[0] != "*":
            return None
        if layer_range:
            first = int(layer_range.group(1)) - block.first
            last = int(layer_range.group(2) or layer_range.group(1)) - block.first
            copies = range(max(first, 0), min(last + 1, block.count))
            if not copies:
                return None
        rest = rest[1:]
    match = Match(copies, rest)
    return match if any(match.covers_op(op.name) for op in block.ops) else None


def check_selector(selector: str, model: Model) -> None:
    """Raise :class:`StrategyError` when `selector` names no node of `model`."""
    if any(match_block(selector, block) for block in model.blocks):
        return
    paths = set()
    for block in model.blocks:
        head = f"{block.name}.{block.first}-{block.first + block.count - 1}" if block.indexed else block.name
        paths.add(head)
        for op in block.ops:
            steps = op.name.split(".")
            paths.update(f"{head}.{'.'.join(steps[: i + 1])}" for i in range(len(steps)))
    raise StrategyError(unknown("tree node", selector, paths))
