"""The flags that name a model, a cluster and a strategy.

A degree or setting that was not given is not passed on: its default lives in
one place, :func:`proteus.strategy.recipe.parallelize`.
"""

from __future__ import annotations

import argparse
from typing import Any

#: flag → what it sets, in the words of ``parallelize``
DEGREES = {
    "dp": "data-parallel degree",
    "tp": "tensor-parallel degree",
    "pp": "pipeline-parallel degree",
    "cp": "context-parallel degree",
    "ep": "expert-parallel degree",
    "etp": "tensor-parallel degree of the experts (that of all else when not given)",
    "micro_batch": "samples of one micro-batch on one data-parallel rank",
    "global_batch": "samples of one step",
    "virtual_stages": "model chunks per pipeline rank (interleaved schedule)",
    "max_in_flight": "most micro-batches of a stage whose backward has not ended",
    "shard": "data-parallel ranks over which ZeRO cuts its states (hybrid shard); all of them when not given",
    "recompute_layers": "recompute only in the first N layers of a stage",
    "lora": "rank of low-rank adapters beside the products of the layers; all else is frozen",
}
CHOICES = {
    "schedule": "pipeline schedule: gpipe, 1f1b, interleaved, ...",
    "context": "how context parallelism meets attention: all_gather, ring or all_to_all",
    "recompute": "activation recomputation: none, selective or full",
    "lora_base": "frozen weights beside adapters: exact or nf4 (QLoRA)",
    "precision": "compute precision: fp32, tf32, fp16, bf16, fp8, fp8-rowwise or nvfp4",
    "optimizer": "optimizer: sgd or adam",
    "framework": "what runs it: megatron-core, nemo@24.07, ddp, ... or a YAML file",
}
NODES = {
    "lora_targets": "products with adapters: attention.qkv, mlp, ...; all of the layers when not given",
    "freeze": "nodes whose parameters are not trained: embedding, layers.0-11, ...",
}
SWITCHES = {
    "sequence_parallel": "cut the sequence between tensor-parallel regions",
    "overlap_gradients": "reduce gradients while the backward pass goes on",
    "overlap_steps": "every rank begins the next step when it has ended its own",
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


def pair_of_words(text: str) -> tuple[str, str]:
    """Two words with ``=`` between them.

    >>> pair_of_words("3=mlx5_0")
    ('3', 'mlx5_0')
    """
    left, equals, right = text.rpartition("=")
    if not (left and equals and right):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A=B")
    return left, right


def named_factor(text: str) -> tuple[str, float]:
    """A name and a factor with ``=`` between them.

    >>> named_factor("5=1.3")
    ('5', 1.3)
    """
    name, value = pair_of_words(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a number") from None


def add_cluster_flags(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """What completes a topology file, and what-if faults."""
    parser.add_argument("--gpu", metavar="NAME", help="GPU in the hosts, e.g. a100-40gb; for files that do not name it")
    parser.add_argument("--nodes", type=positive, metavar="N", help="hosts of the cluster (default 1)")
    faults = {
        "--slow-device": (named_factor, "DEVICE=FACTOR", "this device computes FACTOR times as long; may be repeated"),
        "--slow-link": (named_factor, "LINK=FRACTION", "links that match this name at a fraction of their speed"),
        "--without-nic": (pair_of_words, "HOST=NIC", "this host lacks a network interface"),
    }
    for flag, (kind, metavar, meaning) in faults.items():
        parser.add_argument(flag, type=kind, metavar=metavar, action="append", default=[], help=meaning)


def add_strategy_flags(parser: argparse.ArgumentParser, *, needs_cluster: bool = True) -> None:
    """The flags that `simulate` and its kin share."""
    inputs = parser.add_argument_group("model and cluster")
    inputs.add_argument("--model", metavar="NAME|config.json", help="a model of the zoo or a Hugging Face config")
    inputs.add_argument("--seq", type=positive, metavar="N", help="sequence length in tokens")
    inputs.add_argument(
        "--cluster",
        required=needs_cluster,
        nargs="+",
        metavar="NAME[:NODES]|FILE",
        help="a preset, or a topology file of a real host; several are one cluster of mixed hosts",
    )
    add_cluster_flags(inputs)
    group = parser.add_argument_group("strategy")
    group.add_argument("--tree", metavar="FILE", help="a saved strategy tree (YAML); the flags below then do not apply")
    for name, meaning in DEGREES.items():
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, type=positive, metavar="N", help=meaning)
    group.add_argument("--zero", type=int, metavar="N", help="ZeRO stage: 0, 1, 2 or 3")
    for name, meaning in CHOICES.items():
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="NAME", help=meaning)
    group.add_argument("--layers-per-stage", type=numbers, metavar="N,N,...", help="layers of each pipeline stage")
    group.add_argument(
        "--offload", type=words, metavar="KIND,...", help="kept on the host: optimizer, parameter, activation"
    )
    for name, meaning in NODES.items():
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, type=words, metavar="NODE,...", help=meaning)
    for name, meaning in SWITCHES.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, default=None, help=meaning
        )


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The strategy flags that the user gave, as arguments of ``parallelize``.

    >>> given_settings(argparse.Namespace(dp=4, tp=None, zero=1))
    {'dp': 4, 'zero': 1}
    """
    names = [*DEGREES, "zero", *CHOICES, "layers_per_stage", "offload", *NODES, *SWITCHES]
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}
