"""The session: changes, errors, undo, stale runs, files."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

import proteus as pt
from proteus.errors import InputError, StrategyError
from proteus.result.result import Result
from proteus_widgets import Session


def test_it_begins_simulated(session: Session) -> None:
    assert session.result.step_time_s > 0
    assert session.decided.value("tp") == 2
    assert session.error == ""


def test_a_change_simulates_and_dp_follows(session: Session) -> None:
    assert session.change(tp=4)
    assert (session.decided.value("tp"), session.decided.value("dp")) == (4, 1)
    assert dict(session.result.tree.mesh.axes)["tp"] == 4


def test_an_impossible_change_leaves_everything_and_says_why(session: Session) -> None:
    before = session.outcome
    assert not session.change(tp=5)
    assert "tp=5 does not divide 12 attention heads" in session.error
    assert session.outcome is before
    assert not session.can_undo
    assert session.change(tp=1)
    assert session.error == ""


def test_a_gpu_that_the_hosts_do_not_take_is_an_error_and_nothing_else(small_tree: pt.StrategyTree) -> None:
    session = Session(small_tree, pt.clusters.load("dgx-a100"))
    before = session.outcome
    session.request_gpu("l40s")
    assert "joined by NVSwitch; l40s has neither NVLink nor xGMI" in session.error and session.outcome is before
    session.request_gpu("a800")
    assert session.error == "" and session.cluster.gpu().name == "a800-80gb"


def test_more_devices_than_there_are(session: Session) -> None:
    assert not session.change(dp=16)
    assert session.error == "needs 64 GPUs, the cluster has 8"


def test_undo_and_redo(session: Session) -> None:
    first = session.plan
    session.change(tp=4)
    second = session.plan
    assert session.undo() and session.plan == first != second
    assert session.redo() and session.plan == second
    session.undo()
    session.change(pp=1)
    assert not session.can_redo
    assert session.undo() and not session.undo()


def test_an_edit_survives_a_change_of_degrees(session: Session) -> None:
    assert session.edit("layers.0-5", "recompute", "full")
    assert session.change(tp=4)
    assert dict(session.tree.configs)["layers.0-5"].recompute == "full"
    assert session.edit("layers.0-5", "recompute", "")
    assert session.moment.edits == ()


def test_a_wrong_edit_names_the_node(session: Session) -> None:
    assert not session.edit("layers.0-5.mlp", "partition.ffn", "cp")
    assert "layers.0-5.mlp" in session.error and "'cp'" in session.error


def test_another_cluster_repairs_the_degrees(session: Session) -> None:
    assert session.change(cluster=pt.clusters.load("hc1").with_nodes(1))
    small = pt.clusters.load("p4d").with_nodes(2)
    assert session.change(cluster=small)
    assert session.tree.num_devices == 16


def test_another_model_drops_edits_that_do_not_fit(session: Session) -> None:
    session.edit("layers.0-5", "recompute", "full")
    session.edit("layers.0.mlp", "partition.ffn", "tp")
    assert session.change(model=pt.models.load("gpt-1.5b"))  # 25 heads: tp=2 gives way
    assert session.decided.value("tp") == 1 and session.outcome is not None
    assert "tensor 2 → 1: tp=2 does not divide 25 attention heads" in session.outcome.notes
    assert [path for path, _ in session.moment.edits] == ["layers.0-5", "layers.0.mlp"]
    assert session.change(model=pt.models.load("resnet50"))
    assert session.moment.edits == ()
    assert sum("dropped" in note for note in session.outcome.notes) == 2
    assert session.undo() and "tensor 2 → 1" in session.outcome.notes[0]


def test_what_is_no_model_or_cluster_is_refused(session: Session) -> None:
    assert not session.change(model="gpt2") and "pt.models.load()" in session.error
    assert not session.change(cluster="hc1") and "pt.clusters.load()" in session.error
    with pytest.raises(InputError, match="takes a StrategyTree"):
        Session("gpt2", session.cluster)  # type: ignore[arg-type]


def test_least_recomputation_is_shown_and_edited_on_the_strategy_that_was_asked_for() -> None:
    tree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize(tp=8, recompute="auto", micro_batch=8)
    session = Session(tree, pt.clusters.load("dgx-a100").with_gpu("a100-40gb"))
    chosen = session.result.plan.value("recompute_modules"), session.result.plan.value("recompute")
    assert chosen != ((), "auto") and session.decided.value("recompute") == "auto"
    assert session.rows == tuple(session.result.tree.rows())
    assert session.change(zero=1) and session.plan is not None and session.plan.recompute == "auto"


def test_selection_is_forgotten_with_the_result_it_was_of(session: Session) -> None:
    session.select("span", 3)
    assert session.selection is not None and session.lit.span == 3
    session.change(tp=4)
    assert session.selection is None and session.lit.span == -1


def test_selecting_what_is_not_there_selects_nothing(session: Session) -> None:
    session.select("span", 10**7)
    assert session.selection is None
    session.select("node", 1)
    session.select("node", -1)
    assert session.selection is None


def test_pin_keeps_an_outcome(session: Session) -> None:
    session.pin()
    pinned = session.pinned
    session.change(tp=4)
    assert session.pinned is pinned and session.outcome is not pinned
    session.unpin()
    assert session.pinned is None


def test_one_event_per_change(session: Session) -> None:
    events: list[object] = []
    session.observe(lambda change: events.append(change.new), "outcome")
    session.change(tp=4)
    assert len(events) == 1


def test_possible_of_an_unknown_setting(session: Session) -> None:
    with pytest.raises(StrategyError, match="unknown field of a plan 'tpp'"):
        session.possible("tpp")


def test_stale_requests_are_never_run(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    ran: list[int] = []
    gate, begun = threading.Event(), threading.Event()
    waits = False

    def slow(tree: pt.StrategyTree, cluster: pt.Cluster, progress: pt.Progress | None = None) -> Result:
        if waits:
            begun.set()
            gate.wait(20)
        ran.append(dict(tree.mesh.axes).get("tp", 1))
        return pt.simulate(tree, cluster, progress=progress)

    async def play() -> Session:
        nonlocal waits
        session = Session(small_tree, box, simulate=slow)
        ran.clear()
        waits = True
        session.request(tp=1)
        await asyncio.to_thread(begun.wait, 20)
        for tp in (4, 1, 4, 2, 4):  # while the first runs
            session.request(tp=tp)
        assert session.busy
        gate.set()
        while session.busy:
            await asyncio.sleep(0.01)
        return session

    session = asyncio.run(play())
    assert ran == [1, 4]  # the first ran, was stale when it ended; of the rest only the last
    assert session.decided.value("tp") == 4
    assert session.undo() and session.decided.value("tp") == 2  # the stale one left no trace


def test_requests_add_up(session: Session) -> None:
    async def play() -> None:
        session.request(tp=4)
        session.request(zero=0)
        while session.busy:
            await asyncio.sleep(0.01)

    asyncio.run(play())
    assert (session.decided.value("tp"), session.decided.value("zero")) == (4, 0)


def test_stop_keeps_what_is_shown(session: Session) -> None:
    async def play() -> None:
        session.request(tp=4)
        session.stop()
        await asyncio.sleep(0.5)

    before = session.outcome
    asyncio.run(play())
    assert session.outcome is before and not session.busy


def test_a_running_simulation_is_followed_and_stopped(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    """The engine itself is told: the thread is free for the next change at once."""
    ended: list[bool] = []

    def endless(tree: pt.StrategyTree, cluster: pt.Cluster, progress: pt.Progress | None = None) -> Result:
        if progress is None:
            return pt.simulate(tree, cluster)
        progress.begin(4)
        progress.signal[1] = 1
        try:
            while True:
                progress.check()
                time.sleep(0.001)
        finally:
            ended.append(True)

    async def play() -> None:
        session.request(tp=4)
        while not session.progress:
            await asyncio.sleep(0.01)
        assert session.busy and session.progress == 0.25
        session.stop()
        while not ended:
            await asyncio.sleep(0.01)

    session = Session(small_tree, box, simulate=endless)
    asyncio.run(play())
    assert not session.busy and session.decided.value("tp") == 2


def test_no_search_begins_beside_a_change(session: Session) -> None:
    async def play() -> None:
        session.request(tp=4)
        session.request_suggestions()
        while session.busy:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)

    asyncio.run(play())
    assert not session.suggestions and not session.levers


def test_a_change_ends_the_search_for_suggestions(session: Session) -> None:
    async def play() -> None:
        session.request_suggestions()
        session.request(tp=4)
        while session.busy:
            await asyncio.sleep(0.01)
        session.request_suggestions()
        while not session.suggestions:
            await asyncio.sleep(0.01)

    asyncio.run(play())
    shown = session.suggestions
    assert session.suggest() == shown  # those of now, not of before the change


def test_save_and_load(session: Session, tmp_path: Path) -> None:
    session.edit("layers.0-5.mlp", "recompute", "full")
    session.change(tp=4)
    session.save(tmp_path / "x.proteus.yaml")
    again = Session.load(tmp_path / "x.proteus.yaml")
    assert again.plan == session.plan
    assert again.tree == session.tree
    assert again.moment.edits == session.moment.edits
    assert again.result.step_time_s == session.result.step_time_s


def test_adapters_are_saved_with_the_model(tmp_path: Path) -> None:
    model = pt.with_lora(pt.models.load("gpt2"), pt.Lora(rank=4, targets=("attention",), base="nf4"))
    session = Session(pt.StrategyTree(model).parallelize(dp=8, global_batch=8), pt.clusters.load("dgx-a100"))
    session.edit("embedding", "frozen", "trained")
    session.save(tmp_path / "x.proteus.yaml")
    again = Session.load(tmp_path / "x.proteus.yaml")
    assert again.moment.model.lora == model.lora
    assert again.tree == session.tree


HEAD = "proteus_session: 2\ncluster: {name: dgx-a100, nodes: 1}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a saved session"),
        ("- 1", "not a saved session"),
        ("proteus_session: 1\nmodel: gpt2", "a session of version 1, but only version 2 can be read"),
        ("proteus_session: 2\nmodel: [a", "not a readable session"),
        (f"{HEAD}model: lama-9b", "unknown model 'lama-9b'"),
        (f"{HEAD}model: {{own: mine}}", "'mine' is not built in; load it and pass model="),
        (f"{HEAD}model: gpt2\nlora: {{rank: 4, alpha: 8}}", "lora.alpha: unknown field"),
        (f"{HEAD}model: gpt2\nlora: {{rank: 4, targets: [gate]}}", "for an adapter"),
        ("proteus_session: 2\nmodel: gpt2\ncluster: dgx-a100", "must have a name and a number of nodes"),
        (f"{HEAD}model: gpt2\nplan: {{tp: two}}", "line 4: plan.tp: tp='two'; it must be a whole number"),
        (f"{HEAD}model: gpt2\nsettings: {{tp: 2}}", "unknown field 'settings'"),
        (f"{HEAD}model: gpt2\nplan: {{tp: 2}}\nnodes:\n  layers.99: {{recompute: full}}", "line 6: layers.99"),
        ("!!python/object/apply:os.system ['true']", "not a readable session"),
    ],
)
def test_damaged_files_are_refused_with_their_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(pt.ProteusError, match=r"bad\.yaml: ") as caught:
        Session.load(path)
    assert message in str(caught.value)


def test_suggestions_are_what_the_simulator_shows(session: Session) -> None:
    found = session.suggest()
    assert found and len(found) <= 3
    best = found[0]
    before = session.result.samples_per_s
    assert session.change(**best.changes)
    assert session.result.samples_per_s == pytest.approx(before / (1 - best.gain))


def test_the_band_of_what_nobody_decided_comes_after_the_picture(session: Session) -> None:
    async def play() -> None:
        session.request(tp=4)
        while session.busy:
            await asyncio.sleep(0.01)
        bands.append(session.band)
        session.request_band()
        stale = session.outcome
        session.request(tp=2)
        while session.busy:
            await asyncio.sleep(0.01)
        assert session.outcome is not stale and session.band is None
        session.request_band()
        while session.band is None:
            await asyncio.sleep(0.01)

    bands: list[object] = []
    asyncio.run(asyncio.wait_for(play(), 60))
    assert bands == [None]
    assert session.band == session.result.step_time_band
    assert session.band.switches and not session.result.kernel_band.switches  # no framework is named
