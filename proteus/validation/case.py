"""A published run as something to simulate."""

from __future__ import annotations

from dataclasses import dataclass

from proteus.cluster import Cluster
from proteus.errors import StrategyError
from proteus.strategy import StrategyTree
from proteus.validation.architecture import model_of, spec_of
from proteus.validation.classic import classic_case
from proteus.validation.frameworks import framework_of
from proteus.validation.machines import cluster_of
from proteus.validation.runs import Run
from proteus.validation.strategy import recipe_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run, mapped.

    Parameters
    ----------
    assumed
        What the run did not say, and what stands in for it.
    """

    run: Run
    tree: StrategyTree
    cluster: Cluster
    assumed: tuple[str, ...]


def case_of(run: Run) -> Case:
    """The case of a run.

    Raises
    ------
    ProteusError
        Why the run cannot be expressed.
    """
    assumed: list[str] = []
    framework = framework_of(run.framework)
    cluster = cluster_of(run, assumed)
    if run.kind == "classic":
        tree = classic_case(run, framework, assumed)
        return Case(run=run, tree=tree, cluster=cluster, assumed=tuple(assumed))
    recipe = recipe_of(run, framework, cluster, assumed)
    spec = spec_of(
        run,
        assumed,
        vocab=framework.vocab,
        vocab_multiple=framework.vocab_multiple * (recipe["tp"] if framework.vocab_multiple > 1 else 1),
        dropout=framework.dropout,
    )
    if recipe["ep"] > 1 and not run.experts:
        raise StrategyError(f"expert parallel degree {recipe['ep']} of a model without experts")
    tree = StrategyTree(model_of(spec)).parallelize(**recipe)
    return Case(run=run, tree=tree, cluster=cluster, assumed=tuple(assumed))
