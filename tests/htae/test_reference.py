"""Tiny graphs whose timelines are worked out by hand; the twin and the engine both give them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.reference import play_reference
from proteus.htae.tasks import TaskGraph, TaskKind, Timeline

Player = Callable[[TaskGraph], Timeline]


@pytest.fixture(params=[play_reference, play], ids=["reference", "engine"])
def player(request: pytest.FixtureRequest) -> Player:
    chosen: Player = request.param
    return chosen


def spans(player: Player, builder: GraphBuilder) -> list[tuple[float, float]]:
    timeline = player(builder.graph())
    return list(zip(timeline.start_s.tolist(), timeline.end_s.tolist(), strict=True))


# -- streams and predecessors


def test_nothing(player: Player) -> None:
    assert player(GraphBuilder().graph()).makespan_s == 0.0


def test_a_stream_runs_its_tasks_in_order_one_at_a_time(player: Player) -> None:
    builder = GraphBuilder()
    stream = builder.stream(0)
    for work_s in (2.0, 1.0, 4.0):
        builder.compute(work_s, stream)
    assert spans(player, builder) == [(0.0, 2.0), (2.0, 3.0), (3.0, 7.0)]


def test_a_collective_starts_when_its_last_rank_arrives(player: Player) -> None:
    builder = GraphBuilder([10.0])
    streams = [builder.stream(device) for device in range(2)]
    builder.compute(1.0, streams[0])
    builder.compute(3.0, streams[1])
    builder.comm(20.0, links={0: 1}, streams=streams)
    builder.compute(1.0, streams[0])
    assert spans(player, builder) == [(0.0, 1.0), (0.0, 3.0), (3.0, 5.0), (5.0, 6.0)]


def test_the_head_of_a_stream_holds_up_what_is_ready_behind_it(player: Player) -> None:
    builder = GraphBuilder()
    compute, second = builder.stream(0), builder.stream(0)
    slow = builder.compute(5.0, second)
    builder.compute(1.0, compute, after=[slow])
    builder.compute(1.0, compute)  # ready from the start, behind one that is not
    assert spans(player, builder) == [(0.0, 5.0), (5.0, 6.0), (6.0, 7.0)]


def test_latency_then_work(player: Player) -> None:
    builder = GraphBuilder([10.0])
    builder.comm(20.0, links={0: 1}, streams=[builder.stream(0)], latency_s=0.5)
    assert spans(player, builder) == [(0.0, 2.5)]


def test_latency_uses_no_link(player: Player) -> None:
    builder = GraphBuilder([10.0])
    builder.comm(20.0, links={0: 1}, streams=[builder.stream(0)], latency_s=2.0)
    builder.comm(20.0, links={0: 1}, streams=[builder.stream(1)])
    assert spans(player, builder) == [(0.0, 4.0), (0.0, 2.0)]


def test_no_op_starts_before_its_launch(player: Player) -> None:
    builder = GraphBuilder()
    stream = builder.stream(0)
    builder.compute(1.0, stream, release_s=0.5)
    builder.compute(1.0, stream, release_s=1.0)
    builder.compute(1.0, stream, release_s=4.0)
    assert spans(player, builder) == [(0.5, 1.5), (1.5, 2.5), (4.0, 5.0)]
    assert player(builder.graph()).cause.tolist() == [-1, 0, -1]


def test_the_host_launches_one_op_after_another(player: Player) -> None:
    builder = GraphBuilder()
    host, compute = builder.stream(0), builder.stream(0)
    launches = [builder.host(1.0, [host]) for _ in range(2)]
    builder.compute(0.25, compute, after=[launches[0]])
    builder.compute(0.25, compute, after=[launches[1]])
    assert spans(player, builder) == [(0.0, 1.0), (1.0, 2.0), (1.0, 1.25), (2.0, 2.25)]


def test_tasks_without_work_take_no_time(player: Player) -> None:
    builder = GraphBuilder([10.0])
    streams = [builder.stream(device) for device in range(2)]
    builder.compute(2.0, streams[0])
    barrier = builder.comm(0.0, links={0: 1}, streams=streams)
    builder.compute(0.0, streams[1])
    builder.host(1.0, after=[barrier])
    assert spans(player, builder) == [(0.0, 2.0), (2.0, 2.0), (2.0, 2.0), (2.0, 3.0)]


# -- shares of links


def test_two_rings_on_one_nic_have_half_each(player: Player) -> None:
    builder = GraphBuilder([12.0])
    builder.comm(12.0, links={0: 1}, streams=[builder.stream(0)])
    builder.comm(24.0, links={0: 1}, streams=[builder.stream(1)])
    # 6 and 6 B/s until 2 s; then 12 bytes are left and have 12 B/s
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 3.0)]
    timeline = player(builder.graph())
    log = list(zip(timeline.rate_task.tolist(), timeline.rate_time_s.tolist(), timeline.rate.tolist(), strict=True))
    assert sorted(log) == [(0, 0.0, 6.0), (1, 0.0, 6.0), (1, 2.0, 12.0)]


def test_a_ring_that_crosses_the_nic_twice_takes_twice_its_bandwidth(player: Player) -> None:
    builder = GraphBuilder([12.0])
    builder.comm(8.0, links={0: 2}, streams=[builder.stream(0)])
    builder.comm(8.0, links={0: 1}, streams=[builder.stream(1)])
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 2.0)]  # 2 b + b = 12


def test_what_a_cap_leaves_goes_to_the_others(player: Player) -> None:
    builder = GraphBuilder([12.0])
    builder.comm(4.0, links={0: 1}, streams=[builder.stream(0)], cap_Bps=2.0)
    builder.comm(20.0, links={0: 1}, streams=[builder.stream(1)])
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 2.0)]  # 2 and 10 B/s


def test_a_full_link_leaves_room_elsewhere(player: Player) -> None:
    builder = GraphBuilder([10.0, 4.0])
    builder.comm(16.0, links={0: 1}, streams=[builder.stream(0)])
    builder.comm(4.0, links={0: 1, 1: 1}, streams=[builder.stream(1)])
    builder.comm(4.0, links={1: 1}, streams=[builder.stream(2)])
    # link 1 fills first, at 2 B/s each; link 0 leaves 8 B/s to the first
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 2.0), (0.0, 2.0)]


def test_a_flow_over_no_link_runs_at_its_cap(player: Player) -> None:
    builder = GraphBuilder()
    builder.comm(12.0, links={}, streams=[builder.stream(0)], cap_Bps=4.0)
    builder.comm(12.0, links={}, streams=[builder.stream(1)])
    assert spans(player, builder) == [(0.0, 3.0), (0.0, 0.0)]


def test_copies_share_links_with_communication(player: Player) -> None:
    builder = GraphBuilder([12.0])
    builder.comm(12.0, links={0: 1}, streams=[builder.stream(0)], kind=TaskKind.COPY)
    builder.comm(12.0, links={0: 1}, streams=[builder.stream(1)])
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 2.0)]


# -- overlap


def test_compute_and_communication_slow_each_other(player: Player) -> None:
    builder = GraphBuilder([20.0], compute_slowdown=[[1.0]], comm_slowdown=[[0.5]])
    builder.compute(3.0, builder.stream(0))
    builder.comm(12.0, links={0: 1}, streams=[builder.stream(0)], cap_Bps=12.0, latency_s=1.0)
    # from 1 s on: 12 / 1.5 = 8 B/s, so 1.5 s; compute does 0.75 s of work in them and has 1.25 s left
    assert spans(player, builder) == [(0.0, 3.75), (0.0, 2.5)]


def test_communication_speeds_up_when_compute_ends(player: Player) -> None:
    builder = GraphBuilder([20.0], compute_slowdown=[[1.0]], comm_slowdown=[[0.5]])
    builder.compute(1.0, builder.stream(0))
    builder.comm(40.0, links={0: 1}, streams=[builder.stream(0)], cap_Bps=12.0)
    # 2 s at 8 B/s, then 24 bytes at 12 B/s
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 4.0)]


def test_a_lower_cap_of_one_raises_the_share_of_the_other(player: Player) -> None:
    builder = GraphBuilder([12.0], compute_slowdown=[[0.0]], comm_slowdown=[[2.0]])
    builder.compute(1.0, builder.stream(0))
    builder.comm(6.0, links={0: 1}, streams=[builder.stream(0)], cap_Bps=6.0)
    builder.comm(14.0, links={0: 1}, streams=[builder.stream(1)])
    # 2 and 10 B/s for 1 s; then 4 bytes each, at 6 and 6 B/s
    assert spans(player, builder) == [(0.0, 1.0), (0.0, pytest.approx(5 / 3)), (0.0, pytest.approx(5 / 3))]


def test_only_the_own_device_is_slowed(player: Player) -> None:
    builder = GraphBuilder([12.0], compute_slowdown=[[1.0]], comm_slowdown=[[0.0]])
    builder.compute(1.0, builder.stream(0))
    builder.compute(1.0, builder.stream(1))
    builder.comm(24.0, links={0: 1}, streams=[builder.stream(0)])
    assert spans(player, builder) == [(0.0, 2.0), (0.0, 1.0), (0.0, 2.0)]


def test_the_worst_of_several_counts(player: Player) -> None:
    builder = GraphBuilder([1.0], compute_slowdown=[[1.0, 3.0]], comm_slowdown=[[0.0], [0.0]])
    builder.compute(2.0, builder.stream(0))
    builder.comm(2.0, links={}, streams=[builder.stream(0)], op_class=0, cap_Bps=1.0)
    builder.comm(4.0, links={}, streams=[builder.stream(0)], op_class=1, cap_Bps=1.0)
    # a quarter speed while the second kind runs, 4 s; then 1 s is left at full speed
    assert spans(player, builder) == [(0.0, 5.0), (0.0, 2.0), (0.0, 4.0)]


def test_a_segment_changes_class_beside_communication(player: Player) -> None:
    builder = GraphBuilder([8.0], compute_slowdown=[[0.0], [1.0]], comm_slowdown=[[0.0, 1.0]])
    builder.segment([(0, 1.5), (0, 0.5), (1, 2.0)], builder.stream(0))
    builder.comm(16.0, links={0: 1}, streams=[builder.stream(0)], cap_Bps=8.0, latency_s=1.0)
    # from 1 s: 8 B/s beside class 0; from 2 s: 4 B/s beside class 1, so 2 s more, in which compute does 1 s
    assert spans(player, builder) == [(0.0, 5.0), (0.0, 4.0)]


# -- causes


def test_causes_lead_back_to_the_start(player: Player) -> None:
    builder = GraphBuilder([10.0])
    compute, tensor, second = builder.stream(0), builder.stream(0), builder.stream(1)
    first = builder.compute(1.0, compute)
    late = builder.compute(2.0, second)
    reduce = builder.comm(10.0, links={0: 1}, streams=[tensor], after=[first, late])
    builder.compute(1.0, compute, after=[reduce])
    assert player(builder.graph()).cause.tolist() == [-1, -1, late, reduce]


def test_of_several_causes_the_last_event_counts(player: Player) -> None:
    builder = GraphBuilder()
    tasks = [
        builder.compute(1.0, builder.stream(device), priority=priority) for device, priority in enumerate((0, 1, 0))
    ]
    builder.host(1.0, after=tasks)
    assert player(builder.graph()).cause.tolist() == [-1, -1, -1, 1]
