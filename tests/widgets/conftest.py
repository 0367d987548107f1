"""Sessions small enough for tests, and a stand-in for the browser's end of the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import comm
import ipywidgets.widgets.widget as base
import pytest
from comm.base_comm import BaseComm

import proteus as pt
from proteus_widgets import Session


@pytest.fixture(scope="session")
def small_tree() -> pt.StrategyTree:
    model = pt.models.load("gpt2")
    tree = pt.StrategyTree(model).parallelize(dp="fill", tp=2, pp=2, micro_batch=1, global_batch=16, zero=1)
    return tree.on_devices(8)


@pytest.fixture(scope="session")
def box() -> pt.Cluster:
    return pt.clusters.load("dgx-a100")


@pytest.fixture
def session(small_tree: pt.StrategyTree, box: pt.Cluster) -> Session:
    return Session(small_tree, box)


class Wire(list[tuple[dict[str, Any], int]]):
    """What a kernel sent: (message, bytes of its buffers)."""

    def large(self) -> list[list[str]]:
        """Traits of every message of more than 10 kB."""
        return [sorted(message.get("state", {})) for message, size in self if size > 10_000]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    sent = Wire()

    class Recorder(BaseComm):
        def publish_msg(
            self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
        ) -> None:
            sent.append((data or {}, sum(memoryview(part).nbytes for part in buffers or ())))

    make: Callable[..., BaseComm] = Recorder
    monkeypatch.setattr(comm, "create_comm", make)
    monkeypatch.setattr(base.comm, "create_comm", make)
    yield sent
