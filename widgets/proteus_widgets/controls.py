"""The controls: model, cluster, degrees and the rest, with only possible values to pick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets as t

import proteus as pt
from proteus.hardware import gpus
from proteus_widgets.assets import module, style
from proteus_widgets.options import FIXED
from proteus_widgets.session import Session

NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: menus are filled when nothing was changed for so long [s]: they must not slow the next change
CALM_S = 0.2
#: name, label, group, tip; in the order of the panel
FIELDS = (
    ("dp", "data", "Degrees", "Data-parallel replicas"),
    ("tp", "tensor", "Degrees", "GPUs that share each layer"),
    ("pp", "pipeline", "Degrees", "Stages of consecutive layers"),
    ("cp", "context", "Degrees", "GPUs that share each sequence"),
    ("ep", "expert", "Degrees", "GPUs that share the experts; divides data × context"),
    ("micro_batch", "micro-batch", "Batch", "Samples of one micro-batch on one replica"),
    ("schedule", "schedule", "Pipeline", "Order of micro-batches in the pipeline"),
    ("virtual_stages", "virtual", "Pipeline", "Chunks of layers per GPU"),
    ("zero", "ZeRO", "Memory", "What is cut over the data-parallel replicas"),
    ("recompute", "recompute", "Memory", "Activations computed again in the backward pass"),
    ("sequence_parallel", "sequence par.", "Memory", "Cut norms and residuals along the sequence by tensor"),
    ("precision", "precision", "Numerics", "Compute precision"),
    ("optimizer", "optimizer", "Numerics", "Optimizer"),
)


class Controls(anywidget.AnyWidget):
    """Control panel; see ``docs/views/controls.md``."""

    _esm = module("controls")
    _css = style("controls")

    fields = t.List(t.Dict()).tag(sync=True)
    rev = t.Int(0).tag(sync=True)
    message = t.Unicode("").tag(sync=True)
    failed = t.Bool(False).tag(sync=True)

    def __init__(self, session: Session, on_price: Callable[[float], None] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._session = session
        self._on_price = on_price
        self._price = 0.0
        self._offers = {
            name: [{"value": value, "label": text, "reason": ""} for value, text in choices]
            for name, choices in FIXED.items()
        }
        self._later: asyncio.TimerHandle | None = None
        self.on_msg(self._receive)

    def show(self) -> None:
        """Show the settings of the session; what they may be changed to follows when nothing else is to do."""
        self._draw()
        if self._later:
            self._later.cancel()
        try:
            self._later = asyncio.get_running_loop().call_later(CALM_S, self._options)
        except RuntimeError:  # outside Jupyter nothing is urgent
            self._options()

    def _options(self) -> None:
        """Find what every setting may be changed to: all of them are tried, which takes its time."""
        self._offers = {
            name: [{"value": o.value, "label": o.label, "reason": o.reason} for o in self._session.possible(name)]
            for name, *_ in FIELDS
        }
        self._draw()

    def _draw(self) -> None:
        with self.hold_sync():
            self.fields = [*self._where(), *(self._field(*entry) for entry in FIELDS), *self._numbers()]
            self.rev += 1  # the browser may show a value that was refused: make it read the fields again
            self.say()

    def say(self) -> None:
        """Show the error of the session, or what it noted."""
        session = self._session
        with self.hold_sync():
            self.failed = bool(session.error)
            self.message = session.error or self._note()
            if not session.busy:  # refused or stopped: what the browser shows is not what is
                self.rev += 1

    def _note(self) -> str:
        session = self._session
        outcome = session.outcome
        assert outcome is not None
        used, there = session.tree.num_devices, session.cluster.num_devices
        idle = f"{used} of {there} GPUs used" if used < there else f"{used} GPUs"
        return " · ".join([idle, f"{session.tree.num_micro_batches} micro-batches", *outcome.notes])

    def _where(self) -> list[dict[str, Any]]:
        model, cluster = self._session.model, self._session.cluster
        gpu = cluster.gpu(0).name
        nodes = sorted({*NODES, cluster.num_hosts})
        return [
            _choice("model", "model", "Model and cluster", model.name, pt.models.names()),
            _choice("cluster", "cluster", "Model and cluster", cluster.name, pt.clusters.names()),
            _choice("nodes", "nodes", "Model and cluster", cluster.num_hosts, nodes),
            _choice("gpu", "GPU", "Model and cluster", gpu, gpus.names()),
        ]

    def _field(self, name: str, label: str, group: str, tip: str) -> dict[str, Any]:
        value = getattr(self._session.settings, name)
        options = list(self._offers.get(name, ()))
        if value not in [option["value"] for option in options]:
            options.insert(0, {"value": value, "label": str(value), "reason": ""})
        field = {"name": name, "label": label, "group": group, "tip": tip, "value": value, "options": options}
        return {**field, "narrow": name not in FIXED}

    def _numbers(self) -> list[dict[str, Any]]:
        batch = self._session.settings
        step = batch.micro_batch * batch.dp
        return [
            _number("global_batch", "global batch", "Batch", "Samples of one step", batch.global_batch, step, step),
            _number("price", "$ / GPU-hour", "Cost", "Price of a GPU-hour; 0 hides the cost", self._price, 0, 0.1),
        ]

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "set", "name": str(name), "value": value}:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        session = self._session
        match name:
            case "price":
                self._price = max(float(value), 0.0)
                self._draw()
                if self._on_price:
                    self._on_price(self._price)
            case "model":
                session.request_load(model=str(value))
            case "cluster":
                session.request_load(cluster=str(value), nodes=session.cluster.num_hosts)
            case "nodes":
                session.request(cluster=session.cluster.with_nodes(int(value)))
            case "gpu":
                session.request_gpu(str(value))
            case _:
                session.request(**{name: value})


def _number(name: str, label: str, group: str, tip: str, value: float, least: float, step: float) -> dict[str, Any]:
    return {"name": name, "label": label, "group": group, "tip": tip, "value": value, "min": least, "step": step}


def _choice(name: str, label: str, group: str, value: Any, values: Any) -> dict[str, Any]:
    known = list(values)
    if value not in known:
        known.insert(0, value)
    options = [{"value": v, "label": str(v), "reason": ""} for v in known]
    field = {"name": name, "label": label, "group": group, "tip": "", "value": value, "options": options}
    return {**field, "narrow": all(isinstance(v, int) for v in known)}
