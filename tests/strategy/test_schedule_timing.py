"""Times and memory of the schedules against the closed forms of their papers."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import StrategyError
from proteus.strategy.schedule import Action, PipelinePlan, in_flight_peak, parse_grid, plan, simulate_unit, walk

RANKS = st.integers(1, 10)
MICRO_BATCHES = st.integers(1, 40)
COST = st.integers(1, 9)


def spans(made: PipelinePlan, *cost: float) -> list[float]:
    """From the first to the last action of every rank."""
    ran = walk(made, *cost)
    return [float(ran.end[end - 1] - ran.start[begin]) for begin, end in zip(made.row_ptr, made.row_ptr[1:])]


@given(st.sampled_from(["gpipe", "1f1b"]), RANKS, MICRO_BATCHES, COST, COST)
def test_bubble_of_gpipe_and_1f1b(name: str, p: int, m: int, f: int, b: int) -> None:
    """Bubble ratio (p - 1) / (m + p - 1): Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2.1."""
    times = simulate_unit(plan(name, p, m), f, b)
    assert times.makespan == (m + p - 1) * (f + b)
    assert times.busy == (m * (f + b),) * p
    assert 1 - times.busy[0] / times.makespan == pytest.approx((p - 1) / (m + p - 1))


@given(RANKS, st.integers(1, 5), st.integers(2, 5), COST, COST)
def test_bubble_of_interleaved(p: int, rounds: int, v: int, f: int, b: int) -> None:
    """The bubble is 1/v of 1F1B's: (p - 1) / (v m) of the work, Narayanan et al. 2021, section 2.2.2."""
    m = rounds * p
    times = simulate_unit(plan("interleaved", p, m, v), f, b)
    assert times.makespan == (m * v + p - 1) * (f + b)


@given(RANKS, st.integers(0, 20), COST, COST, st.data())
def test_bubble_of_zb_h1(p: int, more: int, f: int, b: int, data: st.DataObject) -> None:
    """(p - 1) (F + B - W) where W <= F, B: Qi et al. 2023, table 2."""
    w = data.draw(st.integers(0, min(f, b)))
    times = simulate_unit(plan("zb-h1", p, p + more), f, b, w)
    assert times.makespan - times.busy[0] == (p - 1) * (f + b - w)


@given(RANKS, st.integers(0, 20))
def test_zb_v_never_waits(p: int, more: int) -> None:
    """Zero bubble with F = B = W: every rank works from its first action to its last, Qi et al. 2023, section 6."""
    m = 2 * p - 1 + more
    assert spans(plan("zb-v", p, m), 1, 1, 1) == [6.0 * m] * p


@given(RANKS, st.integers(0, 20))
def test_zb_h2_never_waits_and_holds_twice(p: int, more: int) -> None:
    """Zero bubble with F = B = W for 2 p - 1 micro-batches on the first rank: Qi et al. 2023, section 2.2."""
    m = 2 * p - 1 + more
    made = plan("zb-h2", p, m)
    assert spans(made, 1, 1, 1) == [3.0 * m] * p
    assert in_flight_peak(made) == (2 * p - 1,) * p


@given(st.integers(2, 10), st.integers(0, 20))
def test_less_memory_costs_time_but_less_than_1f1b(p: int, more: int) -> None:
    """Waiting with F = B = W, in units of which 1F1B waits 6 (p - 1) (its stage is two chunks of the V).

    Published rates over 1F1B's p / m: V-Min about 2p / 3m (4 p units), V-Half p / 2m (3 p units, 3.5 p without the
    reordering that is left out here), authors' page of Qi et al. 2024.
    """
    m = 2 * p + more
    waits = {name: max(spans(plan(name, p, m), 1, 1, 1)) - 6 * m for name in ("zb-v", "v-half", "v-min")}
    assert max(spans(plan("1f1b", p, m), 2, 4)) - 6 * m == 6 * (p - 1)
    assert waits["zb-v"] == 0
    assert 0 < waits["v-half"] <= 3.5 * p - 1
    assert 0 < waits["v-min"] <= 4 * p - 3


@given(RANKS, MICRO_BATCHES)
def test_memory_of_gpipe_1f1b_and_zb_h1(p: int, m: int) -> None:
    """GPipe holds all, 1F1B p - r, and ZB-H1 what the first rank of 1F1B does (ratio 1): Qi et al. 2023, table 2."""
    assert in_flight_peak(plan("gpipe", p, m)) == (m,) * p
    assert in_flight_peak(plan("1f1b", p, m)) == tuple(min(p - r, m) for r in range(p))
    assert in_flight_peak(plan("zb-h1", p, m)) == (min(p, m),) * p


