"""Level of detail: what the pixels show, with the ids of the whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proteus.result.spans import Lane, Spans
from proteus_widgets.lod import Detail, Window


def spans_of(lanes: list[list[tuple[float, float]]]) -> Spans:
    """Spans given as (start, duration) per lane."""
    flat = [span for lane in lanes for span in lane]
    n = len(flat)
    zeros = np.zeros(n, "i4")
    return Spans(
        start_s=np.array([s for s, _ in flat]),
        duration_s=np.array([d for _, d in flat]),
        kind=zeros.astype("u1"),
        node=zeros,
        name_id=zeros,
        micro_batch=zeros - 1,
        pattern=zeros - 1,
        lane_ptr=np.cumsum([0, *map(len, lanes)]),
        lanes=tuple(Lane(device=i, stream="compute", label="") for i in range(len(lanes))),
        names=("op",),
        pattern_ptr=np.zeros(1, "i4"),
        pattern_link=np.zeros(0, "i4"),
    )


def window(spans: Spans, start: float = 0.0, end: float = 10.0, pixels: int = 10) -> Window:
    return Window(from_s=start, to_s=end, first_lane=0, last_lane=len(spans.lanes), pixels=pixels)


def test_long_spans_are_kept_as_they_are() -> None:
    spans = spans_of([[(0.0, 2.0), (3.0, 2.0)], [(1.0, 5.0)]])
    rows, pointer = Detail(spans, 10.0).serve(window(spans))
    assert rows.tolist() == [0, 1, 2]
    assert pointer.tolist() == [0, 2, 3]


def test_the_longest_of_a_pixel_stands_for_it() -> None:
    spans = spans_of([[(0.1, 0.1), (0.3, 0.4), (0.8, 0.1), (1.2, 0.2)]])
    rows, _ = Detail(spans, 10.0).serve(window(spans))  # a pixel is one second here
    assert rows.tolist() == [1, 3]


def test_a_pixel_shows_the_kind_that_fills_it() -> None:
    """Three short spans of one kind fill more than a longer one of another."""
    spans = spans_of([[(0.0, 0.3), (0.3, 0.2), (0.5, 0.2), (0.7, 0.15)]])
    spans.kind[1:] = 2
    rows, _ = Detail(spans, 10.0).serve(window(spans))
    assert rows.tolist() == [1]


def test_the_span_that_runs_at_the_left_edge_is_served() -> None:
    spans = spans_of([[(0.0, 6.0), (6.0, 1.0), (9.0, 1.0)]])
    rows, _ = Detail(spans, 10.0).serve(window(spans, 5.0, 8.0, 10))
    assert rows.tolist() == [0, 1]


def test_lanes_outside_the_window_are_empty() -> None:
    spans = spans_of([[(0.0, 1.0)], [(0.0, 1.0)], [(0.0, 1.0)]])
    only = Window(from_s=0.0, to_s=10.0, first_lane=1, last_lane=2, pixels=100)
    rows, pointer = Detail(spans, 10.0).serve(only)
    assert rows.tolist() == [1]
    assert pointer.tolist() == [0, 0, 1, 1]


GAPS = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.001, 1.0)), min_size=1, max_size=40)


@given(lanes=st.lists(GAPS, min_size=1, max_size=4), pixels=st.integers(1, 60))
def test_no_more_than_the_pixels_and_nothing_invented(lanes: list[list[tuple[float, float]]], pixels: int) -> None:
    placed = []
    for lane in lanes:
        now, row = 0.0, []
        for gap, duration in lane:
            row.append((now + gap, duration))
            now += gap + duration
        placed.append(row)
    spans = spans_of(placed)
    end = float((spans.start_s + spans.duration_s).max())
    rows, pointer = Detail(spans, end).serve(window(spans, 0.0, end, pixels))
    pixel_s = end / pixels
    assert np.all(np.diff(rows) > 0)
    long = np.flatnonzero(spans.duration_s >= pixel_s)
    assert np.isin(long, rows).all()
    assert np.all(np.diff(pointer) <= 2 * pixels + 1)  # a pixel may hold the end of a long span and short ones
    lane_of = np.repeat(np.arange(len(spans.lanes)), np.diff(spans.lane_ptr))
    covered = {(lane_of[r], int(spans.start_s[r] / pixel_s)) for r in rows}
    for row in range(len(spans)):  # where something runs, something is shown
        assert (lane_of[row], int(spans.start_s[row] / pixel_s)) in covered
