"""Benchmarks of named models: images and BERT, data parallel, one batch by GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from proteus.cluster import Cluster
from proteus.errors import ModelError, StrategyError
from proteus.model import zoo
from proteus.model.graph import Model
from proteus.strategy import StrategyTree
from proteus.validation.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A model of the zoo as the well-known benchmark scripts train it.

    Parameters
    ----------
    predicts_masked
        Logits are made of masked tokens alone.
    """

    words: tuple[str, ...]
    model: str
    optimizer: str
    seq: int | None = None
    profile: str = "torch-classic"
    predicts_masked: bool = False


#: NVIDIA/DeepLearningExamples and the forks of it that others run: SQuAD has 384 tokens (bert README, run_squad.sh)
BENCHMARKS = (
    Benchmark(words=("bert_base_squad",), model="bert-base", optimizer="adam", seq=384, profile="apex-bert"),
    Benchmark(words=("bert_large_squad",), model="bert-large", optimizer="adam", seq=384, profile="apex-bert"),
    Benchmark(
        words=("bert pretrain",),
        model="bert-large-pretraining",
        optimizer="lamb",
        profile="apex-bert",
        predicts_masked=True,  # modeling.py: dense_seq_output; TensorFlow: gather_indexes of masked_lm_positions
    ),
    Benchmark(words=("resnet50", "rn50"), model="resnet50", optimizer="sgd"),
)
#: share of tokens that BERT masks (Devlin et al., arXiv 1810.04805, section 3.1), in percent
MASKED_PERCENT = 15
#: The second phase of pretraining in PyTorch reads ``phase2/bin_size_64``: sequences of a batch are as long as their
#: bin and not as the longest of all (DeepLearningExamples PyTorch/LanguageModeling/BERT, scripts/run_pretraining.sh;
#: the first phase, of 128 tokens, reads ``unbinned``).  Half of the tokens are padding where Wikipedia is padded to 512
#: (Krell et al., arXiv 2107.02027), and a bin is half of its width longer than what is in it.
BIN_TOKENS, SHARE_FILLED, UNBINNED_TOKENS = 64, 0.5, 128
#: frameworks whose graph executors fuse what eager PyTorch does not
PROFILES = {"mxnet": "mxnet", "tensorflow": "tensorflow"}


def classic_case(run: Run, cluster: Cluster, assumed: list[str]) -> StrategyTree:
    """The strategy tree of a benchmark.

    Raises
    ------
    ModelError, StrategyError
        The zoo has no such model, or the row lacks what it takes.
    """
    found = next((b for b in BENCHMARKS if any(word in run.model for word in b.words)), None)
    if found is None:
        raise ModelError(f"model {run.model!r} is not in the zoo")
    if run.micro_batch is None:
        raise StrategyError("the batch is not stated")
    precision = _precision(run, cluster)
    profile = next((name for word, name in PROFILES.items() if word in run.framework), found.profile)
    if precision == "fp16" and run.framework == "pytorch":
        # ConvNets README of DeepLearningExamples: --memory-format nhwc with mixed precision; forks leave PyTorch's nchw
        profile += ", channels_last=true"
    seq = found.seq
    if "bert" in found.model:
        seq = run.seq or seq
        if seq is None:
            raise StrategyError("the length of the sequences is not stated")
        if run.seq is None:
            assumed.append(f"{seq} tokens")
        if found.predicts_masked and run.framework == "pytorch" and seq > UNBINNED_TOKENS:
            assumed.append(f"sequences of up to {seq} tokens in bins of {BIN_TOKENS}")
            seq = int(SHARE_FILLED * seq) + BIN_TOKENS // 2
    settings: dict[str, Any] = {
        "dp": run.num_gpus or 1,
        "micro_batch": run.micro_batch,
        "global_batch": run.global_batch,
    }
    masked = -(-seq * MASKED_PERCENT // 100) if found.predicts_masked and seq else None
    return StrategyTree(_model(found.model, seq, masked)).parallelize(
        **settings, precision=precision, optimizer=found.optimizer, profile=profile
    )


def _precision(run: Run, cluster: Cluster) -> str:
    text = run.precision
    if re.search(r"\bamp\b|fp16|mixed", text):  # as a word: "TF32 on Ampere" is no mixed precision
        return "fp16"
    # products of fp32 tensors run in TF32 by default since Ampere in the containers that these benchmarks use
    if "tf32" in text and cluster.gpu().peak_flops.get("tf32"):
        return "tf32"
    if "fp32" in text or "tf32" in text:
        return "fp32"
    raise StrategyError(f"precision {run.precision!r} is not understood")


@cache
def _model(name: str, seq: int | None, masked: int | None) -> Model:
    return zoo.load(name, seq=seq, **({"predictions": masked} if masked else {}))
