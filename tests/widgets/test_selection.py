"""One selection lights the right things in every view."""

from __future__ import annotations

import numpy as np

from proteus_widgets.selection import NOTHING, Selection, describe_span, light, subtree
from tests.widgets.build import pipeline_spans

SPANS = pipeline_spans(devices=2, micro_batches=2, layers=2)
PARENTS = [-1, 0, 1, 1]
EACH_ALONE = np.arange(6)


def first(kind: int) -> int:
    return int(np.flatnonzero(SPANS.kind == kind)[0])


def test_span_lights_its_links_and_its_node() -> None:
    span = first(5)  # tensor communication of device 0
    lit = light(Selection("span", span), SPANS, PARENTS, EACH_ALONE)
    assert (lit.span, lit.node, lit.links) == (span, 2, (0,))
    assert lit.nodes is None and lit.patterns is None  # nothing is dimmed


def test_compute_span_lights_no_link() -> None:
    assert light(Selection("span", first(0)), SPANS, PARENTS, EACH_ALONE).links == ()


def test_link_lights_the_patterns_that_cross_it() -> None:
    lit = light(Selection("link", 1), SPANS, PARENTS, EACH_ALONE)
    assert lit.links == (1,)
    assert lit.patterns is not None and np.flatnonzero(lit.patterns).tolist() == [1]


def test_link_that_folding_left_out_stands_for_the_first_of_its_class() -> None:
    lit = light(Selection("link", 5), SPANS, PARENTS, np.array([0, 1, 2, 3, 4, 0]))
    assert lit.links == (0,)
    assert lit.patterns is not None and np.flatnonzero(lit.patterns).tolist() == [0]


def test_node_lights_its_subtree_and_the_links_below() -> None:
    lit = light(Selection("node", 1), SPANS, PARENTS, EACH_ALONE)
    assert lit.nodes is not None and lit.nodes.tolist() == [False, True, True, True]
    assert lit.links == (0, 1, 2, 3, 4, 5)
    leaf = light(Selection("node", 3), SPANS, PARENTS, EACH_ALONE)
    assert leaf.links == (0, 1)


def test_what_does_not_exist_lights_nothing() -> None:
    for selection in (None, Selection("span", 10**6), Selection("link", 99), Selection("node", -5)):
        assert light(selection, SPANS, PARENTS, EACH_ALONE) is NOTHING


def test_subtree_of_the_root_is_everything() -> None:
    assert subtree(PARENTS, 0).all()


def test_spoken_text_names_what_where_and_when() -> None:
    told = describe_span(SPANS, first(5))
    assert told["lane"] == 1
    assert told["text"] == "all_reduce · tensor comm · micro-batch 0 · GPU 0 tensor · starts 750 µs · lasts 250 µs"
    assert describe_span(SPANS, -1) == {"id": -1}