@given(RANKS, MICRO_BATCHES, st.integers(1, 9), st.integers(1, 9))
def test_memory_of_zb_h1_before_and_after_b(p: int, more: int, before: int, after: int) -> None:
    """Worker i = r + 1 holds (p - i + 1) M_B + (i - 1) M_W, with M_W <= M_B: Qi et al. 2023, section 2.3."""
    made = plan("zb-h1", p, p + more)
    m_b, m_w = max(before, after), min(before, after)
    gain = np.array([m_b, m_w - m_b, -m_w])
    peak = [int(np.cumsum(gain[made.columns(rank)[1]]).max()) for rank in range(p)]
    assert peak == [(p - r) * m_b + r * m_w for r in range(p)]


@given(RANKS, st.integers(1, 5), st.integers(2, 5))
def test_memory_of_interleaved(p: int, rounds: int, v: int) -> None:
    """1 + (p - 1) / (p v) times 1F1B's on the first rank: Korthikanti et al. 2022, section 4.2.3."""
    m = rounds * p
    peak = in_flight_peak(plan("interleaved", p, m, v))
    assert peak == tuple(min(2 * (p - r - 1) + (v - 1) * p + 1, m * v) for r in range(p))
    if rounds > 1:
        assert peak[0] / v / p == pytest.approx(1 + (p - 1) / (p * v))


@given(RANKS, st.integers(0, 20))
def test_memory_of_the_v_schedules(p: int, more: int) -> None:
    """Chunks held; two chunks are one stage of 1F1B, which holds p stages.

    ZB-V holds p stages as 1F1B does, half of what ZB-2p takes (Qi et al. 2023, section 6); V-Half (p + 2) // 2 and
    V-Min (p + 4) // 3 (authors' page of Qi et al. 2024, table 1 there for many ranks); DualPipe PP + 1 of PP = 2p
    chunks (DeepSeek-V3 report, table 2).
    """
    m = 2 * p + more
    assert in_flight_peak(plan("zb-v", p, m)) == (2 * p,) * p
    assert in_flight_peak(plan("dualpipe", p, m)) == (2 * p + 1,) * p
    assert max(in_flight_peak(plan("v-half", p, m))) == (p + 2) // 2 * 2
    assert max(in_flight_peak(plan("v-min", p, m))) == (p + 4) // 3 * 2


def test_v_half_and_v_min_halve_and_third_the_memory() -> None:
    p, m = 96, 200
    stages = {name: max(in_flight_peak(plan(name, p, m))) / 2 for name in ("zb-v", "v-half", "v-min")}
    assert stages["zb-v"] / p == 1
    assert stages["v-half"] / p == pytest.approx(1 / 2, abs=0.02)
    assert stages["v-min"] / p == pytest.approx(1 / 3, abs=0.02)


@given(st.integers(1, 8), st.integers(0, 8))
def test_bubble_of_dualpipe(p: int, more: int) -> None:
    """(p - 1) (F&B + B - 3W) on the first rank, table 2 of the DeepSeek-V3 report, for p ranks of the folded form.

    The formula counts a whole backward, and a forward with the backward beside it (F&B), as one block whose results
    leave at its end; so the rows are grouped into these blocks here.  F = W = 1, whole B = 2, F&B = 3.
    """
    m = 2 * p + more
    blocks = [_dualpipe_blocks(list(row), rank, p, m) for rank, row in enumerate(plan("dualpipe", p, m).rows)]
    assert _idle_of_blocks(blocks, last=2 * p - 1)[0] == (p - 1) * (3 + 2 - 3)


def _dualpipe_blocks(row: list[Action], rank: int, p: int, m: int) -> list[list[Action]]:
    first_pair = 2 * (p - rank - 1) + 2 * (rank + 1) + 3 * (p - rank - 1)
    end_of_pairs = first_pair + 6 * (m - 2 * p + rank + 1) + 5 * (p - rank - 1)
    blocks, i = [], 0
    while i < len(row):
        size = 1
        if first_pair <= i < end_of_pairs and row[i].kind == "F":
            # The last rank does not pair its first: its backward waits for this very forward's chunk.
            size = 1 if i == first_pair and rank == p - 1 else 3
        elif i >= first_pair and [a.kind for a in row[i : i + 2]] == ["B", "W"] and row[i].chunk == row[i + 1].chunk:
            size = 2 if row[i].micro_batch == row[i + 1].micro_batch else 1
        blocks.append(row[i : i + size])
        i += size
    return blocks


