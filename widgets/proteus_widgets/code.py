"""The strategy as text to copy: the Python that builds it, and the YAML of the tree."""

from __future__ import annotations

from html import escape

import ipywidgets as w

from proteus_widgets.moment import Moment
from proteus_widgets.session import Session
from proteus_widgets.settings import Settings


def python_of(moment: Moment) -> str:
    """Python that gives the same tree.

    Settings at their defaults are left out.
    """
    plain = Settings().to_dict()
    given = {name: value for name, value in moment.settings.to_dict().items() if value != plain[name]}
    arguments = "".join(f"    {name}={value!r},\n" for name, value in given.items())
    lines = [
        "import proteus as pt",
        "",
        f"model = pt.models.load({moment.model.name!r})",
        f"cluster = pt.clusters.load({moment.cluster.name!r}, nodes={moment.cluster.num_hosts})",
        f"tree = pt.StrategyTree(model).parallelize(\n{arguments})",
    ]
    for path, config in moment.edits:
        changes = {
            "partition": config.partition and {dim: tuple(axes) for dim, axes in config.partition.items()},
            "memory": config.memory,
            "recompute": config.recompute,
            "exchange": config.exchange,
        }
        said = ", ".join(f"{name}={_source(value)}" for name, value in changes.items() if value)
        lines.append(f"tree = tree.set({path!r}, {said})")
    lines.append("result = pt.simulate(tree, cluster)")
    return "\n".join(lines)


def _source(value: object) -> str:
    if isinstance(value, dict) and any(hasattr(kept, "offload") for kept in value.values()):
        kept = ", ".join(f"{k!r}: pt.Memory(axes={m.axes!r}, offload={m.offload})" for k, m in value.items())
        return f"{{{kept}}}"
    return repr(value)


class Code(w.HBox):
    """Both texts, selectable; see ``docs/views/code.md``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.python, self.yaml = w.HTML(), w.HTML()
        for part in (self.python, self.yaml):
            part.layout = w.Layout(flex="1 1 380px", overflow="auto", max_height="420px")
        super().__init__([self.python, self.yaml], layout=w.Layout(flex_flow="row wrap"))

    def show(self) -> None:
        """Show the texts of the present strategy."""
        self.python.value = _block("Python", python_of(self._session.moment))
        self.yaml.value = _block("YAML", self._session.tree.to_yaml())


def _block(title: str, text: str) -> str:
    return f"<b>{title}</b><pre style='user-select:all;line-height:1.45'>{escape(text)}</pre>"
