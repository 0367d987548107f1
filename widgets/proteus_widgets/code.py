"""The strategy as text to copy: the Python that builds it, and the YAML of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anywidget
import traitlets as t
import yaml

from proteus.strategy import NodeConfig, StrategyTree
from proteus.strategy.plan import Plan
from proteus_widgets.assets import module, style
from proteus_widgets.fields import BY_NAME
from proteus_widgets.moment import Moment
from proteus_widgets.origin import cluster_source, model_source
from proteus_widgets.saved import OF_THE_MODEL
from proteus_widgets.session import Session


def python_of(moment: Moment) -> str:
    """Python that gives the same tree.

    It has the fields of the plan that were said, and no others.  Where the
    model or the cluster came from a file, the line says what must be filled in.
    """
    tree = moment.tree
    lines = ["import proteus as pt", "", model_source(moment.model), cluster_source(moment.cluster)]
    if tree.plan is None:
        lines.append(f'tree = pt.StrategyTree.from_yaml("""\\\n{_escaped(_without_model(tree))}""", model=model)')
    else:
        lines += _planned(tree, tree.plan)
    lines.append("result = pt.simulate(tree, cluster)")
    return "\n".join(lines)


def _planned(tree: StrategyTree, plan: Plan) -> Iterator[str]:
    given = {**plan.said}
    if plan.framework is not None:
        given["framework"] = BY_NAME["framework"].kind.text(plan.framework)
    arguments = "".join(f"    {name}={value!r},\n" for name, value in given.items())
    yield (
        f"tree = pt.StrategyTree(model).parallelize(\n{arguments})"
        if given
        else ("tree = pt.StrategyTree(model).parallelize()")
    )
    if tree.schedule.grid is not None:
        yield f"tree = tree.with_schedule(grid={tree.schedule.grid!r})"
    for path, config in tree.edits:
        yield f"tree = tree.unset({path!r})" if config is None else _set(path, config)


def _set(path: str, config: NodeConfig) -> str:
    changes = {
        "partition": config.partition and {dim: tuple(axes) for dim, axes in config.partition.items()},
        "memory": config.memory,
        "recompute": config.recompute,
        "exchange": config.exchange,
        "frozen": config.frozen,
    }
    arguments = ", ".join(f"{name}={_source(value)}" for name, value in changes.items() if value or value is False)
    return f"tree = tree.set({path!r}, {arguments})"


def _without_model(tree: StrategyTree) -> str:
    """YAML of a tree for those who have its model."""
    document = {k: v for k, v in yaml.safe_load(tree.to_yaml()).items() if k not in OF_THE_MODEL}
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120))


def _escaped(text: str) -> str:
    """Text for between three quotes."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


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
