"""Which reader a document is for: by what stands in it, never by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType

from proteus.arguments import Each, Either, FilePath, Maybe, Text, Whole, takes
from proteus.errors import InputError
from proteus.launch import (
    accelerate,
    deepspeed,
    huggingface,
    megatron,
    nanotron,
    nemo,
    neox,
    primus,
    torchtitan,
    torchtune,
    trainer,
)
from proteus.launch.document import open_document
from proteus.launch.launch import Launch

#: in this order: those with unmistakable marks first
READERS: tuple[ModuleType, ...] = (
    primus, nanotron, torchtune, accelerate, torchtitan, huggingface, nemo, megatron, neox, trainer, deepspeed,
)  # fmt: skip
_KNOWN = (
    "Megatron-LM arguments, scripts and YAML, GPT-NeoX YAML, Hugging Face config.json, DeepSpeed JSON, "
    "accelerate YAML, Nanotron YAML, torchtitan TOML, NeMo and Megatron-Bridge YAML, TrainingArguments, torchtune, "
    "LLaMA-Factory, Axolotl, ms-swift and Primus YAML"
)


@takes(
    InputError,
    path_or_args=Either(FilePath(), Each(Text("text"), minimum=1)),
    world_size=Maybe(Whole(minimum=1)),
)
def read(path_or_args: str | os.PathLike[str] | Sequence[str], world_size: int | None = None) -> Launch:
    """The launch that a file or an argument list says.

    Parameters
    ----------
    path_or_args
        Path of a file, or the words of a command line.
    world_size
        Ranks of the run, where the file does not say them or another number is meant.

    Returns
    -------
    Launch
        ``needs`` lists what is still missing; nothing is guessed in its place.

    Raises
    ------
    InputError
        No known launch file, or a key with an impossible value; with file and line.

    Examples
    --------
    >>> launch = read("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    ...     "--vocab-size 50304 --micro-batch-size 4 --bf16 --tensor-model-parallel-size 2".split(), world_size=8)
    >>> launch.framework, launch.plan.dp, launch.plan.tp, launch.plan.precision
    ('megatron-core', 4, 2, 'bf16')
    """
    document = open_document(path_or_args)
    for reader in READERS:
        if reader.recognises(document):
            launch: Launch = reader.read(document, world_size)
            return launch
    keys = ", ".join(sorted(document.names)[:8])
    raise InputError(f"{document.source}: is none of the launch files that can be read ({_KNOWN}); its keys: {keys}")
