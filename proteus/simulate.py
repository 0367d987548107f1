"""The one call: a strategy and a cluster in, a result out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proteus.arguments import A, Maybe, Switch, Text, takes
from proteus.callable_module import make_callable
from proteus.cluster import Cluster
from proteus.costs.ops import Calibration
from proteus.errors import InputError
from proteus.progress import Progress
from proteus.strategy import StrategyTree
from proteus.strategy.savings import is_auto, ways

if TYPE_CHECKING:
    from proteus.result.result import Result


@takes(
    InputError,
    tree=A(StrategyTree),
    cluster=A(Cluster),
    sharing=Switch(),
    overlap=Switch(),
    fold=Switch(),
    algorithm=Maybe(Text("the name of an algorithm such as ring or tree")),
    calibration=Maybe(A(Calibration)),
    progress=Maybe(A(Progress)),
)
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
    options = _Options(
        fold=fold, sharing=sharing, overlap=overlap, algorithm=algorithm,
        calibration=calibration if calibration is not None else cluster.calibration, progress=progress,
    )  # fmt: skip
    tree = tree.on_devices(cluster.num_devices)
    return _with_least_recomputation(tree, cluster, options) if is_auto(tree) else _simulate(tree, cluster, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    fold: bool
    sharing: bool
    overlap: bool
    algorithm: str | None
    calibration: Calibration | None
    progress: Progress | None


def _with_least_recomputation(tree: StrategyTree, cluster: Cluster, options: _Options) -> Result:
    """The fastest of the ways to fit; where nothing fits, the one that needs least memory."""
    plain = _simulate(tree.noting("recompute=auto: nothing is recomputed, it fits"), cluster, options)
    if plain.fits:
        return plain
    fitting, last = [], plain
    for way in ways(tree, with_offload=bool(cluster.gpu().c2c_Bps)):
        for recomputed, saving in way:
            last = _simulate(saving.noting(f"recompute=auto: {recomputed}"), cluster, options)
            if last.fits:
                fitting.append(last)
                break
    return min(fitting, key=lambda result: result.step_time_s, default=last)


def _simulate(tree: StrategyTree, cluster: Cluster, options: _Options) -> Result:
    from proteus.compiler.compile import compile_tree  # these load numba, which takes a while
    from proteus.htae.engine import play
    from proteus.result.result import Result, Timings

    progress = options.progress
    begin = time.perf_counter()
    graph = compile_tree(
        tree,
        cluster,
        fold=options.fold,
        sharing=options.sharing,
        overlap=options.overlap,
        algorithm=options.algorithm,
        calibration=options.calibration,
        progress=progress,
    )
    compiled = time.perf_counter()
    timeline = play(graph.tasks, describe=graph.describe, progress=progress)
    done = time.perf_counter()
    timings = Timings(
        compile_s=compiled - begin, simulate_s=done - compiled, tasks=graph.num_tasks, tasks_run=graph.tasks.num_tasks
    )
    return Result(graph, timeline, timings)


make_callable(__name__, simulate)
