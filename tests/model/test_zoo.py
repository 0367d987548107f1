"""Parameter counts are the published ones to the last parameter, and FLOP counts agree with published ones."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model import zoo

# name: parameters, and where that number stands. "Hub" is what the model of that checkpoint on
# huggingface.co counts (tied weights once, no buffers); "torchvision" the num_params of the weights' page.
PUBLISHED = {
    "gpt2": (124_439_808, "Hub openai-community/gpt2"),
    "gpt2-medium": (354_823_168, "Hub openai-community/gpt2-medium"),
    "gpt2-large": (774_030_080, "Hub openai-community/gpt2-large"),
    "gpt-1.5b": (1_557_611_200, "Hub openai-community/gpt2-xl"),
    "llama-7b": (6_738_415_616, "Hub huggyllama/llama-7b"),
    "llama-30b": (32_528_943_616, "Hub huggyllama/llama-30b"),
    "llama-65b": (65_285_660_672, "Hub huggyllama/llama-65b"),
    "llama2-7b": (6_738_415_616, "Hub meta-llama/Llama-2-7b-hf"),
    "llama2-13b": (13_015_864_320, "Hub meta-llama/Llama-2-13b-hf"),
    "llama2-70b": (68_976_648_192, "Hub meta-llama/Llama-2-70b-hf"),
    "llama3-8b": (8_030_261_248, "Hub meta-llama/Meta-Llama-3-8B"),
    "llama3-70b": (70_553_706_496, "Hub meta-llama/Meta-Llama-3-70B"),
    "llama3-405b": (405_853_388_800, "Hub meta-llama/Llama-3.1-405B"),
    "llama3.2-1b": (1_235_814_400, "Hub meta-llama/Llama-3.2-1B"),
    "llama3.2-3b": (3_212_749_824, "Hub meta-llama/Llama-3.2-3B"),
    "mistral-7b": (7_241_732_096, "Hub mistralai/Mistral-7B-v0.1"),
    "qwen2-0.5b": (494_032_768, "Hub Qwen/Qwen2-0.5B"),
    "qwen2-7b": (7_615_616_512, "Hub Qwen/Qwen2-7B"),
    "qwen2-72b": (72_706_203_648, "Hub Qwen/Qwen2-72B"),
    "qwen3-8b": (8_190_735_360, "Hub Qwen/Qwen3-8B"),
    "phi3-mini": (3_821_079_552, "Hub microsoft/Phi-3-mini-4k-instruct"),
    "gemma-2b": (2_506_172_416, "Hub google/gemma-2b"),
    "gemma-7b": (8_537_680_896, "Hub google/gemma-7b"),
    "gpt-neox-20b": (20_554_567_680, "arXiv 2204.06745 section 2: 20,554,567,680 parameters"),
    "pythia-1.4b": (1_414_647_808, "arXiv 2304.01373 appendix: total parameters"),
    "pythia-6.9b": (6_857_302_016, "arXiv 2304.01373 appendix: total parameters"),
    "pythia-12b": (11_846_072_320, "arXiv 2304.01373 appendix: total parameters"),
    "falcon-7b": (6_921_720_704, "Hub tiiuae/falcon-7b"),
    "falcon-40b": (41_303_293_952, "Hub tiiuae/falcon-40b"),
    "mpt-7b": (6_649_286_656, "Hub mosaicml/mpt-7b"),
    "bert-base": (109_482_240, "BertModel of google-bert/bert-base-uncased, pooler included"),
    "bert-large": (335_141_888, "BertModel of google-bert/bert-large-uncased, pooler included"),
    "bert-base-pretraining": (110_106_428, "Hub google-bert/bert-base-uncased"),
    "bert-large-pretraining": (336_226_108, "Hub google-bert/bert-large-uncased"),
    "vit-b/16": (86_567_656, "torchvision vit_b_16"),
    "vit-l/16": (304_326_632, "torchvision vit_l_16"),
    "mixtral-8x7b": (46_702_792_704, "Hub mistralai/Mixtral-8x7B-v0.1"),
    "mixtral-8x22b": (140_620_634_112, "Hub mistralai/Mixtral-8x22B-v0.1"),
    "qwen3-30b-a3b": (30_532_122_624, "Hub Qwen/Qwen3-30B-A3B"),
    "qwen3-235b-a22b": (235_093_634_560, "Hub Qwen/Qwen3-235B-A22B"),
    "deepseek-v2-lite": (15_706_484_224, "Hub deepseek-ai/DeepSeek-V2-Lite"),
    "deepseek-v2": (235_741_434_880, "Hub deepseek-ai/DeepSeek-V2"),
    "deepseek-v3": (671_026_419_200, "DeepSeek-V3 without the prediction module, score biases included"),
    "resnet50": (25_557_032, "torchvision resnet50"),
    "resnet101": (44_549_160, "torchvision resnet101"),
    "resnet152": (60_192_808, "torchvision resnet152"),
    "vgg19": (143_667_240, "torchvision vgg19"),
    "alexnet": (61_100_840, "torchvision alexnet"),
    "inception-v3": (23_834_568, "torchvision inception_v3 (27,161,264) less its auxiliary classifier (3,326,696)"),
}

# stated in billions or millions only
ROUNDED = {
    "gpt3-175b": (174.6e9, "arXiv 2005.14165 table D.1: 174,600 M"),
    "gpt-22b": (22.0e9, "arXiv 2205.05198 table 3"),
    "gpt-530b": (529.6e9, "arXiv 2205.05198 table 3: 529.6 B"),
    "gpt-1t": (1008.0e9, "arXiv 2205.05198 table 3: 1008.0 B"),
    "internlm-20b": (20.1e9, "Hub internlm/internlm-20b: 20.1 B"),
    "vit-h/14": (632e6, "arXiv 2010.11929 table 1"),
    "dlrm": (516e6, "arXiv 2306.02267 section VIII"),
}

# multiply-adds of one image [G], half of our FLOP
PUBLISHED_GMAC = {
    "resnet50": (4.09, "torchvision resnet50"),
    "resnet101": (7.80, "torchvision resnet101"),
    "resnet152": (11.51, "torchvision resnet152"),
    "vgg19": (19.63, "torchvision vgg19"),
    "alexnet": (0.71, "torchvision alexnet"),
    "inception-v3": (5.71, "torchvision inception_v3"),
    "vit-b/16": (17.56, "torchvision vit_b_16"),
    "vit-l/16": (61.55, "torchvision vit_l_16"),
}

# parameters that one token meets [B]
ACTIVE = {
    "mixtral-8x7b": (12.9, "arXiv 2401.04088 section 1: 13 B; mistral.ai: 12.9 B"),
    "qwen3-30b-a3b": (3.35, "arXiv 2505.09388: 3.3 B"),
    "qwen3-235b-a22b": (22.2, "arXiv 2505.09388: 22 B"),
    "deepseek-v2": (21.4, "arXiv 2405.04434: 21 B"),
    "deepseek-v3": (37.55, "arXiv 2412.19437: 37 B"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert zoo.load(name).num_params == PUBLISHED[name][0], PUBLISHED[name][1]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_round_to_the_published_ones(name: str) -> None:
    assert zoo.load(name).num_params == pytest.approx(ROUNDED[name][0], rel=4e-3), ROUNDED[name][1]


@pytest.mark.parametrize("name", PUBLISHED_GMAC)
def test_flop_is_twice_the_published_multiply_adds(name: str) -> None:
    assert zoo.load(name).flop() / 2e9 == pytest.approx(PUBLISHED_GMAC[name][0], abs=0.006), PUBLISHED_GMAC[name][1]


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters(name: str) -> None:
    assert zoo.load(name).facts["active_params"] / 1e9 == pytest.approx(ACTIVE[name][0], abs=0.05), ACTIVE[name][1]


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_is_consistent_and_has_a_source(name: str) -> None:
    model = zoo.load(name)
    model.validate()
    assert model.name == name
    assert model.blocks[-1].outputs == ("loss",) and model.blocks[-1].shape("loss") == ()
    assert zoo.source(name)


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "tiny-moe"])
def test_tiny_transformers_divide_by_eight(name: str) -> None:
    facts = zoo.load(name).facts
    assert all(facts[dim] % 8 == 0 for dim in ("hidden", "kv_heads", "ffn", "vocab", "seq"))
    assert facts.get("experts", 8) % 8 == 0
    assert 2 <= facts["layers"] <= 4 and facts["dropout"] == 0


def test_an_alias_is_the_same_model() -> None:
    assert zoo.load("GPT2-XL") == zoo.load("gpt-1.5b")
    assert "gpt2-xl" not in zoo.names()


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(ModelError, match="unknown model 'lama3-8b'; nearest: llama3-8b"):
        zoo.load("lama3-8b")


def test_seq_and_other_dims_can_be_changed() -> None:
    model = zoo.load("llama3-8b", seq=2048, layers=4)
    assert model.seq == 2048 and model.num_blocks == 6
    # 2 matmul FLOP per weight and token, embedding excluded, and the full square of attention
    weights = model.num_params - 128256 * 4096 - 9 * 4096
    assert model.flop() == 2 * 2048 * weights + 4 * 4 * 2048**2 * 4096


def test_an_unknown_dim_lists_the_nearest() -> None:
    with pytest.raises(ModelError, match="gpt2: unknown dim 'layer'; nearest: layers"):
        zoo.load("gpt2", layer=3)


def test_more_tokens_than_learned_positions_are_refused() -> None:
    with pytest.raises(ModelError, match="seq=2048 is more than its 1024 learned positions; choose seq at most 1024"):
        zoo.load("gpt2", seq=2048)


def test_seq_of_a_model_without_one_is_refused() -> None:
    with pytest.raises(ModelError, match="resnet50: seq=128, but the model has no sequence"):
        zoo.load("resnet50", seq=128)


@pytest.mark.parametrize("text", ["LLAMA3-70B", "Llama 3 70B", "llama3_70b"])
def test_a_model_is_meant_however_it_is_written(text: str) -> None:
    assert zoo.meant(text) == "llama3-70b"


@pytest.mark.parametrize("text", ["", "llama", "llama3-71b", "llama3-70b truncated to 12 layers"])
def test_what_only_resembles_a_name_means_no_model(text: str) -> None:
    assert zoo.meant(text) is None
