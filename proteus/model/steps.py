"""The notation of convolutional networks: blocks of steps, one string a step::

    conv 64 k7 s2 p3       convolution (kernel, stride, padding), norm, relu
    conv 96 k1x7 p0x3      height x width where they differ
    conv 64 k1 linear      without the relu
    max k3 s2 p1           max pooling; "average k3 s1 p1" likewise
    global                 mean over height and width
    flatten                channels, height and width into one dim
    fc 4096                linear and relu
    dropout 0.5

A step may be named, ``branch1x1 = conv 64 k1``.  Instead of a string a step
may be ``{branches: [[step, ...], ...]}`` (concatenated) or
``{residual: [step, ...], shortcut: [step, ...]}`` (added, then relu; no
shortcut steps mean the identity).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proteus.errors import ModelError

Step = str | Mapping[str, Any]
_STEP = re.compile(r"^(?:(?P<name>[\w.]+)\s*=\s*)?(?P<kind>[a-z]+)(?P<rest>(?:\s+\S+)*)$")
_FLAGS = ("linear",)
_SIZES = re.compile(r"^(?P<key>[ksp])(?P<high>\d+)(?:x(?P<wide>\d+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedStep:
    """A step; `sizes` has kernel, stride and padding as (height, width) under k, s and p."""

    name: str | None
    kind: str
    number: float
    flags: frozenset[str]
    sizes: Mapping[str, tuple[int, int]]


def parse_step(step: str) -> ParsedStep:
    """A step string as values.

    >>> parsed = parse_step("b = conv 96 k1x7 p0x3 linear")
    >>> parsed.name, parsed.kind, parsed.number, parsed.sizes["k"], sorted(parsed.flags)
    ('b', 'conv', 96.0, (1, 7), ['linear'])
    """
    match = _STEP.match(step.strip())
    if match is None:
        raise ModelError(f"step {step!r} is none; write for example 'conv 64 k3 p1'")
    number, flags, sizes = 0.0, set(), {"s": (1, 1), "p": (0, 0)}
    for word in match["rest"].split():
        if size := _SIZES.match(word):
            sizes[size["key"]] = (int(size["high"]), int(size["wide"] or size["high"]))
        elif re.fullmatch(r"[\d.]+", word):
            number = float(word)
        elif word in _FLAGS:
            flags.add(word)
        else:
            raise ModelError(f"step {step!r}: {word!r} is not a size; write for example 'conv 64 k3 p1'")
    return ParsedStep(name=match["name"], kind=match["kind"], number=number, flags=frozenset(flags), sizes=sizes)


def window(step: ParsedStep) -> dict[str, tuple[int, int]]:
    """The attrs of a convolution or pooling."""
    return {"kernel": step.sizes["k"], "stride": step.sizes["s"], "padding": step.sizes["p"]}
