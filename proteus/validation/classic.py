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
    """A model of the zoo as the well-known benchmark scripts train it."""

    words: tuple[str, ...]
    model: str
    optimizer: str
    seq: int | None = None
    profile: str = "torch-classic"


#: NVIDIA/DeepLearningExamples and the forks of it that others run: SQuAD has 384 tokens (bert README, run_squad.sh)
BENCHMARKS = (
    Benchmark(words=("bert_base_squad",), model="bert-base", optimizer="adam", seq=384, profile="apex-bert"),
    Benchmark(words=("bert_large_squad",), model="bert-large", optimizer="adam", seq=384, profile="apex-bert"),
    Benchmark(words=("bert pretrain",), model="bert-large-pretraining", optimizer="lamb", profile="apex-bert"),
    Benchmark(words=("resnet50", "rn50"), model="resnet50", optimizer="sgd"),
)
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
    settings: dict[str, Any] = {
        "dp": run.num_gpus or 1,
        "micro_batch": run.micro_batch,
        "global_batch": run.global_batch,
    }
    return StrategyTree(_model(found.model, seq)).parallelize(
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
def _model(name: str, seq: int | None) -> Model:
    return zoo.load(name, seq=seq)
