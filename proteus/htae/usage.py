"""How much of every link was used, and when: read from the log of rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proteus.htae.tasks import TaskGraph, TaskKind, Timeline


class FlowPieces(NamedTuple):
    """Pieces of time in which a flow task had one rate, sorted by task and then by time.

    ``task`` int32, ``start_s``, ``end_s`` and ``rate_Bps`` (per flow) float64.
    """

    task: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    rate_Bps: np.ndarray


class Steps(NamedTuple):
    """A step function: from ``time_s[i]`` on it has ``value[i]``; before the first it is 0."""

    time_s: np.ndarray
    value: np.ndarray


def flow_pieces(graph: TaskGraph, timeline: Timeline) -> FlowPieces:
    """The log of rates of all communications and copies, with the end of each entry."""
    is_flow = (graph.kind == TaskKind.COMM) | (graph.kind == TaskKind.COPY)
    rows = np.flatnonzero(is_flow[timeline.rate_task])
    rows = rows[np.argsort(timeline.rate_task[rows], kind="stable")]
    task, start_s = timeline.rate_task[rows], timeline.rate_time_s[rows]
    end_s = timeline.end_s[task]
    has_next = task[1:] == task[:-1]
    end_s[:-1][has_next] = start_s[1:][has_next]
    return FlowPieces(task, start_s, end_s, timeline.rate[rows])


def link_bytes(graph: TaskGraph) -> np.ndarray:
    """float64[links]: the bytes that cross every link during the whole run."""
    is_flow = graph.pattern >= 0
    per_pattern = np.bincount(graph.pattern[is_flow], graph.work[is_flow], minlength=len(graph.pattern_cap_Bps))
    per_row = np.repeat(per_pattern, np.diff(graph.pattern_ptr)) * graph.pattern_count
    return np.bincount(graph.pattern_link, per_row, minlength=len(graph.link_capacity_Bps))


def link_utilisation(graph: TaskGraph, timeline: Timeline) -> np.ndarray:
    """float64[links]: the used part of what every link could have carried in the whole run, 0 to 1."""
    could_bytes = graph.link_capacity_Bps * timeline.makespan_s
    return np.divide(link_bytes(graph), could_bytes, out=np.zeros_like(could_bytes), where=could_bytes > 0)


def link_steps(graph: TaskGraph, timeline: Timeline, link: int, pieces: FlowPieces | None = None) -> Steps:
    """Bandwidth in use on one link over time [B/s].

    Parameters
    ----------
    link
        Id of the link.
    pieces
        :func:`flow_pieces` of the run, for callers that look at many links.

    Examples
    --------
    Two rings share a link of 12 B/s; the shorter one ends and leaves all to the other:

    >>> from proteus.htae.build import GraphBuilder
    >>> from proteus.htae.engine import play
    >>> builder = GraphBuilder(capacity_Bps=[12.0])
    >>> for device, size in enumerate((6.0, 12.0)):
    ...     _ = builder.comm(size, links={0: 1}, streams=[builder.stream(device)], cap_Bps=8.0)
    >>> graph = builder.graph()
    >>> steps = link_steps(graph, play(graph), 0)
    >>> steps.time_s.tolist(), steps.value.tolist()
    ([0.0, 1.0, 1.75], [12.0, 8.0, 0.0])
    """
    pieces = flow_pieces(graph, timeline) if pieces is None else pieces
    flows_of = np.zeros(len(graph.pattern_cap_Bps), np.int64)
    here = graph.pattern_link == link
    row = np.repeat(np.arange(len(flows_of)), np.diff(graph.pattern_ptr))
    np.add.at(flows_of, row[here], graph.pattern_count[here])
    flows = flows_of[graph.pattern[pieces.task]]
    on = (flows > 0) & (pieces.end_s > pieces.start_s)
    used_Bps = flows[on] * pieces.rate_Bps[on]
    times = np.concatenate((pieces.start_s[on], pieces.end_s[on]))
    time_s, place = np.unique(times, return_inverse=True)
    value = np.cumsum(np.bincount(place, np.concatenate((used_Bps, -used_Bps)), minlength=len(time_s)))
    ones = np.ones(len(used_Bps))
    num_on = np.cumsum(np.bincount(place, np.concatenate((ones, -ones)), minlength=len(time_s)))
    value[num_on == 0] = 0.0  # sums of floats leave dust
    return Steps(time_s, value)
