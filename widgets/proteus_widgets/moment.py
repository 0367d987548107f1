"""What the user asked for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proteus.cluster import Cluster
from proteus.model.graph import Model
from proteus.strategy import NodeConfig, StrategyTree, TreeRow
from proteus_widgets.settings import Settings

if TYPE_CHECKING:
    from proteus.result.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the user asked for; the tree and the result follow from it."""

    model: Model
    cluster: Cluster
    settings: Settings
    edits: tuple[tuple[str, NodeConfig], ...] = ()

    def edit(self, path: str) -> NodeConfig:
        return dict(self.edits).get(path, NodeConfig())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A moment carried out."""

    moment: Moment
    tree: StrategyTree
    result: Result
    rows: tuple[TreeRow, ...]
    notes: tuple[str, ...] = ()
