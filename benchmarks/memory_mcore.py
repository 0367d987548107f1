"""Predicted against measured memory of Megatron-LM's functional tests.

Source of the measurements: NVIDIA/Megatron-LM, tests/functional_tests/test_cases/*/golden_values_*.json
(mem-allocated-bytes and mem-max-allocated-bytes of the last rank, which writes the log), with the arguments of
model_config.yaml beside them.  Both are tiny models: their memory says as much as that of large ones, their times
nothing.

What the table of cases leaves out is Megatron's default (megatron/training/arguments.py, gpt_builders.py): learned
positions unless the case is named after rope, tied embeddings unless "untie", biases unless "disable_bias", dropout
0.1, GPT-2's vocabulary of 50,257 padded to a multiple of 128 tp.  Attention: the ``local`` implementation never
fuses; with Transformer Engine the first run of a deterministic case sets ``--attention-backend: unfused`` and its
``resume`` twin does not.

    python benchmarks/memory_mcore.py ../shared/data/training/mcore_memory.csv
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import proteus as pt
from proteus.cluster import clusters
from proteus.errors import ProteusError
from proteus.hardware import Gpu
from proteus.model.spec import Experts, TransformerSpec
from proteus.model.transformer import transformer
from proteus.result.memory import CUBLAS_HANDLES, workspace_bytes
from proteus.units import GiB, MiB

#: vocabulary of GPT-2's tokenizer, and what Megatron pads it to a multiple of
GPT2_VOCAB, PADDING = 50257, 128
#: features that change memory in ways that a strategy here cannot say
NOT_MODELLED = (
    "mla",
    "muon",
    "uneven",
    "account_for",
    "multi_dist",
    "mup",
    "dsa",
    "mfsdp",
    "defer_embedding",
    "tunable",
    "distill",
    "memory_speed",
    "offloading",
    "flextron",
)
CLUSTERS = {"A100-80GB": "dgx-a100", "H100-80GB": "dgx-h100", "GB200": "dgx-b200"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One golden file: what was measured and what is predicted [GiB]."""

    case: str
    gpu: str
    has_experts: bool
    measured_static: float
    measured_peak: float
    predicted_static: float
    predicted_peak: float

    @property
    def static_error(self) -> float:
        return self.predicted_static / self.measured_static - 1.0

    @property
    def peak_error(self) -> float:
        return self.predicted_peak / self.measured_peak - 1.0


def number(row: Mapping[str, str], name: str, default: int) -> int:
    return int(float(row[name])) if row[name] else default


def is_modelled(row: Mapping[str, str]) -> bool:
    case = row["test_case"]
    return (
        row["family"] in ("gpt", "moe")
        and row["training_like"] == "True"
        and bool(row["mem_max_allocated_GiB"])
        and not (row["fsdp"] or row["fp8_format"])
        and (not row["num_experts"] or row["etp"] in ("", row["tp"]))  # experts are cut as the rest is
        and bool(row["global_batch"] and row["gpus_per_node_recipe"])
        and row["gpu"] in CLUSTERS
        and not any(word in case for word in NOT_MODELLED)
    )


