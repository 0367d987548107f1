"""Benchmarks of named models: images and BERT, data-parallel, one batch per GPU."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from proteus import Plan, frameworks
from proteus.errors import ModelError, StrategyError
from proteus.hardware import Gpu
from proteus.validation.architecture import ModelCall
from proteus.validation.runs import Run
from proteus.validation.settings import Settings
from proteus.validation.strategy import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocking:
    """How a script makes a rate of the time from its first step to its last.

    Parameters
    ----------
    counted, done
        Steps that the rate counts, and that are made.
    samples
        In all epochs; where they do not last for the steps, fewer are made.
    start_s
        What the first step takes beside a step [s].
    """

    counted: int
    done: int
    epochs: int
    samples: int
    start_s: float

    def step_s(self, stated_s: float, batch: int) -> float:
        """The time of a step of `batch` samples of which the rate makes `stated_s` [s].

        >>> Clocking(counted=10, done=11, epochs=1, samples=70, start_s=1.0).step_s(2.0, 10)
        2.7142857142857144
        """
        done = min(self.done, self.epochs * math.ceil(self.samples / batch))
        return (stated_s * self.counted - self.start_s) / done


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A built-in model as the well-known benchmark scripts train it.

    Parameters
    ----------
    predicts_masked
        Logits are made of masked tokens alone.
    wide_framework
        Instead of `framework` without mixed precision; empty: the same.
    clocking
        None where the rate is that of steps.
    """

    words: tuple[str, ...]
    model: str
    optimizer: str
    seq: int | None = None
    framework: str = "ddp@1"
    wide_framework: str = ""
    predicts_masked: bool = False
    clocking: Clocking | None = None


#: DeepLearningExamples PyTorch/LanguageModeling/BERT run_squad.py divides ``max_steps`` by the time of the whole loop,
#: which makes one step more and ends with two epochs of 88,641 features, 70 of 100 steps where a step takes 2,560.  The
#: first step takes longer: 101 of 0.449 s in 47.0 s and 101 of 0.5025 s in 52.8 s (lambdal/deeplearning-benchmark
#: pytorch/results/A100_80GB_SXM4, bert_base_squad_FP16 and bert_large_squad_FP32).
SQUAD_CLOCKING = Clocking(counted=100, done=101, epochs=2, samples=88_641, start_s=1.8)
#: its optimizer without --fp16 is BertAdam, a loop over tensors (the same, optimization.py)
SQUAD_WIDE = "apex-bert, optimizer_kernels=loop"
#: NVIDIA/DeepLearningExamples and the forks of it that others run: SQuAD has 384 tokens (bert README, run_squad.sh)
BENCHMARKS = (
    Benchmark(
        words=("bert_base_squad",),
        model="bert-base",
        optimizer="adam",
        seq=384,
        framework="apex-bert",
        wide_framework=SQUAD_WIDE,
        clocking=SQUAD_CLOCKING,
    ),
    Benchmark(
        words=("bert_large_squad",),
        model="bert-large",
        optimizer="adam",
        seq=384,
        framework="apex-bert",
        wide_framework=SQUAD_WIDE,
        clocking=SQUAD_CLOCKING,
    ),
    Benchmark(
        words=("bert pretrain",),
        model="bert-large-pretraining",
        optimizer="lamb",
        framework="apex-bert",
        predicts_masked=True,  # modeling.py: dense_seq_output; TensorFlow: gather_indexes of masked_lm_positions
    ),
    Benchmark(words=("resnet50", "rn50"), model="resnet50", optimizer="sgd"),
)
#: frameworks that run every model of theirs as a graph; of the others a model's scripts say what runs
GRAPH_EXECUTORS = ("mxnet", "tensorflow")
#: share of tokens that BERT masks (Devlin et al., arXiv 1810.04805, section 3.1), in percent
MASKED_PERCENT = 15
#: The second phase of pretraining in PyTorch reads ``phase2/bin_size_64``: sequences of a batch are as long as their
#: bin and not as the longest of all (DeepLearningExamples PyTorch/LanguageModeling/BERT, scripts/run_pretraining.sh;
#: the first phase, of 128 tokens, reads ``unbinned``).  Half of the tokens are padding where Wikipedia is padded to 512
#: (Krell et al., arXiv 2107.02027), and a bin is half of its width longer than what is in it.
BIN_TOKENS, SHARE_FILLED, UNBINNED_TOKENS = 64, 0.5, 128


