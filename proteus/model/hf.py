"""Models from a Hugging Face ``config.json``.

What a config leaves out is taken from the defaults of the library's own
config class where that is a choice (biases, tied embeddings) and refused
where it is a size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from proteus.errors import InputError, ModelError, unknown
from proteus.model.graph import Model
from proteus.model.hf_config import Config, read_config
from proteus.model.hf_types import TYPES
from proteus.model.spec import TransformerSpec
from proteus.model.transformer import transformer


def _model_type(c: Config) -> str:
    """``model_type``, or what the name of the architecture says."""
    told = c.word("model_type", default="")
    if told:
        return told
    by_length = sorted(TYPES, key=len, reverse=True)  # qwen3_moe before qwen3
    for known in by_length:
        if c.architecture().lower().startswith(known.replace("_", "")):
            return known
    raise c.error("model_type", f"is absent; known: {', '.join(sorted(TYPES))}")


def from_hf(config: str | os.PathLike[str] | Mapping[str, Any], *, seq: int | None = None) -> Model:
    """A model from a Hugging Face ``config.json``.

    Parameters
    ----------
    config
        Path of the file, of a folder that holds one, or its fields.
    seq
        Tokens per sample; None takes the longest that the config states,
        before any stretching of rotary positions.

    Raises
    ------
    InputError
        A file that cannot be read, is no JSON object, lacks a size, has a
        value of the wrong kind, or a model type that is not known; with
        file, line and field.

    Examples
    --------
    >>> from_hf({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100})
    Model(gpt2: 108.5 k parameters; embedding → layers×2 → head)
    """
    c = read_config(config)
    kind = _model_type(c)
    if kind not in TYPES:
        raise c.error("model_type", f"is of an {unknown('model type', kind, TYPES)}")
    fields = TYPES[kind](c)
    if seq is not None:
        fields["seq"] = seq
    name = str(c.fields.get("_name_or_path") or "").rstrip("/").rsplit("/", 1)[-1] or kind
    try:
        return transformer(TransformerSpec(name=name, **fields))
    except ModelError as error:
        raise InputError(f"{c.where}: {error}") from error
