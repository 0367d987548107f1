"""Max-min fair bandwidth: the rates of flows that share links.

Every task t sends ``m[t, l]`` flows over link l, and all flows of a task have
one bandwidth ``b[t]``.  The rates are the max-min fair solution of

    sum over t of m[t, l] * b[t] <= C[l]  for every link l,      b[t] <= cap[t]

by progressive filling [1]_: raise all b together, freeze the tasks of the link
that fills first, or that reach their cap, and go on with the rest.

.. [1] Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

INFINITE = float("inf")


def max_min_reference(
    flows: Sequence[Mapping[int, int]], cap_Bps: Sequence[float], capacity_Bps: Sequence[float]
) -> list[float]:
    """Progressive filling in plain Python.

    Parameters
    ----------
    flows
        For every task, how many of its flows cross which link.
    cap_Bps
        The limit of each flow of every task.
    capacity_Bps
        Capacity of every link.

    Returns
    -------
    list of float
        Bandwidth of each flow of every task [B/s]; infinite for a task that
        neither a cap nor a link limits.

    Examples
    --------
    Two rings on one NIC; one of them crosses it twice; one is capped:

    >>> max_min_reference([{0: 1}, {0: 1}], [INFINITE] * 2, [12.0])
    [6.0, 6.0]
    >>> max_min_reference([{0: 2}, {0: 1}], [INFINITE] * 2, [12.0])
    [4.0, 4.0]
    >>> max_min_reference([{0: 1}, {0: 1}], [2.0, INFINITE], [12.0])
    [2.0, 10.0]
    """
    rate = [INFINITE] * len(flows)
    left = dict(enumerate(capacity_Bps))
    open_tasks = set(range(len(flows)))
    while open_tasks:
        weight: dict[int, int] = {}
        for task in open_tasks:
            for link, count in flows[task].items():
                weight[link] = weight.get(link, 0) + count
        share = {link: left[link] / flows_on for link, flows_on in weight.items()}
        level = min([*share.values(), *(cap_Bps[task] for task in open_tasks)])
        if level == INFINITE:
            break
        frozen = {
            task for task in open_tasks if cap_Bps[task] <= level or any(share[link] <= level for link in flows[task])
        }
        # one subtraction per link and level, of an integer times the level: so that a
        # task that stands for 4 equal ones takes exactly what those 4 take together
        for link in weight:
            left[link] -= sum(flows[task].get(link, 0) for task in frozen) * level
        for task in frozen:
            rate[task] = level
        open_tasks -= frozen
    return rate


def max_min(
    ptr: np.ndarray, link: np.ndarray, count: np.ndarray, cap_Bps: np.ndarray, capacity_Bps: np.ndarray
) -> np.ndarray:
    """The same with the kernel of the engine, for columns.

    Parameters
    ----------
    ptr, link, count
        CSR int32: task ``i`` sends ``count[j]`` flows over ``link[j]`` for
        ``j`` in ``ptr[i]:ptr[i + 1]``.
    cap_Bps
        float64[tasks].
    capacity_Bps
        float64[links].

    Returns
    -------
    ndarray
        float64[tasks]: bandwidth of each flow [B/s].

    Examples
    --------
    >>> rows = np.array([0, 1, 2], "i4"), np.array([0, 0], "i4"), np.array([2, 1], "i4")
    >>> max_min(*rows, np.array([np.inf, np.inf]), np.array([12.0])).tolist()
    [4.0, 4.0]
    """
    from proteus.htae.kernel import fill  # numba takes long to import
    from proteus.htae.patterns import PATTERN, ROW
    from proteus.htae.world import LINK, SLOT

    num_tasks, num_links = len(cap_Bps), len(capacity_Bps)
    slots, patterns = np.zeros(num_tasks, SLOT), np.zeros(num_tasks, PATTERN)
    rows, links = np.zeros(len(link), ROW), np.zeros(num_links, LINK)
    slots["cap_Bps"], slots["pattern"] = cap_Bps, np.arange(num_tasks)
    patterns["first"], patterns["end"] = ptr[:-1], ptr[1:]
    rows["link"], rows["count"] = link, count
    links["left_Bps"], links["weight"] = capacity_Bps, np.bincount(link, count, minlength=num_links)
    members, active_links = np.arange(num_tasks, dtype=np.int32), np.arange(num_links, dtype=np.int32)
    fair_Bps = np.zeros(num_tasks)
    fill(slots, patterns, rows, links, members, num_tasks, active_links, num_links, fair_Bps)
    return fair_Bps
