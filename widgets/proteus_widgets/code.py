"""The strategy as text to copy: the Python that builds it, and the YAML of the tree."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets as t

from proteus_widgets.assets import module, style
from proteus_widgets.moment import Moment
from proteus_widgets.origin import cluster_source, model_source
from proteus_widgets.session import Session
from proteus_widgets.settings import Settings


def python_of(moment: Moment) -> str:
    """Python that gives the same tree.

    Settings at their defaults are left out.  Where the model or the cluster came
    from a file, the line says what must be filled in.
    """
    plain = Settings().to_dict()
    given = {name: value for name, value in moment.settings.to_dict().items() if value != plain[name]}
    arguments = "".join(f"    {name}={value!r},\n" for name, value in given.items())
    lines = [
        "import proteus as pt",
        "",
        model_source(moment.model),
        cluster_source(moment.cluster),
        f"tree = pt.StrategyTree(model).parallelize(\n{arguments})",
    ]
    for path, config in moment.edits:
        changes = {
            "partition": config.partition and {dim: tuple(axes) for dim, axes in config.partition.items()},
            "memory": config.memory,
            "recompute": config.recompute,
            "exchange": config.exchange,
            "frozen": config.frozen,
        }
        said = ", ".join(f"{name}={_source(value)}" for name, value in changes.items() if value or value is False)
        lines.append(f"tree = tree.set({path!r}, {said})")
    lines.append("result = pt.simulate(tree, cluster)")
    return "\n".join(lines)


def _source(value: object) -> str:
    if isinstance(value, dict) and any(hasattr(kept, "offload") for kept in value.values()):
        kept = ", ".join(f"{k!r}: pt.Memory(axes={m.axes!r}, offload={m.offload})" for k, m in value.items())
        return f"{{{kept}}}"
    return repr(value)


class Code(anywidget.AnyWidget):
    """Both texts, each with a button that copies it; see ``docs/views/code.md``."""

    _esm = module("code")
    _css = style("code")

    python = t.Unicode("").tag(sync=True)
    yaml = t.Unicode("").tag(sync=True)

    def __init__(self, session: Session, **traits: Any) -> None:
        super().__init__(**traits)
        self._session = session

    def show(self) -> None:
        """Show the texts of the present strategy."""
        with self.hold_sync():
            self.python = python_of(self._session.moment)
            self.yaml = self._session.tree.to_yaml()
