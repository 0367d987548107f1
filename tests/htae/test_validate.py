"""Graphs that cannot be played are refused, and graphs that cannot finish are explained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from proteus.errors import SimulationError
from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.reference import play_reference
from proteus.htae.tasks import TaskGraph, Timeline

Player = Callable[..., Timeline]


def small_graph() -> TaskGraph:
    builder = GraphBuilder([10.0])
    compute, tensor = builder.stream(0), builder.stream(0)
    first = builder.compute(1.0, compute)
    builder.segment([(0, 1.0)], compute)
    builder.comm(1.0, links={0: 1}, streams=[tensor], after=[first])
    return builder.graph()


@pytest.mark.parametrize("player", [play_reference, play])
def test_collectives_in_opposite_orders_wait_for_each_other(player: Player) -> None:
    builder = GraphBuilder([10.0])
    left, right = builder.stream(0), builder.stream(1)
    builder.compute(1.0, left)
    for streams in ([left, right], [left, right]):
        builder.comm(1.0, links={0: 1}, streams=streams)
    graph = builder.graph()
    swapped = graph.stream_task.copy()
    swapped[-2:] = swapped[-2:][::-1]
    with pytest.raises(SimulationError, match=r"2 of 3 tasks cannot finish.*(1 <- 2 <- 1|2 <- 1 <- 2)"):
        player(dataclasses.replace(graph, stream_task=swapped))


def test_tasks_have_the_names_of_the_caller() -> None:
    builder = GraphBuilder()
    stream = builder.stream(0)
    builder.compute(1.0, stream, after=[1])
    builder.compute(1.0, stream)
    with pytest.raises(SimulationError, match=r"F0 <- F1 <- F0|F1 <- F0 <- F1"):
        play(builder.graph(), describe=lambda task: f"F{task}")


def test_a_long_cycle_is_shortened() -> None:
    builder = GraphBuilder()
    for task in range(30):
        builder.host(1.0, after=[(task + 1) % 30])
    with pytest.raises(SimulationError, match=r"0 <- 1 <- .* <- \.\.\. <- 27 <- 28 <- 29 <- 0"):
        play(builder.graph())


def test_what_only_waits_for_the_cycle_is_not_in_it() -> None:
    builder = GraphBuilder()
    builder.host(1.0, after=[1])
    builder.host(1.0, after=[2])
    builder.host(1.0, after=[1])
    with pytest.raises(SimulationError, match=r"3 of 3 tasks.* 1 <- 2 <- 1|2 <- 1 <- 2"):
        play(builder.graph())


@pytest.mark.parametrize("player", [play_reference, play])
def test_a_link_without_bandwidth(player: Player) -> None:
    builder = GraphBuilder([0.0])
    builder.compute(1.0, builder.stream(0))
    builder.comm(1.0, links={0: 1}, streams=[builder.stream(0)])
    with pytest.raises(SimulationError, match=r"1 of 2 tasks cannot finish: task 1 runs at rate 0"):
        player(builder.graph())


def changed(name: str, row: int, value: Any) -> TaskGraph:
    graph = small_graph()
    column = getattr(graph, name).copy()
    column[row] = value
    return dataclasses.replace(graph, **{name: column})


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("work", 1, -1.0, "task 1 has work -1.0; it must be finite and not negative"),
        ("work", 1, np.nan, "task 1 has work nan"),
        ("latency_s", 2, np.inf, "task 2 has latency_s inf"),
        ("release_s", 0, -2.0, "task 0 has release_s -2.0"),
        ("kind", 0, 9, "task 0 has an unknown kind"),
        ("pattern", 2, -1, "task 2 communicates and has no flow pattern"),
        ("pattern", 2, 1, "task 2 communicates and has no flow pattern"),
        ("pattern", 0, 0, "task 0 has a flow pattern and does not communicate"),
        ("segment", 1, 5, "task 1 has a segment that is no row"),
        ("segment", 2, 0, "task 2 has a segment and does not compute"),
        ("op_class", 2, 4, "task 2 has a class outside comm_slowdown"),
        ("op_class", 0, -1, "task 0 has a class outside compute_slowdown"),
        ("pred", 0, 7, r"CSR pred: values 7..7 are not in 0..2"),
        ("pred_ptr", 1, 3, "CSR pred: the pointer does not cut"),
        ("stream_task", 0, -1, "CSR stream: values -1"),
        ("pattern_link", 0, 1, r"CSR pattern: values 1..1 are not in 0..0"),
        ("pattern_count", 0, 0, "pattern_count must have one count > 0"),
        ("segment_class", 0, 3, r"CSR segment: values 3..3"),
        ("segment_work_s", 0, -1.0, "segment_work_s must have one time >= 0"),
        ("segment_work_s", 0, 2.0, "task 1 has work 1.0 and its segment 2.0"),
        ("stream_device", 1, -1, "negative device"),
        ("link_capacity_Bps", 0, -5.0, "column link_capacity_Bps has a value that is not >= 0"),
        ("pattern_cap_Bps", 0, np.nan, "column pattern_cap_Bps has a value that is not >= 0"),
    ],
)
def test_broken_columns_are_refused(name: str, row: int, value: Any, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        play(changed(name, row, value))


def test_a_link_twice_in_a_pattern_is_refused() -> None:
    graph = small_graph()
    twice = dataclasses.replace(
        graph,
        pattern_ptr=np.array([0, 2], "i4"),
        pattern_link=np.array([0, 0], "i4"),
        pattern_count=np.array([1, 2], "i4"),
    )
    with pytest.raises(SimulationError, match="pattern 0 names a link twice; sum its counts into one row"):
        play(twice)


def test_a_task_twice_in_a_stream_waits_for_itself() -> None:
    graph = small_graph()
    with pytest.raises(SimulationError, match="wait for each other, 0 <- 0;"):
        play(changed("stream_task", 1, 0))
    assert play(graph).makespan_s > 0


def test_wrong_types_and_lengths_are_refused() -> None:
    graph = small_graph()
    with pytest.raises(SimulationError, match="column work is float32; it must be contiguous float64"):
        play(dataclasses.replace(graph, work=graph.work.astype("f4")))
    with pytest.raises(SimulationError, match="column priority has 2 rows for 3 tasks"):
        play(dataclasses.replace(graph, priority=graph.priority[:2]))
    with pytest.raises(SimulationError, match="transposed shape"):
        play(dataclasses.replace(graph, comm_slowdown=np.zeros((2, 1))))
