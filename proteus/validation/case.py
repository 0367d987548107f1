"""A published run as input of the public API: a model, a plan and hosts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import proteus as pt
from proteus.model import dims
from proteus.validation import settings
from proteus.validation.architecture import ModelCall, model_of, parameters_note
from proteus.validation.classic import classic_question
from proteus.validation.machines import gpu_of, hosts_of
from proteus.validation.runs import Run
from proteus.validation.strategy import plan_of, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run, mapped.

    Parameters
    ----------
    model, plan, hosts
        Arguments of :func:`proteus.models.load`, :class:`proteus.Plan` and
        :func:`proteus.clusters.load`.
    tree, cluster
        What these make.
    assumed
        What the run did not say, and what stands in for it.
    """

    run: Run
    model: ModelCall
    plan: pt.Plan
    hosts: str
    tree: pt.StrategyTree
    cluster: pt.Cluster
    assumed: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command line that simulates the same."""
        set_dims = ["--set", dims.text(self.model.dims)] if self.model.dims else []
        words = ["proteus", "simulate", "--model", self.model.name, *set_dims, "--cluster", self.hosts]
        return shlex.join([*words, *self.plan.flags()])


def case_of(run: Run) -> Case:
    """The case of a run.

    Raises
    ------
    ProteusError
        Why the run cannot be expressed.
    """
    assumed: list[str] = []
    run_settings = settings.parse(run.settings)
    gpu = gpu_of(run)
    hosts = hosts_of(run, run_settings, assumed)
    if run.kind == "classic":
        model, plan = classic_question(run, run_settings, gpu, assumed)
    else:
        model, plan = model_of(run, run_settings, assumed), plan_of(run, run_settings, gpu, assumed)
    tree = pt.StrategyTree(model.load()).parallelize(plan)
    note = parameters_note(run, tree.given_model or tree.model)
    if run.table_assumed:
        assumed.append(f"by the table itself: {run.table_assumed}")
    return Case(
        run=run, model=model, plan=plan, hosts=hosts, tree=tree, cluster=pt.clusters.load(hosts),
        assumed=(*assumed, *told(tree.decided), *([note] if note else [])),
    )  # fmt: skip
