"""Carrying out a compiled strategy with real numbers, on the CPU and in float64.

::

    problem ──┬─► undivided model (reference) ──────────────┐
              └─► shards ─► executor: every task, in order ─┴─► verification

Every simulated rank holds its own shards.  Computations run on them locally,
collectives across the ranks of their group, sends between stages; nothing is
shared that the execution graph does not move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proteus.cluster import Cluster
    from proteus.strategy import StrategyTree
    from proteus.verify.verification import Verification


def verify(tree: StrategyTree, cluster: Cluster | None = None, seed: int = 0) -> Verification:
    """Carry out a strategy with real numbers and compare it with the undivided model.

    Parameters
    ----------
    tree
        The strategy; keep the model small, everything runs on the CPU in
        float64.
    cluster
        Where its tasks get their order from; None takes DGX A100 hosts.
    seed
        Of parameters and data.

    Returns
    -------
    Verification
        Whether loss, every gradient and every parameter after one optimizer
        step agree to 1e-9, and how many collectives of each kind ran.

    Raises
    ------
    InputError
        PyTorch is not installed.
    ModelError
        The result of the model depends on how a batch is divided.

    Examples
    --------
    >>> import proteus as pt
    >>> from proteus.verify import verify
    >>> model = pt.models.load("tiny-llama", layers=1, seq=8)
    >>> verify(pt.StrategyTree(model).parallelize(dp=2, tp=2, zero=3)).equal
    True
    """
    from proteus.errors import InputError

    try:
        from proteus.verify.verification import verify_tree
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError("verify needs PyTorch; install it with: pip install torch") from error
    return verify_tree(tree, cluster, seed)


__all__ = ["verify"]