def as_clocked(run: Run) -> Run:
    """The run with the time of its steps alone, where its script's rate is of something else."""
    benchmark = _benchmark(run)
    if benchmark is None or benchmark.clocking is None or run.step_time_s is None or run.global_batch is None:
        return run
    step_s = benchmark.clocking.step_s(run.step_time_s, run.global_batch)
    return replace(run, step_time_s=step_s if step_s > 0 else None)


def _benchmark(run: Run) -> Benchmark | None:
    return next((b for b in BENCHMARKS if any(word in run.model for word in b.words)), None)


def classic_question(run: Run, run_settings: Settings, gpu: Gpu, assumed: list[str]) -> tuple[ModelCall, Plan]:
    """The model and the plan of a benchmark.

    Raises
    ------
    ModelError, StrategyError
        The zoo has no such model, or the row lacks what it takes.
    """
    benchmark = _benchmark(run)
    if benchmark is None:
        raise ModelError(f"model {run.model!r} is not in the zoo")
    if run.micro_batch is None:
        raise StrategyError("the batch is not stated")
    if benchmark.clocking is not None:
        assumed.append(f"the first step takes {benchmark.clocking.start_s:g} s more")
    precision = _precision(run, gpu)
    of_table = frameworks.find(run.framework)
    if of_table is not None and of_table.name in GRAPH_EXECUTORS:
        framework = of_table
    else:
        framework = frameworks.load((precision != "fp16" and benchmark.wide_framework) or benchmark.framework)
        if precision == "fp16" and run.framework == "pytorch":
            # ConvNets README of DeepLearningExamples: --memory-format nhwc with mixed precision; forks leave PyTorch's
            # nchw
            framework = framework.but(channels_last=True)
    seq = benchmark.seq
    if "bert" in benchmark.model:
        seq = run.seq or seq
        if seq is None:
            raise StrategyError("the length of the sequences is not stated")
        if run.seq is None:
            assumed.append(f"{seq} tokens")
        if benchmark.predicts_masked and run.framework == "pytorch" and seq > UNBINNED_TOKENS:
            assumed.append(f"sequences of up to {seq} tokens in bins of {BIN_TOKENS}")
            seq = int(SHARE_FILLED * seq) + BIN_TOKENS // 2
    dims: dict[str, int] = {} if seq is None else {"seq": seq}
    if benchmark.predicts_masked and seq:
        dims["predictions"] = -(-seq * MASKED_PERCENT // 100)
    plan = Plan(
        dp=run.num_gpus or 1,
        micro_batch=run.micro_batch,
        global_batch=run.global_batch,
        precision=precision,
        optimizer=benchmark.optimizer,
        framework=changed(framework, dict(run_settings.framework)).text,
    )
    return ModelCall(name=benchmark.model, dims={**dims, **run_settings.model}), plan.changed(**run_settings.plan)


def _precision(run: Run, gpu: Gpu) -> str:
    text = run.precision
    if re.search(r"\bamp\b|fp16|mixed", text):  # as a word: "TF32 on Ampere" is no mixed precision
        return "fp16"
    # GEMMs of fp32 tensors run in TF32 by default since Ampere in the containers that these benchmarks use
    if "tf32" in text and gpu.peak_flops.get("tf32"):
        return "tf32"
    if "fp32" in text or "tf32" in text:
        return "fp32"
    raise StrategyError(f"precision {run.precision!r} is not understood")
