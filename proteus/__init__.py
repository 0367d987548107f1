"""Proteus: how long does a distributed training step take, does it fit, and why.

::

    Model ──┐
            ├─► StrategyTree ─► compile ─► ExecutionGraph ─► HTAE ─► Result
    Cluster ┘

The folders stand in the order in which data passes them; ``docs/`` explains
each.  Everything a user types is here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proteus.calibration import calibrated
from proteus.cluster import Cluster, clusters
from proteus.errors import InputError, ModelError, ProteusError, SimulationError, StrategyError, TopologyError
from proteus.mesh import Mesh
from proteus.model import zoo as models
from proteus.model.graph import Lora, Model
from proteus.model.hf import from_hf
from proteus.model.lora import with_lora
from proteus.placement import Partial, Replicate, Shard
from proteus.progress import Progress
from proteus.result.result import Result
from proteus.search import search
from proteus.simulate import simulate
from proteus.strategy import Memory, StrategyTree

if TYPE_CHECKING:
    from proteus_widgets import Workbench


def lab(tree: StrategyTree, cluster: Cluster) -> Workbench:
    """The workbench on a strategy: tree editor, topology and timeline, live."""
    from proteus_widgets import Workbench

    return Workbench(tree, cluster)


def _to_html(result: Result, path: str | Path) -> None:
    """Write one offline file with the linked views."""
    from proteus_widgets.export import write_html

    write_html(result, path)


# Methods of early values that later folders carry out; bound here, so that no folder imports one that comes after it.
Cluster.calibrate = calibrated  # type: ignore[method-assign, assignment]
Result.to_html = _to_html  # type: ignore[method-assign, assignment]


__all__ = [
    "Cluster",
    "InputError",
    "Lora",
    "Memory",
    "Mesh",
    "Model",
    "ModelError",
    "Partial",
    "Progress",
    "ProteusError",
    "Replicate",
    "Result",
    "Shard",
    "SimulationError",
    "StrategyError",
    "StrategyTree",
    "TopologyError",
    "clusters",
    "from_hf",
    "lab",
    "models",
    "search",
    "simulate",
    "with_lora",
]
