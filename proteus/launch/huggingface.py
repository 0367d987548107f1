"""A Hugging Face ``config.json``: the model alone; the plan is asked for."""

from __future__ import annotations

from proteus.errors import InputError
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch
from proteus.model.hf import from_hf
from proteus.model.hf_assumptions import IRRELEVANT

#: names that configs of different families give to the same dim
_DIMS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "ffn": ("intermediate_size", "n_inner"),
    "vocab": ("vocab_size",),
    "max_positions": ("max_position_embeddings", "n_positions"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts"),
    "topk": ("num_experts_per_tok",),
    "expert_ffn": ("moe_intermediate_size",),
}


def recognises(document: Document) -> bool:
    names = document.names
    sizes = any(name in names for name in _DIMS["layers"]) and any(name in names for name in _DIMS["hidden"])
    return ("model_type" in names or "architectures" in names) and (sizes or "vision_config" in names)


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="huggingface", keys=keys)
    try:
        draft.model = from_hf(document.values)
        draft.assumed += draft.model.assumptions
    except InputError as error:
        draft.need("model", str(error))
    told = {dim: keys.whole(*names) for dim, names in _DIMS.items()}
    kind = keys.word("model_type") or str((document.values.get("architectures") or ["unknown"])[0])
    draft.facts = {"architecture": kind} | {name: value for name, value in told.items() if value is not None}
    if draft.model is not None:
        known = draft.model.facts
        draft.facts |= {name: known[name] for name in ("kv_heads", "seq", "head_dim") if name in known}
    dtype = keys.word("torch_dtype", "dtype")
    for name in list(keys):
        if not name.startswith(("id2label", "label2id")):
            keys.raw(name)
    keys.ignore([*IRRELEVANT, "id2label.*", "label2id.*"])
    if dtype is not None:
        draft.assume(f"torch_dtype={dtype} says how the weights are stored, not how they are trained")
    draft.need("plan", "a model's config says no plan; give the framework, the degrees and the batch")
    draft.per_rank_batch = True
    return draft.finish(world_size)
