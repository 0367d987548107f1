"""Proteus: how long does a distributed training step take, does it fit, and why.

::

    Model ──┐
            ├─► StrategyTree ─► compile ─► ExecutionGraph ─► HTAE ─► Result
    Cluster ┘

The folders stand in the order in which data passes them; ``docs/`` explains
each.  Everything a user types is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from proteus import launch
from proteus.arguments import A, FilePath, takes
from proteus.calibration import calibrated
from proteus.cluster import Cluster, clusters
from proteus.errors import (
    InputError,
    ModelError,
    ProteusError,
    SimulationError,
    StrategyError,
    TopologyError,
    needs_extra,
)
from proteus.frameworks import Framework
from proteus.hardware import Gpu
from proteus.mesh import Mesh
from proteus.model import zoo as models
from proteus.model.graph import Lora, Model
from proteus.model.hf import from_hf
from proteus.model.lora import with_lora
from proteus.placement import Partial, Replicate, Shard
from proteus.progress import Progress
from proteus.result.result import Result
from proteus.strategy import Memory, StrategyTree
from proteus.strategy.config import Stage
from proteus.strategy.plan import Plan
from proteus.traces import Measured, read_trace

if TYPE_CHECKING:
    from proteus.search import search
    from proteus.simulate import simulate
    from proteus_widgets import Workbench

    __version__: str
else:
    # Modules that can be called: pt.search(...), and import proteus.search.space (docs/decisions/callable-modules.md).
    from proteus import search, simulate


@takes(InputError, tree=A(StrategyTree), cluster=A(Cluster))
def lab(tree: StrategyTree, cluster: Cluster) -> Workbench:
    """The workbench on a strategy: tree editor, topology and timeline, live."""
    with needs_extra("lab", "pt.lab"):
        from proteus_widgets import Workbench

    return Workbench(tree, cluster)


def from_torch(
    module: Any,
    example_inputs: Any,
    *,
    loss: Literal["cross_entropy", "mse"] | Callable[..., Any] | None = None,
    dims: Mapping[str, str | Sequence[str]] | None = None,
) -> Model:
    """The model of a PyTorch module's training step.

    Parameters
    ----------
    module
        A ``torch.nn.Module``; made under ``torch.device("meta")`` nothing is
        allocated.
    example_inputs
        What its ``forward`` takes, the batch first.
    loss, dims
        See :func:`proteus.torch_import.importer.from_torch`.
    """
    with needs_extra("torch", "pt.from_torch"):
        from proteus.torch_import import importer

    return importer.from_torch(module, example_inputs, loss=loss, dims=dims)


@takes(InputError, path=FilePath())
def _to_html(result: Result, path: str | Path) -> None:
    """Write one offline file with the linked views."""
    with needs_extra("lab", "an HTML report"):
        from proteus_widgets.export import write_html

    write_html(result, path)


# Methods of early values that later folders carry out; bound here, so that no folder imports one that comes after it.
Cluster.calibrate = calibrated  # type: ignore[method-assign, assignment]
Result.to_html = _to_html  # type: ignore[method-assign, assignment]


__all__ = [
    "Cluster",
    "Framework",
    "Gpu",
    "InputError",
    "Lora",
    "Measured",
    "Memory",
    "Mesh",
    "Model",
    "ModelError",
    "Partial",
    "Plan",
    "Progress",
    "ProteusError",
    "Replicate",
    "Result",
    "Shard",
    "SimulationError",
    "Stage",
    "StrategyError",
    "StrategyTree",
    "TopologyError",
    "__version__",
    "clusters",
    "from_hf",
    "from_torch",
    "lab",
    "launch",
    "models",
    "read_trace",
    "search",
    "simulate",
    "with_lora",
]


def __dir__() -> list[str]:
    """What completion shows: the API, and not the modules that it is made of."""
    return sorted(__all__)


def __getattr__(name: str) -> str:
    """The version, read from the package's metadata on first use, because reading takes longer than this import."""
    if name != "__version__":
        raise AttributeError(f"module 'proteus' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        version_text = version("proteus-sim")
    except PackageNotFoundError:  # a checkout on the path, not installed
        version_text = "unknown"
    globals()["__version__"] = version_text
    return version_text
