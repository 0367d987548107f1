"""A config.json gives the very model that the zoo has under its name; a bad one names file, line and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proteus.errors import InputError
from proteus.model import zoo
from proteus.model.hf import from_hf

CONFIGS = Path(__file__).resolve().parents[1] / "data" / "hf"
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "max_position_embeddings": 32,
    "vocab_size": 100,
}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_is_the_model_of_the_zoo(path: Path) -> None:
    name = {"llama-3.1-8b": "llama3-8b", "vit-b-16": "vit-b/16"}.get(path.stem, path.stem)
    known = zoo.load(name)
    model = from_hf(path, seq=None if name.startswith("vit") else known.seq)
    assert model.num_params == known.num_params
    assert model.flop() == known.flop()
    assert model.blocks == known.blocks


def test_a_folder_with_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert from_hf(tmp_path) == from_hf(LLAMA)


def test_length_is_that_before_stretching() -> None:
    fields = LLAMA | {"max_position_embeddings": 131072}
    for name in ("rope_scaling", "rope_parameters"):
        stretched = from_hf(fields | {name: {"original_max_position_embeddings": 2048}})
        assert stretched.seq == 2048
        assert "the smaller of its 2048 positions and 4096" in stretched.assumptions[0]


def test_a_length_that_nobody_gave_is_short_and_said() -> None:
    model = from_hf(CONFIGS / "mistral-7b.json")
    assert model.seq == 4096
    assert model.assumptions == (
        "mistral: seq=4096: the config states no training length, so the smaller of its 32768 positions and 4096 is "
        "taken; give seq to change it",
    )
    assert from_hf(CONFIGS / "gpt2.json").seq == 1024
    given = from_hf(CONFIGS / "llama-3.1-8b.json", seq=8192)
    assert given.seq == 8192 and given.assumptions == ()
    assert from_hf(CONFIGS / "vit-b-16.json").assumptions == ()  # the image says it


DEEPSEEK: dict[str, Any] = json.loads((CONFIGS / "deepseek-v3.json").read_text())
MPT: dict[str, Any] = json.loads((CONFIGS / "mpt-7b.json").read_text())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (LLAMA | {"sliding_window": 16}, "llama: sliding_window=16 is below seq=32 and not modelled: attention spans"),
        (LLAMA | {"attention_chunk_size": 16}, "attention_chunk_size=16 is below seq=32 and not modelled"),
        (LLAMA | {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is not modelled"),
        (LLAMA | {"final_logit_softcapping": 30.0}, "final_logit_softcapping is not modelled"),
        (LLAMA | {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not modelled: rotary embedding covers"),
        (LLAMA | {"quantization_config": {"bits": 4}}, "quantization_config is not read: the precision is that of"),
        (LLAMA | {"architectures": ["LlamaForSequenceClassification"]}, "architectures names LlamaForSequenceClass"),
        (LLAMA | {"num_mtp": 2, "cross_every": 5}, "not understood and have no effect: cross_every, num_mtp"),
        (DEEPSEEK | {"num_nextn_predict_layers": 1}, "num_nextn_predict_layers=1: multi-token prediction is not"),
        (DEEPSEEK | {"n_group": 8, "topk_group": 4}, "topk_group=4 of n_group=8 is not modelled: a token may go to"),
        (MPT | {"attn_config": {"alibi": True}}, "alibi is not modelled: attention is priced without"),
        (MPT | {"attn_config": {"qk_ln": True}}, "attn_config.qk_ln is not modelled"),
        (MPT | {"attn_config": {"clip_qkv": 6}}, "clip_qkv is not modelled"),
    ],
)
def test_what_the_graph_leaves_out_is_said(fields: dict[str, Any], sentence: str) -> None:
    (assumption,) = from_hf(fields, seq=32).assumptions
    assert sentence in assumption


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": 16, "use_sliding_window": False},
        {"sliding_window": 16, "model_type": "qwen2"},
        {"sliding_window": 4096},
        {"sliding_window": None, "quantization_config": None, "some_switch": False, "n_group": 1, "topk_group": 1},
        {"rope_theta": 10000.0, "torch_dtype": "bfloat16", "bos_token_id": 1, "architectures": ["LlamaForCausalLM"]},
        {"rope_scaling": {"factor": 8.0}, "partial_rotary_factor": 1.0, "initializer_range": 0.02},
    ],
)
def test_what_changes_nothing_is_not_said(changes: dict[str, Any]) -> None:
    assert from_hf(LLAMA | changes, seq=32).assumptions == ()


@pytest.mark.parametrize(
    ("attention", "kv_heads"),
    [
        ({}, 32),
        ({"attn_type": "multiquery_attention"}, 1),
        ({"attn_type": "grouped_query_attention", "kv_n_heads": 8}, 8),
    ],
)
def test_head_counts_of_mpt(attention: dict[str, Any], kv_heads: int) -> None:
    assert from_hf(MPT | {"attn_config": attention}).facts["kv_heads"] == kv_heads
    with pytest.raises(InputError, match="attn_config: field 'attn_type' is 'linear'; known: multihead_attention"):
        from_hf(MPT | {"attn_config": {"attn_type": "linear"}})


def test_a_config_in_the_zoo_says_all_it_has() -> None:
    """Every field of the collected configs is read, known to be without effect, or explained."""
    for path in sorted(CONFIGS.glob("*.json")):
        assert not [assumption for assumption in from_hf(path).assumptions if "not understood" in assumption], path


def test_a_name_of_ones_own() -> None:
    assert from_hf(LLAMA, name="mine").name == "mine"
    assert from_hf(LLAMA | {"_name_or_path": "meta-llama/Llama-2-7b-hf/"}).name == "Llama-2-7b-hf"


@pytest.mark.parametrize("config", [5, None, ["config.json"], b"config.json"])
def test_what_is_neither_a_path_nor_fields_is_refused(config: Any) -> None:
    with pytest.raises(InputError):
        from_hf(config)


def test_the_head_of_bert_follows_its_architecture() -> None:
    fields = json.loads((CONFIGS / "bert-base.json").read_text())
    counts = {"BertModel": 109_482_240, "BertForMaskedLM": 109_514_298, "BertForPreTraining": 110_106_428}
    for architecture, count in counts.items():
        assert from_hf(fields | {"architectures": [architecture]}).num_params == count
    with pytest.raises(InputError, match="field 'architectures' names 'BertForQuestionAnswering'; known: BertModel"):
        from_hf(fields | {"architectures": ["BertForQuestionAnswering"]})


@pytest.mark.parametrize(
    ("changes", "kv_heads", "shared_norm", "parallel"),
    [
        ({}, 1, True, True),
        ({"multi_query": False}, 8, True, True),
        ({"multi_query": True, "n_head_kv": 4}, 1, True, True),
        ({"new_decoder_architecture": True, "n_head_kv": 4}, 4, False, True),
        ({"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}, 2, True, True),
        ({"parallel_attn": False}, 1, False, False),
    ],
)
def test_head_counts_of_falcon(changes: dict[str, Any], kv_heads: int, shared_norm: bool, parallel: bool) -> None:
    base = {"model_type": "falcon", "hidden_size": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100}
    facts = from_hf(base | changes).facts
    assert (facts["kv_heads"], facts["shared_norm"], facts["parallel_residual"]) == (kv_heads, shared_norm, parallel)


def test_biases_of_llama_are_counted() -> None:
    plain = from_hf(LLAMA).num_params
    attention = from_hf(LLAMA | {"attention_bias": True}).num_params
    both = from_hf(LLAMA | {"attention_bias": True, "mlp_bias": True}).num_params
    assert attention - plain == 2 * (3 * 64 + 64)
    assert both - attention == 2 * (2 * 128 + 64)


def test_an_own_head_dim_is_kept() -> None:
    facts = from_hf(LLAMA | {"head_dim": 16}).facts
    assert facts["head_dim"] == 16
    assert from_hf(LLAMA | {"head_dim": 16}).num_params - from_hf(LLAMA).num_params == 2 * 4 * 64 * 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "unknown model type 'lama'; nearest: llama"),
        ({"model_type": None}, "field 'model_type' is absent; known: bert, "),
        ({"hidden_size": None}, "field 'hidden_size' is absent, and the model needs it; add it"),
        ({"hidden_size": "64"}, "field 'hidden_size' is '64'; it must be a whole number"),
        ({"hidden_size": True}, "field 'hidden_size' is True; it must be a whole number"),
        ({"hidden_size": 64.5}, "field 'hidden_size' is 64.5; it must be a whole number"),
        ({"hidden_size": 63}, "hidden=63 is not a multiple of heads=8"),
        ({"num_hidden_layers": 0}, "field 'num_hidden_layers' is 0; it must be at least 1"),
        ({"num_key_value_heads": 3}, "heads=8 is not a multiple of kv_heads=3"),
        ({"tie_word_embeddings": "no"}, "field 'tie_word_embeddings' is 'no'; it must be true or false"),
        ({"attention_dropout": 1.5}, "field 'attention_dropout' is 1.5; it must be from 0 to below 1"),
        ({"hidden_act": "relu"}, "field 'hidden_act' is 'relu'; known: gelu, "),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_hf(LLAMA | changes)
    assert message in str(caught.value)


def test_a_bad_field_of_a_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"vocab_size": -1}, indent=1))
    with pytest.raises(InputError, match=r"config\.json, line 8: field 'vocab_size' is -1; it must be at least 1"):
        from_hf(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "a": 1,\n "b" 2}', ", line 3: is not JSON: Expecting ':' delimiter at column 6"),
        ("[1]", ", line 1: holds a list; a config is one JSON object"),
        ("", ", line 1: is not JSON"),
        ("[" * 100_000, "is nested deeper than 32 levels"),
        ('{"vocab_size": 1,\n "vocab_size": 2}', ", line 2: vocab_size is given twice; keep one"),
    ],
)
def test_a_file_that_is_no_config(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        from_hf(path)
    assert message in str(caught.value)


def test_a_file_that_is_absent_or_binary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        from_hf(tmp_path / "absent.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no UTF-8 text"):
        from_hf(tmp_path / "binary")


@pytest.mark.parametrize("field", ["decoder_sparse_step", "mlp_only_layers"])
def test_a_mixture_that_cannot_be_expressed_is_refused(field: str) -> None:
    fields = json.loads((CONFIGS / "qwen3-30b-a3b.json").read_text())
    with pytest.raises(InputError, match=f"field '{field}' is .* is supported"):
        from_hf(fields | {field: {"decoder_sparse_step": 2, "mlp_only_layers": [0]}[field]})


def test_configs_as_people_have_them(shared: Path) -> None:
    folder = shared / "cases" / "configs"
    counts = {
        "C21_hf_llama2_7b.json": 6_738_415_616,
        "C22_hf_llama2_13b.json": 13_015_864_320,
        "C23_hf_llama2_70b.json": 68_976_648_192,
        "C24_hf_llama3_8b.json": 8_030_261_248,
        "C25_hf_bert_base.json": 109_514_298,
        "C26_hf_bert_large.json": 335_174_458,
    }
    for name, count in counts.items():
        assert from_hf(folder / name).num_params == count
    # these copies lack a size, so a count would be a guess
    with pytest.raises(InputError, match="'vocab_size' is absent"):
        from_hf(folder / "C36_hf_deepseek_v2.json")
    with pytest.raises(InputError, match="'moe_intermediate_size' is absent"):
        from_hf(folder / "C37_hf_deepseek_v3.json")
