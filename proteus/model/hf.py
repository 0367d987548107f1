"""Models from a Hugging Face ``config.json``.

What a config leaves out is taken from the defaults of the library's own
config class where that is a choice (biases, tied embeddings) and refused
where it is a size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from proteus.arguments import A, Either, FilePath, Maybe, Text, Whole, takes
from proteus.errors import InputError, ModelError, unknown
from proteus.model.graph import Model
from proteus.model.hf_assumptions import IRRELEVANT, MAX_ASSUMED_SEQ, assumed_seq, assumptions
from proteus.model.hf_config import Config, read_config
from proteus.model.hf_types import TYPES
from proteus.model.origin import Origin, is_plain
from proteus.model.spec import TransformerSpec
from proteus.model.transformer import transformer


def _model_type(c: Config) -> str:
    """``model_type``, or what the name of the architecture says."""
    model_type = c.word("model_type", default="")
    if model_type:
        return model_type
    by_length = sorted(TYPES, key=len, reverse=True)  # qwen3_moe before qwen3
    for known in by_length:
        if c.architecture().lower().startswith(known.replace("_", "")):
            return known
    raise c.error("model_type", f"is absent; known: {', '.join(sorted(TYPES))}")


@takes(
    InputError,
    config=Either(A(Mapping, "a config as a dict"), FilePath()),
    seq=Maybe(Whole(minimum=1)),
    name=Maybe(Text()),
)
def from_hf(
    config: str | os.PathLike[str] | Mapping[str, Any], *, seq: int | None = None, name: str | None = None
) -> Model:
    """A model from a Hugging Face ``config.json``.

    Parameters
    ----------
    config
        Path of the file, of a folder that holds one, or its fields.
    seq
        Tokens per sample.  A config states only how many positions there
        are; None takes those, before any stretching of rotary positions and
        at most 4,096, and says so in the model's assumptions.
    name
        What to call the model; None takes what the config calls itself.

    Raises
    ------
    InputError
        A file that cannot be read, is not a JSON object, lacks a size, has a
        value of the wrong kind, or a model type that is not known; with
        file, line and field.

    Examples
    --------
    >>> fields = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100}
    >>> model = from_hf(fields)
    >>> model
    Model(gpt2: 108.5 k parameters; embedding → layers×2 → head)
    >>> model.assumptions
    ('gpt2: seq=32: the config states no training length, ...; give seq to change it',)
    """
    c = read_config(config)
    kind = _model_type(c)
    if kind not in TYPES:
        raise c.error("model_type", f"is of an {unknown('model type', kind, TYPES)}")
    fields = TYPES[kind](c)
    stated = fields["seq"]
    sentences = []
    if seq is not None:
        fields["seq"] = seq
    elif fields.get("patches") is None:  # an image has as many tokens as patches
        fields["seq"] = min(stated, MAX_ASSUMED_SEQ)
        sentences.append(assumed_seq(stated, fields["seq"]))
    name = name or str(c.fields.get("_name_or_path") or "").rstrip("/").rsplit("/", 1)[-1] or kind
    try:
        spec = TransformerSpec(name=name, **fields)
        model = transformer(spec)
    except ModelError as error:
        raise InputError(f"{c.where}: {error}") from error
    sentences += assumptions(c, kind, spec.seq, spec.head)
    origin = Origin.of("hf", name, _essential(c, kind), seq=seq)
    return replace(model, origin=origin, assumptions=tuple(f"{name}: {sentence}" for sentence in sentences))


def _essential(c: Config, kind: str) -> dict[str, Any]:
    """The fields that make the model and its assumptions; labels by their number only."""
    fields = {"model_type": kind} | {
        name: value
        for name, value in c.fields.items()
        if value is not None and (name in c.read or name not in IRRELEVANT) and is_plain({name: value})
    }
    if "id2label" in fields:  # a thousand names where their number is meant
        fields["num_labels"] = len(fields.pop("id2label"))
    return fields
