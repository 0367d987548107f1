"""What the user asked for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proteus.cluster import Cluster
from proteus.model.graph import Model
from proteus.strategy import NodeConfig, StrategyTree, TreeRow

if TYPE_CHECKING:
    from proteus.result.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the user asked for: a strategy, and where it runs.

    `notes` tell what gave way when it came about.
    """

    tree: StrategyTree
    cluster: Cluster
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> Model:
        """The model as it was given, before a plan padded it or added adapters."""
        return self.tree.given_model

    @property
    def edits(self) -> tuple[tuple[str, NodeConfig | None], ...]:
        """(path, config) of what was said of single nodes; of a tree that was built by hand that is all it says."""
        return self.tree.configs if self.tree.plan is None else self.tree.edits


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A moment carried out.

    `rows` are those of the tree that was simulated: of the one that ``recompute="auto"`` chose, for example.
    """

    moment: Moment
    result: Result
    rows: tuple[TreeRow, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What gave way, and what the plan says that changes nothing here."""
        return (*self.moment.notes, *self.moment.tree.notes)
