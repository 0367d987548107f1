"""The strategy tree as an ARIA tree with an inspector for the selected node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anywidget
import traitlets as t

from proteus.strategy import TreeRow
from proteus_widgets.assets import module, style


def row_message(row: TreeRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "parent": row.parent,
        "path": row.path,
        "label": row.label,
        "count": row.count,
        "kind": row.kind,
        "badges": list(row.badges),
        "partition": row.partition,
        "memory": row.memory,
    }


class TreeView(anywidget.AnyWidget):
    """Tree editor; see ``docs/views/tree.md``.

    Reports picks through `on_select` (row id, -1 for none, and more rows picked
    with it) and edits through `on_edit` (paths, field, value); what changed comes back through :meth:`show`.
    """

    _esm = module("tree")
    _css = style("tree")

    rows = t.List(t.Dict()).tag(sync=True)
    shares = t.List(t.Float()).tag(sync=True)
    selected = t.Int(-1).tag(sync=True)
    others = t.List(t.Int()).tag(sync=True)
    editors = t.List(t.Dict()).tag(sync=True)
    message = t.Unicode("").tag(sync=True)
    failed = t.Bool(False).tag(sync=True)

    def __init__(
        self,
        on_select: Callable[[int, list[int]], None] | None = None,
        on_edit: Callable[[list[str], str, Any], None] | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(**traits)
        self._select, self._edit = on_select, on_edit
        self.on_msg(self._receive)

    def show(self, rows: Iterable[TreeRow], shares: Iterable[float] = ()) -> None:
        """Show the rows, with the share of the busy time that each takes."""
        with self.hold_sync():
            self.rows = [row_message(row) for row in rows]
            self.shares = [round(float(share), 4) for share in shares]

    def say(self, message: str, *, failed: bool = False) -> None:
        with self.hold_sync():
            self.message, self.failed = message, failed

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "select", "what": "node", "id": int(row), **more} if self._select:
                others = more.get("others") or []
                self._select(row, [row_number for row_number in others if isinstance(row_number, int)])
            case {"type": "edit", "paths": [*paths], "field": str(name), "value": value} if self._edit:
                if paths and all(isinstance(path, str) for path in paths):
                    self._edit(paths, name, value)
