"""The one call: a strategy and a cluster in, a result out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proteus.cluster import Cluster
from proteus.progress import Progress
from proteus.strategy import StrategyTree

if TYPE_CHECKING:
    from proteus.costs.ops import Calibration
    from proteus.result.result import Result


def simulate(
    tree: StrategyTree,
    cluster: Cluster,
    *,
    sharing: bool = True,
    overlap: bool = True,
    fold: bool = True,
    algorithm: str | None = None,
    calibration: Calibration | None = None,
    progress: Progress | None = None,
) -> Result:
    """Simulate one training step.

    Parameters
    ----------
    tree
        The strategy.
    cluster
        Where it runs.
    sharing
        False gives every communication its links for itself, as simpler
        simulators do.
    overlap
        False leaves computation and communication unslowed by each other.
    fold
        False plays every rank instead of one of each class; the result is
        the same and takes longer.
    algorithm
        Force a collective algorithm such as ``ring`` or ``tree``.
    calibration
        What was measured on the machine, such as :func:`proteus.profiling.profile`
        finds it; it beats the cost models.  None takes the cluster's own
        (:meth:`Cluster.calibrate`).
    progress
        Tells another thread how far the simulation is, and lets it stop it.

    Raises
    ------
    StrategyError, TopologyError
        The strategy does not fit the cluster, or says something impossible.
    Stopped
        It was stopped by `progress`.

    Examples
    --------
    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    >>> result = pt.simulate(tree, pt.clusters.load("dgx-a100"))
    >>> result.fits
    True
    """
    from proteus.compiler.compile import compile_tree  # these load numba, which takes a while
    from proteus.htae.engine import play
    from proteus.result.result import Result, Timings

    begin = time.perf_counter()
    calibration = calibration if calibration is not None else cluster.calibration
    graph = compile_tree(
        tree,
        cluster,
        fold=fold,
        sharing=sharing,
        overlap=overlap,
        algorithm=algorithm,
        calibration=calibration,
        progress=progress,
    )
    compiled = time.perf_counter()
    timeline = play(graph.tasks, describe=graph.describe, progress=progress)
    done = time.perf_counter()
    timings = Timings(
        compile_s=compiled - begin, simulate_s=done - compiled, tasks=graph.num_tasks, tasks_run=graph.tasks.num_tasks
    )
    return Result(graph, timeline, timings)