def _idle_of_blocks(blocks: list[list[list[Action]]], last: int) -> list[float]:
    """Waiting between the first and the last block of every rank, one unit per action."""
    done: dict[str, int] = {}
    first: dict[int, int] = {}
    now, position = [0] * len(blocks), [0] * len(blocks)
    while any(at < len(row) for at, row in zip(position, blocks)):
        moved = False
        for rank, row in enumerate(blocks):
            while position[rank] < len(row):
                block = row[position[rank]]
                inside = {repr(action) for action in block}
                needed = {need for action in block for need in _inputs(action, last)} - inside
                if not needed <= done.keys():
                    break
                start = max([now[rank], *(done[need] for need in needed)])
                first.setdefault(rank, start)
                now[rank] = start + len(block)
                done.update(dict.fromkeys(inside, now[rank]))
                position[rank] += 1
                moved = True
        assert moved, "the blocks deadlock"
    return [now[rank] - first[rank] - sum(map(len, row)) for rank, row in enumerate(blocks)]


def _inputs(action: Action, last: int) -> list[str]:
    """The data dependencies, written again so as not to trust the ones under test."""
    chunk, micro_batch = action.chunk, action.micro_batch
    if action.kind == "F":
        return [f"{chunk - 1}F{micro_batch}"] if chunk else []
    if action.kind == "B":
        return [f"{chunk}F{micro_batch}"] + ([f"{chunk + 1}B{micro_batch}"] if chunk < last else [])
    return [f"{chunk}B{micro_batch}"]


@given(
    st.sampled_from(["gpipe", "1f1b", "zb-h1", "zb-v", "v-half", "v-min"]),
    st.integers(1, 6),
    st.integers(1, 12),
    st.tuples(COST, COST, COST, st.integers(0, 3)),
)
def test_walk_is_the_longest_path(name: str, p: int, m: int, cost: tuple[int, int, int, int]) -> None:
    """Starting as early as possible is the longest path through the dependencies and the rows."""
    made = plan(name, p, m)
    ran = walk(made, *cost)
    length = dict(zip("FBW", cost))
    rank_of = {repr(action): rank for rank, row in enumerate(made.rows) for action in row}
    graph = networkx.DiGraph()
    for row in made.rows:
        for before, action in zip([None, *row], row):
            if before is not None:
                graph.add_edge(repr(before), repr(action), weight=length[before.kind])
            for need in _inputs(action, made.num_chunks - 1):
                away = cost[3] if rank_of[need] != rank_of[repr(action)] else 0
                kind = need.strip("0123456789")
                weight = max(length[kind] + away, graph.get_edge_data(need, repr(action), {"weight": 0})["weight"])
                graph.add_edge(need, repr(action), weight=weight)
    start = dict.fromkeys(graph, 0)
    for node in networkx.topological_sort(graph):
        for _, after, data in graph.out_edges(node, data=True):
            start[after] = max(start[after], start[node] + data["weight"])
    assert [start[repr(action)] for row in made.rows for action in row] == ran.start.tolist()
    assert not ran.stuck


def test_hand_computed_times() -> None:
    """Two ranks, two micro-batches, F = 1, B = 2, sends of 1.

    ::

        time    0 1 2 3 4 5 6 7 8 9 10 11
        rank 0  F F . . . B B . . B B
        rank 1  . . F B B F B B
    """
    ran = walk(plan("1f1b", 2, 2), f=1, b=2, send=1)
    assert ran.start.tolist() == [0, 1, 6, 9, 2, 3, 5, 6]
    assert simulate_unit(plan("1f1b", 2, 2), 1, 2, send=1) == (11.0, (6.0, 6.0), (2, 1))


def test_a_deadlock_has_no_times() -> None:
    made = parse_grid("0F0 0B0 0F1 0B1\n1F1 1F0 1B1 1B0")
    ran = walk(made)
    assert ran.stuck == {0: 1, 1: 0}
    assert np.isnan(ran.start[1:]).all()
    with pytest.raises(StrategyError, match="deadlocks"):
        simulate_unit(made)
