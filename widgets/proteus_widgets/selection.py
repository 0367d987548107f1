"""One selection, and what it lights in every view.

A span lights its links and its tree node; a link lights the spans that cross
it; a node lights the spans of its subtree and their links; a device lights
its lanes and its own links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from proteus.result.spans import SpanKind, Spans
from proteus.units import format_seconds
from proteus_widgets.palette import LOOKS

What = Literal["span", "link", "node"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user picked: a span, a link or a tree row, by id; `others` are more rows of the same kind."""

    what: What
    id: int
    others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lit:
    """What stands out.

    Parameters
    ----------
    span, node
        The selected span and the tree row to mark, or -1.
    others
        More tree rows to mark.
    links
        Links to mark; of links that folding made one class, the first.
    nodes, patterns
        bool masks over the tree rows and the flow patterns: a span is lit
        when either holds it.  None for both: nothing is dimmed.
    """

    span: int = -1
    node: int = -1
    others: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    nodes: np.ndarray | None = None
    patterns: np.ndarray | None = None


NOTHING = Lit()


def subtree(parents: Sequence[int], node: int) -> np.ndarray:
    """bool mask of `node` and all below it; parents stand before their children.

    >>> subtree([-1, 0, 1, 0], 1).tolist()
    [False, True, True, False]
    """
    mask = np.zeros(len(parents), bool)
    mask[node] = True
    for row in range(node + 1, len(parents)):
        parent = parents[row]
        mask[row] |= parent >= 0 and mask[parent]
    return mask


def patterns_crossing(spans: Spans, link: int) -> np.ndarray:
    """bool mask of the flow patterns that cross `link`."""
    mask = np.zeros(len(spans.pattern_ptr) - 1, bool)
    hits = np.flatnonzero(spans.pattern_link == link)
    mask[np.searchsorted(spans.pattern_ptr, hits, side="right") - 1] = True
    return mask


def links_of_nodes(spans: Spans, nodes: np.ndarray) -> tuple[int, ...]:
    """Links that the spans of the rows in the mask cross."""
    patterns = np.unique(spans.pattern[nodes[spans.node] & (spans.pattern >= 0)])
    parts = [spans.pattern_link[spans.pattern_ptr[p] : spans.pattern_ptr[p + 1]] for p in patterns]
    return tuple(np.unique(np.concatenate(parts)).tolist()) if parts else ()


def light(selection: Selection | None, spans: Spans, parents: Sequence[int], first_link: np.ndarray) -> Lit:
    """What `selection` lights; a selection that the result no longer has lights nothing.

    `first_link` maps every link to the first one of its class; see :func:`proteus_widgets.reading.first_link`.
    """
    match selection:
        case Selection("span", span) if 0 <= span < len(spans):
            links = tuple(int(link) for link in spans.links_of(span))
            return Lit(span=span, node=int(spans.node[span]), links=links)
        case Selection("link", link) if 0 <= link < len(first_link):
            first = int(first_link[link])
            return Lit(links=(first,), patterns=patterns_crossing(spans, first))
        case Selection("node", node, others) if 0 <= node < len(parents):
            others = tuple(row for row in others if 0 <= row < len(parents) and row != node)
            nodes = np.logical_or.reduce([subtree(parents, row) for row in (node, *others)])
            return Lit(node=node, others=others, links=links_of_nodes(spans, nodes), nodes=nodes)
        case _:
            return NOTHING


def lane_of(spans: Spans, span: int) -> int:
    return int(np.searchsorted(spans.lane_ptr, span, side="right")) - 1


def describe_span(spans: Spans, span: int) -> dict[str, Any]:
    """Place and spoken text of a span, for the timeline; ``{"id": -1}`` when there is none."""
    if span < 0:
        return {"id": -1}
    lane = lane_of(spans, span)
    row = spans.lanes[lane]
    start, duration = float(spans.start_s[span]), float(spans.duration_s[span])
    micro = int(spans.micro_batch[span])
    words = [
        spans.names[spans.name_id[span]],
        LOOKS[SpanKind(int(spans.kind[span]))].label,
        f"micro-batch {micro}" if micro >= 0 else "",
        f"GPU {row.device} {row.stream}",
        f"starts {format_seconds(start)}",
        f"lasts {format_seconds(duration)}",
    ]
    text = " · ".join(word for word in words if word)
    return {"id": span, "lane": lane, "start_s": start, "duration_s": duration, "text": text}
