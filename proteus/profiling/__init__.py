"""Measuring the machine itself, so that simulations of it rest on its own times.

::

    trees ─► demand ─┬─► operators  ─┐
                     ├─► collectives ├─► MeasuredMachine ─► cluster, calibration ─► simulate
                     └─► overlap    ─┘        │
                                              └─► JSON file

One process per device runs everything that the trees need, all processes at
the same time, as in training: PyTorch's own call for every op (forward and
each part of the backward apart), the optimizer, the collectives, and a
collective beside computation.  Without a GPU the devices are shares of the
host's cores and the collectives are gloo's; with CUDA they are GPUs and NCCL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from proteus.profiling.file import is_machine, load
from proteus.profiling.machine import MeasuredMachine

if TYPE_CHECKING:
    from proteus.strategy import StrategyTree

#: about how long every single thing is repeated [s]
DEFAULT_BUDGET_S = 0.2


def profile(
    trees: StrategyTree | Iterable[StrategyTree],
    *,
    backend: str | None = None,
    threads: int | None = None,
    budget_s: float = DEFAULT_BUDGET_S,
) -> MeasuredMachine:
    """Measure what the trees need on this machine.

    Parameters
    ----------
    trees
        Strategies that are to be simulated; the largest says how many
        processes measure.
    backend
        ``gloo`` or ``nccl``; None takes nccl where there are enough GPUs.
    threads
        Threads of each process; None shares out the cores of a CPU.
    budget_s
        About how long every single thing is repeated [s].

    Raises
    ------
    InputError
        PyTorch is not installed, or there are too few GPUs.

    Notes
    -----
    Mixture-of-experts routing, embedding bags and DLRM's interaction are left
    to the cost model, as ``about`` of the machine says.

    Examples
    --------
    ::

        machine = profile(tree)
        machine.save("machine.json")
        pt.simulate(tree, machine.cluster(), calibration=machine.calibration)
    """
    from proteus.errors import InputError

    try:
        from proteus.profiling.run import profile_trees
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("profile needs PyTorch; install it with: pip install torch") from error
    listed = list(trees) if isinstance(trees, Iterable) else [trees]
    return profile_trees(listed, backend=backend, threads=threads, budget_s=budget_s)


__all__ = ["MeasuredMachine", "is_machine", "load", "profile"]
