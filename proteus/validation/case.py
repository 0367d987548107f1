"""A published run as something to simulate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proteus.cluster import Cluster
from proteus.errors import StrategyError
from proteus.strategy import StrategyTree
from proteus.strategy.config import Memory
from proteus.validation.architecture import model_of, spec_of
from proteus.validation.classic import classic_case, has_peer_to_peer
from proteus.validation.frameworks import framework_of
from proteus.validation.machines import cluster_of, find_gpu
from proteus.validation.recompute import recompute_alternate, recompute_cheap, recompute_norms
from proteus.validation.runs import Run
from proteus.validation.strategy import recipe_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run, mapped.

    Parameters
    ----------
    tree
        The strategy.
    savings
        Ways to need less memory, each a row of strategies that need less and
        less, for a framework that does as little as fits and a run that does
        not say what: of the first of each way that fits, the fastest is meant.
    assumed
        What the run did not say, and what stands in for it.
    """

    run: Run
    tree: StrategyTree
    savings: tuple[tuple[StrategyTree, ...], ...] = ()
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
    gpu = find_gpu(run.gpu)
    published = framework_of(run.framework, run.version, gpu.generation if gpu is not None else "")
    if run.kind == "classic":
        cluster = cluster_of(run, assumed, published.entry.gpu_Gbps, peer_to_peer=has_peer_to_peer(run))
        tree = classic_case(run, cluster, assumed)
        return Case(run=run, tree=tree, cluster=cluster, assumed=tuple(assumed))
    cluster = cluster_of(run, assumed, published.entry.gpu_Gbps)
    recipe, besides = recipe_of(run, published, assumed)
    multiple = int(published.default("pad_vocab", 0))
    spec = spec_of(
        run,
        assumed,
        vocab=published.entry.vocab,
        vocab_multiple=multiple * recipe["tp"] if multiple else 1,
        dropout=published.entry.dropout,
    )
    if recipe["ep"] > 1 and not run.experts:
        raise StrategyError(f"expert parallel degree {recipe['ep']} of a model without experts")
    tree = StrategyTree(model_of(spec)).parallelize(**recipe)
    if published.entry.gathers_logits and recipe["tp"] > 1:
        tree = tree.set("head.loss", partition={"vocab": ()})
    if published.entry.recomputes_head and recipe["recompute"] == "full":
        tree = tree.set("head.final_norm", recompute="full").set("head.head", recompute="full")
    if "norm" in published.default("recompute_modules", ()) and recipe["recompute"] == "none":
        tree = recompute_norms(tree)
    savings: tuple[tuple[StrategyTree, ...], ...] = ()
    if besides == "alternate":
        tree = recompute_alternate(tree)
    elif besides == "as needed":
        savings = ((recompute_cheap(tree), *_with_recomputed_layers(tree, recipe)),)
        if cluster.gpu().c2c_Bps:
            savings += (tuple(_with_offloaded_layers(tree)),)
    return Case(run=run, tree=tree, savings=savings, cluster=cluster, assumed=tuple(assumed))


#: shares of the layers that "as needed" tries to offload, then to recompute, in this order
_SHARES = (0.25, 0.5, 0.75)
_AT_HOST = Memory(offload=True)


def _with_offloaded_layers(tree: StrategyTree) -> Iterator[StrategyTree]:
    """Trees that keep the activations of more and more layers in the memory of a Grace CPU.

    As recipes of Megatron-Bridge do (``cpu_offloading_num_layers`` of llama3_workload_base_configs.py).
    """
    block = max(tree.model.blocks, key=lambda block: block.count)
    for number in dict.fromkeys(math.ceil(share * block.count) for share in _SHARES):
        yield tree.set(f"{block.name}.0-{number - 1}", memory={"activation": _AT_HOST})


def _with_recomputed_layers(tree: StrategyTree, recipe: dict[str, Any]) -> Iterator[StrategyTree]:
    """Trees that run more and more layers of every stage again."""
    model = StrategyTree(tree.model)
    layers = max(block.count for block in tree.model.blocks) // len(tree.stages)
    for number in dict.fromkeys(math.ceil(share * layers) for share in _SHARES):
        if 0 < number < layers:
            yield model.parallelize(**{**recipe, "recompute": "full", "recompute_layers": number})
    yield model.parallelize(**{**recipe, "recompute": "full"})