def spec_of(row: Mapping[str, str]) -> TransformerSpec:
    case, hidden = row["test_case"], number(row, "hidden", 0)
    tp = number(row, "tp", 1)
    multiple = PADDING * tp
    vocab = -(-GPT2_VOCAB // multiple) * multiple
    has_rope, has_bias = "rope" in case, "disable_bias" not in case
    seq, swiglu = number(row, "seq_len", 0), row["swiglu"] == "True"
    return TransformerSpec(
        name=case,
        layers=number(row, "layers", 0),
        hidden=hidden,
        heads=number(row, "heads", 0),
        kv_heads=number(row, "query_groups", number(row, "heads", 0)),
        ffn=number(row, "ffn_hidden", int(4 * hidden * 2 / 3 / 64) * 64 if swiglu else 4 * hidden),
        vocab=vocab,
        seq=seq,
        positions=None if has_rope else seq,
        rope=has_rope,
        norm="layer_norm",
        activation="swiglu" if swiglu else "gelu",
        qkv_bias=has_bias,
        proj_bias=has_bias,
        mlp_bias=has_bias,
        tied="unti" not in case,
        dropout=0.1,
        attention_dropout=0.1,
        qk_norm="qk_layernorm" in case,
        experts=experts_of(row),
    )


def experts_of(row: Mapping[str, str]) -> Experts | None:
    if not row["num_experts"]:
        return None
    ffn = number(row, "moe_ffn", number(row, "ffn_hidden", 4 * number(row, "hidden", 0)))
    return Experts(num=number(row, "num_experts", 0), topk=number(row, "topk", 2), ffn=ffn)


def framework_of(row: Mapping[str, str]) -> str:
    """Framework: which attention ran, and whether the loss is fused."""
    case = row["test_case"]
    if "cross_entropy_loss_fusion" in case:
        return "nemo"
    first_run = is_deterministic(row) and "resume" not in case and not row["cp"] and not row["recompute_granularity"]
    unfused = row["transformer_impl"] == "local" or first_run
    return "megatron-lm@2" if unfused else "megatron"


#: scratch of a cuBLAS handle that CUBLAS_WORKSPACE_CONFIG=:4096:8 asks for [bytes]
DETERMINISTIC_BYTES = 32 * MiB


def workspaces(row: Mapping[str, str], gpu: Gpu) -> float:
    """Workspaces of the case [bytes]: the deterministic ones set CUBLAS_WORKSPACE_CONFIG=:4096:8, which is 32 MiB."""
    libraries = gpu.chip.libraries
    cublas = DETERMINISTIC_BYTES if is_deterministic(row) else libraries.cublas_bytes
    engine = 0.0 if row["transformer_impl"] == "local" else libraries.transformer_engine_bytes
    return CUBLAS_HANDLES * cublas + engine


def is_deterministic(row: Mapping[str, str]) -> bool:
    case = row["test_case"]
    return not (row["cp"] or any(word in case for word in ("nondeterministic", "loss_fusion", "reshard")))


def predict(row: Mapping[str, str]) -> Row:
    tp, pp, cp = (number(row, name, 1) for name in ("tp", "pp", "cp"))
    gpus = number(row, "gpus_per_node_recipe", 8) * number(row, "nodes", 1)
    chunks = number(row, "layers", 0) // (pp * number(row, "layers_per_vstage", 0)) if row["layers_per_vstage"] else 1
    overlaps = row["overlap_grad_reduce"] == "True"
    tree = pt.StrategyTree(transformer(spec_of(row))).parallelize(
        dp=gpus // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=number(row, "ep", 1),
        micro_batch=number(row, "micro_batch", 1),
        global_batch=number(row, "global_batch", 1),
        schedule="interleaved" if chunks > 1 else "1f1b",
        virtual_stages=chunks,
        zero=1 if row["dist_optimizer"] == "True" else 0,
        sequence_parallel=row["sequence_parallel"] == "True" and tp > 1,
        recompute=row["recompute_granularity"] or "none",
        overlap_gradients=overlaps,
        framework=framework_of(row),
    )
    cluster = clusters.load(CLUSTERS[row["gpu"]], nodes=max(-(-gpus // 8), 1))
    result = pt.simulate(tree, cluster)
    folding = result.graph.folding
    last = int(folding.representatives[folding.rank_class[tree.num_devices - 1]])
    steps = result.memory_over_time[last]
    gpu = cluster.gpu(last)
    extra_bytes = workspaces(row, gpu) - workspace_bytes(gpu, has_engine=tree.training.framework.engine_workspace)
    return Row(
        case=row["test_case"],
        gpu=row["gpu"],
        has_experts=bool(row["num_experts"]),
        measured_static=float(row["mem_allocated_GiB"]),
        measured_peak=float(row["mem_max_allocated_GiB"]),
        predicted_static=(steps.static_bytes + extra_bytes) / GiB,
        predicted_peak=(steps.peak_bytes + extra_bytes) / GiB,
    )


def rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if is_modelled(row):
                try:
                    yield predict(row)
                except ProteusError as error:
                    print(f"left out {row['test_case']}: {str(error).splitlines()[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    every_row = list(rows(parser.parse_args().file))
    print(f"{'case':<88} {'gpu':<10} {'static':>7} {'pred':>7} {'error':>7} {'peak':>7} {'pred':>7} {'error':>7}")
    for r in sorted(every_row, key=lambda r: (r.case, r.gpu)):
        print(
            f"{r.case[-88:]:<88} {r.gpu:<10} {r.measured_static:7.3f} {r.predicted_static:7.3f} {r.static_error:+7.1%} "
            f"{r.measured_peak:7.3f} {r.predicted_peak:7.3f} {r.peak_error:+7.1%}"
        )
    for group, name in itertools.product(("dense", "experts"), ("static_error", "peak_error")):
        errors = sorted(abs(getattr(r, name)) for r in every_row if r.has_experts == (group == "experts"))
        if not errors:
            continue
        within = sum(e <= 0.05 for e in errors) / len(errors)
        print(
            f"{group}, {name}: {len(errors)} rows, median {statistics.median(errors):.1%}, 90th percentile "
            f"{errors[int(0.9 * len(errors))]:.1%}, within 5%: {within:.0%}"
        )


if __name__ == "__main__":
    main()
