"""Flow patterns without the links that cannot decide a rate.

Most links of most patterns never matter.  A ring inside a host is alone on its
links at any time; and of the many equal links that a ring between hosts
crosses, the narrowest one fills first.  Leaving them out changes no rate, not
even its last bit, and makes the play touch a few links instead of hundreds.
"""

from __future__ import annotations

import numpy as np

from proteus.htae.compiled import jit
from proteus.htae.records import record
from proteus.htae.tasks import TaskGraph

#: rows ``first:end`` are its links; ``limit_Bps`` is what the links set that it has for itself
PATTERN = record(f8="cap_Bps limit_Bps", i4="first end")
ROW = record(i4="link count")

_UNUSED, _SHARED = -1, -2
#: increments and multipliers of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)
_GAMMA, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def deciding_rows(graph: TaskGraph, home: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The patterns of a graph, as PATTERN and ROW, with only the links that can decide a rate.

    Parameters
    ----------
    home
        int32[tasks]: the slot of every task.
    """
    user = link_users(home, graph.pattern, graph.pattern_ptr, graph.pattern_link, len(graph.link_capacity_Bps))
    return rows_of(
        graph.pattern_ptr,
        graph.pattern_link,
        graph.pattern_count,
        graph.pattern_cap_Bps,
        graph.link_capacity_Bps,
        user == _SHARED,
        narrowest(graph, user),
    )


@jit
def link_users(
    home: np.ndarray, task_pattern: np.ndarray, ptr: np.ndarray, link: np.ndarray, num_links: int
) -> np.ndarray:
    """The slot whose tasks alone use a link, or that there are none or several."""
    user = np.full(len(ptr) - 1, _UNUSED, np.int32)
    for task in range(len(task_pattern)):
        p = task_pattern[task]
        if p >= 0 and user[p] != home[task]:
            user[p] = home[task] if user[p] == _UNUSED else _SHARED
    link_user = np.full(num_links, _UNUSED, np.int32)
    for p in range(len(user)):
        if user[p] != _UNUSED:
            for j in range(ptr[p], ptr[p + 1]):
                if link_user[link[j]] != user[p]:
                    link_user[link[j]] = user[p] if link_user[link[j]] == _UNUSED else _SHARED
    return link_user


def narrowest(graph: TaskGraph, user: np.ndarray) -> np.ndarray:
    """bool[links]: the narrowest of the shared links that the same patterns cross equally often.

    At any time the same flows run on such links, so all have the same weight and
    the same part taken, and the narrowest never has the larger share.
    """
    shared = np.flatnonzero(user == _SHARED)
    is_kept = np.zeros(len(user), bool)
    # the sum of a hash of each (pattern, count) is the same for links in the same patterns; 128 bits do not collide
    pattern = np.repeat(np.arange(len(graph.pattern_cap_Bps)), np.diff(graph.pattern_ptr)).astype(np.uint64)
    rows = pattern << np.uint64(32) | graph.pattern_count.astype(np.uint64)
    signature = np.zeros((2, len(user)), np.uint64)
    for half in range(2):
        rows = _mix(rows)
        np.add.at(signature[half], graph.pattern_link, rows)
    first, second = signature[:, shared]
    order = np.lexsort((shared, graph.link_capacity_Bps[shared], first, second))
    first, second = first[order], second[order]
    is_new = np.ones(len(shared), bool)
    is_new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    is_kept[shared[order[is_new]]] = True
    return is_kept


def _mix(values: np.ndarray) -> np.ndarray:
    """SplitMix64 of every value."""
    values = values + np.uint64(_GAMMA)
    values = (values ^ values >> np.uint64(30)) * np.uint64(_MIX_1)
    values = (values ^ values >> np.uint64(27)) * np.uint64(_MIX_2)
    mixed: np.ndarray = values ^ values >> np.uint64(31)
    return mixed


@jit
def rows_of(
    ptr: np.ndarray,
    link: np.ndarray,
    count: np.ndarray,
    cap_Bps: np.ndarray,
    capacity_Bps: np.ndarray,
    is_shared: np.ndarray,
    is_kept: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the links that are kept; those that are not shared become limits: ``capacity / count``."""
    patterns = np.zeros(len(ptr) - 1, PATTERN)
    rows = np.zeros(len(link), ROW)
    n = 0
    for p in range(len(ptr) - 1):
        patterns[p].cap_Bps, patterns[p].limit_Bps, patterns[p].first = cap_Bps[p], np.inf, n
        for j in range(ptr[p], ptr[p + 1]):
            if is_kept[link[j]]:
                rows[n].link, rows[n].count = link[j], count[j]
                n += 1
            elif not is_shared[link[j]]:
                patterns[p].limit_Bps = min(patterns[p].limit_Bps, capacity_Bps[link[j]] / count[j])
        patterns[p].end = n
    return patterns, rows[:n]
