"""The flags that name a model, a cluster and a strategy, and what they build.

A degree or setting that was not given is not passed on: its default lives in
one place, :func:`proteus.strategy.recipe.parallelize`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proteus.errors import InputError

if TYPE_CHECKING:
    from proteus.cluster.cluster import Cluster
    from proteus.model.graph import Model
    from proteus.strategy.tree import StrategyTree

#: flag → what it sets, in the words of ``parallelize``
DEGREES = {
    "dp": "data-parallel degree",
    "tp": "tensor-parallel degree",
    "pp": "pipeline-parallel degree",
    "cp": "context-parallel degree",
    "ep": "expert-parallel degree",
    "micro_batch": "samples of one micro-batch on one data-parallel rank",
    "global_batch": "samples of one step",
    "virtual_stages": "model chunks per pipeline rank (interleaved schedule)",
    "max_in_flight": "most micro-batches of a stage whose backward has not ended",
    "recompute_layers": "recompute only in the first N layers of a stage",
}
CHOICES = {
    "schedule": "pipeline schedule: gpipe, 1f1b, interleaved, ...",
    "context": "how context parallelism meets attention: all_gather or all_to_all",
    "recompute": "activation recomputation: none, selective or full",
    "precision": "compute precision: fp32, tf32, fp16, bf16 or fp8",
    "optimizer": "optimizer: sgd or adam",
    "profile": "framework profile: megatron, torch-eager, ...",
}
SWITCHES = {
    "sequence_parallel": "cut the sequence between tensor-parallel regions",
    "overlap_gradients": "reduce gradients while the backward pass goes on",
}


def positive(text: str) -> int:
    """A whole number of at least 1.

    >>> positive("8")
    8
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them.

    >>> numbers("8,8,8,8")
    (8, 8, 8, 8)
    """
    return tuple(positive(part) for part in text.split(","))


def words(text: str) -> tuple[str, ...]:
    """Words with commas between them.

    >>> words("optimizer,activation")
    ('optimizer', 'activation')
    """
    return tuple(part.strip() for part in text.split(","))


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """``--gpu`` and ``--nodes``, which complete a topology file."""
    parser.add_argument("--gpu", metavar="NAME", help="GPU of a topology file that does not name it, e.g. a100-40gb")
    parser.add_argument("--nodes", type=positive, metavar="N", help="hosts of the cluster (default 1)")


def add_strategy_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that `simulate` and its kin share."""
    inputs = parser.add_argument_group("model and cluster")
    inputs.add_argument("--model", metavar="NAME|config.json", help="a model of the zoo or a Hugging Face config")
    inputs.add_argument("--seq", type=positive, metavar="N", help="sequence length in tokens")
    inputs.add_argument(
        "--cluster", required=True, metavar="NAME[:NODES]|FILE", help="a preset, or a topology file of a real host"
    )
    add_cluster_flags(inputs)  # type: ignore[arg-type]  # a group takes arguments as a parser does
    group = parser.add_argument_group("strategy")
    group.add_argument("--tree", metavar="FILE", help="a saved strategy tree (YAML); the flags below then do not apply")
    for name, meaning in DEGREES.items():
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, type=positive, metavar="N", help=meaning)
    group.add_argument("--zero", type=int, metavar="N", help="ZeRO stage: 0, 1, 2 or 3")
    for name, meaning in CHOICES.items():
        group.add_argument(f"--{name}", dest=name, metavar="NAME", help=meaning)
    group.add_argument("--layers-per-stage", type=numbers, metavar="N,N,...", help="layers of each pipeline stage")
    group.add_argument(
        "--offload", type=words, metavar="KIND,...", help="kept on the host: optimizer, parameter, activation"
    )
    for name, meaning in SWITCHES.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, default=None, help=meaning
        )


def load_model(options: argparse.Namespace) -> Model:
    """The model that the flags name."""
    import proteus as pt

    if options.model is None:
        raise InputError("--model is missing: a model of the zoo or a Hugging Face config.json")
    if names_a_file(options.model):
        return pt.from_hf(options.model, seq=options.seq)
    return pt.models.load(options.model, seq=options.seq)


def load_cluster(name: str, options: argparse.Namespace) -> Cluster:
    """The cluster that a preset's name or a topology file gives."""
    import proteus as pt

    if names_a_file(name):
        return pt.Cluster.load_file(name, gpu=options.gpu, nodes=options.nodes or 1)
    if ":" in name and options.nodes:
        raise InputError(f"--cluster {name} and --nodes {options.nodes} both set the number of hosts; give one of them")
    cluster = pt.clusters.load(name)
    if options.nodes:
        cluster = cluster.with_nodes(options.nodes)
    return cluster.with_gpu(options.gpu) if options.gpu else cluster


def load_tree(options: argparse.Namespace) -> StrategyTree:
    """The strategy tree: the file's, or the recipe's with the flags given."""
    import proteus as pt

    settings = given_settings(options)
    if options.tree is None:
        return pt.StrategyTree(load_model(options)).parallelize(**settings)
    if settings:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in settings)
        raise InputError(f"--tree {options.tree} says the whole strategy; drop {flags}, or change the file")
    text = Path(options.tree).read_text(encoding="utf-8")
    return pt.StrategyTree.from_yaml(text, model=load_model(options) if options.model else None, source=options.tree)


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The strategy flags that the user gave, as arguments of ``parallelize``.

    >>> given_settings(argparse.Namespace(dp=4, tp=None, zero=1))
    {'dp': 4, 'zero': 1}
    """
    names = [*DEGREES, "zero", *CHOICES, "layers_per_stage", "offload", *SWITCHES]
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def names_a_file(text: str) -> bool:
    """Whether a flag's value means a file and not a name that Proteus knows.

    >>> names_a_file("llama3-8b"), names_a_file("dgx-a100:4"), names_a_file("topo.xml")
    (False, False, True)
    """
    path = Path(text)
    return "/" in text or path.suffix.lower() in {".json", ".xml", ".txt", ".yaml", ".yml", ".log"} or path.is_file()
