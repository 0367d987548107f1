"""The controls: model, cluster, degrees and the rest, with only possible values to pick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets as t

import proteus as pt
from proteus import frameworks
from proteus.arguments import Whole
from proteus.hardware import gpus
from proteus_widgets.assets import module, style
from proteus_widgets.fields import BY_NAME, FIELDS, Field, is_typed, origin, shown
from proteus_widgets.options import current, label
from proteus_widgets.session import Session

NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
#: menus are filled when nothing was changed for so long [s]: they must not slow the next change
CALM_S = 0.2


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
        self._offers: dict[str, list[dict[str, Any]]] = {}
        self._later: asyncio.TimerHandle | None = None
        self.on_msg(self._receive)

    def show(self) -> None:
        """Show the plan of the session; what its fields may be changed to follows when nothing else is to do."""
        self._draw()
        if self._later:
            self._later.cancel()
        menus = [field for field in FIELDS if field.form == "menu"]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # outside Jupyter nothing is urgent
            self._offers = {field.name: self._offer(field) for field in menus}
            self._draw()
        else:
            self._later = loop.call_later(CALM_S, self._seek, loop, menus, {})

    def _seek(self, loop: asyncio.AbstractEventLoop, menus: list[Field], offers: dict[str, Any]) -> None:
        """Find what one field after another may be changed to; a change that comes between ends it."""
        if menus:
            offers[menus[0].name] = self._offer(menus[0])
            self._later = loop.call_later(0, self._seek, loop, menus[1:], offers)
        else:
            self._offers = offers
            self._draw()

    def _offer(self, field: Field) -> list[dict[str, Any]]:
        """The options of a menu: all values are tried, which takes its time."""
        return [_option(option.value, option.label, option.reason) for option in self._session.possible(field.name)]

    def _draw(self) -> None:
        with self.hold_sync():
            self.fields = [*self._where(), *map(self._field, FIELDS), self._price_field()]
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
        count = session.tree.num_micro_batches
        return " · ".join([f"{count} micro-batch{'es' if count != 1 else ''} per step", *outcome.notes])

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

    def _field(self, field: Field) -> dict[str, Any]:
        shape: dict[str, Any] = {"name": field.name, "label": field.label, "group": field.group}
        shape |= {"value": current(field, self._session.moment), "first": field.first}
        tree = self._session.tree
        shape["tip"] = f"{field.help}\nnow {shown(tree, field.name)}: {origin(tree, field.name)}"
        if field.form == "menu":
            return shape | self._menu(field, shape["value"])
        shape |= {"input": field.form, "default": shown(tree, field.name)}
        if is_typed(field):
            known = frameworks.names() if field.name == "framework" else ()
            return shape | {"suggestions": list(known)}
        step = tree.training.micro_batch * tree.decided.value("dp") if field.name == "global_batch" else 1
        return shape | {"min": 0, "step": step if isinstance(field.kind, Whole) else "any"}

    def _menu(self, field: Field, value: Any) -> dict[str, Any]:
        now = _option(value, label(field, value, self._session.tree))
        known = self._offers.get(field.name, [])
        # offers may be those of before the change: the label of what is shown must be that of now
        options = [now if option["value"] == value else option for option in known]
        if now not in options:
            options.insert(0, now)
        return {"options": options, "narrow": field.plain_default and field.name != "dp"}

    def _price_field(self) -> dict[str, Any]:
        return {
            "name": "price", "label": "$ / GPU-hour", "group": "Cost", "tip": "Price of a GPU-hour; 0 hides the cost",
            "value": self._price, "first": True, "input": "number", "default": "", "min": 0, "step": 0.1,
        }  # fmt: skip

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "set", "name": str(name), "value": value}:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        session = self._session
        match name:
            case "price":
                self._price = max(float(value or 0.0), 0.0)
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
            case _ if name in BY_NAME:
                if isinstance(value, str) and is_typed(BY_NAME[name]):
                    session.request_text(name, value)
                else:
                    session.request(**{name: value})


def _option(value: Any, label: str, reason: str = "") -> dict[str, Any]:
    return {"value": value, "label": label, "reason": reason}


def _choice(name: str, label: str, group: str, value: Any, values: Any) -> dict[str, Any]:
    known = list(values)
    if value not in known:
        known.insert(0, value)
    return {
        "name": name, "label": label, "group": group, "tip": "", "value": value, "first": True,
        "options": [_option(v, str(v)) for v in known], "narrow": all(isinstance(v, int) for v in known),
    }  # fmt: skip
