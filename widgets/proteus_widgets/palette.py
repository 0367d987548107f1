"""What every kind of span looks like.

Colours are those of Okabe and Ito, "Color Universal Design" (2008): distinguished
with every common colour vision.  Communication is hatched as well, so colour
alone never carries the meaning, and two kinds may share a colour when their
hatches differ.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from proteus.result.spans import SpanKind

BLACK, WHITE = "#111111", "#ffffff"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#9AA0A6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Name, colour, hatch and text colour of a kind of span."""

    label: str
    colour: str
    ink: str = BLACK
    hatch: str = ""


LOOKS: dict[SpanKind, Look] = {
    SpanKind.FORWARD: Look(label="forward", colour=SKY),
    SpanKind.BACKWARD: Look(label="backward", colour=BLUE, ink=WHITE),
    SpanKind.WEIGHT_GRAD: Look(label="weight gradient", colour=GREEN, ink=WHITE),
    SpanKind.RECOMPUTE: Look(label="recompute", colour=SKY, hatch="x"),
    SpanKind.OPTIMIZER: Look(label="optimizer", colour=PURPLE),
    SpanKind.TENSOR_COMM: Look(label="tensor comm", colour=ORANGE, hatch="/"),
    SpanKind.CONTEXT_COMM: Look(label="context comm", colour=ORANGE, hatch="\\"),
    SpanKind.EXPERT_COMM: Look(label="expert comm", colour=GREEN, hatch="\\", ink=WHITE),
    SpanKind.PIPELINE_COMM: Look(label="pipeline comm", colour=YELLOW, hatch="-"),
    SpanKind.GRADIENT_COMM: Look(label="gradient comm", colour=VERMILION, hatch="/"),
    SpanKind.PARAMETER_COMM: Look(label="parameter comm", colour=PURPLE, hatch="\\"),
    SpanKind.COPY: Look(label="copy", colour=GREY, hatch="|"),
    SpanKind.HOST: Look(label="host", colour=GREY),
}


def looks() -> list[dict[str, str]]:
    """The looks in the order of :class:`SpanKind`, for the browser."""
    return [asdict(LOOKS[kind]) for kind in SpanKind]
