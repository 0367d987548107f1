"""What published runs state about themselves, written into columns of their rows once.

    python benchmarks/stated.py                       rewrite the shipped tables in place

The sources of a table say more than its columns hold: in remarks, in the
repository that ran it, in the paper.  `complete` puts that into the column
``settings`` (fields of the plan, the framework, the hosts and the model, see
:mod:`proteus.validation.settings`), ``etp``, ``rate_counts``, and for
benchmarks ``seq_len`` and ``grad_accum``.  Each rule names where it is stated;
what was found from the measured times of a table themselves is not here.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "proteus" / "validation" / "data"
NEW = {"llm": ("etp", "rate_counts", "settings"), "classic": ("seq_len", "grad_accum", "settings")}
Row = dict[str, str]
Rule = tuple[Callable[[Row], object], str, str]


def _has(column: str, *words: str) -> Callable[[Row], bool]:
    return lambda row: any(word in row.get(column, "").lower() for word in words)


def _is_compiled(row: Row) -> bool:
    return "compile" in re.sub(r"\b(no|not|without)\b[\w\s.]*compile", "", row["notes"].lower())


def _is_old_megatron(row: Row) -> bool:
    """Megatron-LM before Megatron-Core: by the version, the date of the source, or the V100s of those years."""
    plain = re.sub(r"\(.*?\)", "", row["framework"].lower()).strip()
    if plain not in ("megatron-lm", "megatron-lm ptd-p"):
        return False
    return "simumax" not in row["framework"].lower() and not re.search(
        r"h100|b200|2023", row["gpu"] + row["framework_version"]
    )


def _is_zero_bubble(row: Row) -> bool:
    return "zero-bubble" in row["framework"].lower()


def _is_packed_squad(row: Row) -> bool:
    return "squad" in row["notes"].lower() and "packed" in row["notes"].lower() and float(row["seq_len"] or 0) > 200


def _is_rowwise(row: Row) -> bool:
    return row["precision"].lower() == "fp8" and "rowwise" in row["notes"].lower()


def _trains_gpt3_without_dropout(row: Row) -> bool:
    version = re.search(r"(\d\d)\.(\d\d)", row["framework_version"])
    return "gpt3" in row["model"].lower() and version is not None and (int(version[1]), int(version[2])) >= (24, 9)


ALEPH = (
    "framework=megatron-core; fused_bias_activation=false; norm=chain; fused_rope=false; "
    "fused_grad_accumulation=false; fp32_grads=false; optimizer_kernels=foreach; loss=held; wire_bytes=8; "
    "regathers=false; engine_workspace=false; bucket_elements_per_rank=0; precision=bf16; "
    "overlap_gradients=false; pipeline_cut=modules; pad_vocab=0"
)
RULES: tuple[Rule, ...] = (
    # -- what ran
    (_has("framework", "aleph"), ALEPH,
     "Aleph-Alpha/scaling src/scaling: core/nn/norm/rms_norm.py, nn/mlp.py, transformer/model/losses/cross_entropy.py "
     "written in operators; optimizer/allreduce.py casts bf16 gradients to fp32 and reduces them whole also with "
     "ZeRO-1, which moves twice the 4 bytes of a scatter; torch.optim.AdamW; core/nn/linear/utils.py gathers sequences "
     "without gathering them again; parallel_module.py names the logits until the next forward; "
     "pipeline_partitioning.py: uniform over all modules; Hagemann et al., arXiv 2311.05610, section 3"),
    (lambda row: "aleph" in row["framework"].lower() and row["flash_attention"] == "torch", "attention=unfused_fp32",
     "Aleph-Alpha/scaling core/nn/attention: the softmax of an fp32 copy"),
    (lambda row: "aleph" in row["framework"].lower() and row["flash_attention"] == "fused", "attention=fused_softmax",
     "arXiv 2311.05610, section 3: Megatron-LM's fused softmax kernel"),
    (lambda row: "aleph" in row["framework"].lower() and row["flash_attention"] == "flash_attention",
     "attention=flash1", "arXiv 2311.05610: FlashAttention 1.0.8 beside version 2"),
    (lambda row: "aleph" in row["framework"].lower() and "RMS kernel" in row["flash_attention"], "norm=tuned",
     "arXiv 2311.05610, section 4.1: RMSNorm kernel of flash-attention"),
    (_has("framework", "vtrain"), "framework=megatron-lm@2",
     "VIA-Research/vTrain src/model: layers and the fused scale-mask-softmax of Megatron-LM v2; src/config.py: "
     "use_checkpoint true, use_gradient_bucket false"),
    (_is_zero_bubble, "framework=megatron-lm@2; precision=fp16; overlap_gradients=false; vocab=32000",
     "sail-sg/zero-bubble-pipeline-parallelism README, examples/pretrain_zero_bubble.sh: fp16, a SentencePiece "
     "tokenizer of 32,000 pieces; peaks of memory of arXiv 2401.10241, table 4, are those of kept scores"),
    (lambda row: _is_zero_bubble(row) and row["pp_schedule"].startswith("ZB"), "overlap_steps=true",
     "arXiv 2401.10241, section 4: --enable-optimizer-post-validation"),
    (_is_old_megatron, "framework=megatron-lm@2",
     "Narayanan et al., arXiv 2104.04473; LiBai's and BigScience's benchmarks of 2021 and 2022; DLPerf of 2021"),
    (_has("framework", "simumax"), "framework=megatron-core; fused_cross_entropy=true; fused_dropout_add=false",
     "the remark (CE fusion); MooreThreads/SimuMax simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh and "
     "run_pretrain_deepseekv2.sh: --no-bias-dropout-fusion, Triton kernels of Transformer Engine for the loss; "
     "docs/b200/b200_real_repro_guide.md: launcher defaults keep overlap off"),
    (lambda row: "simumax" in row["framework"].lower() and not row["sp"], "sequence_parallel=true",
     "MooreThreads/SimuMax simu_tools/megatron_scripts/scripts: --sequence-parallel"),
    (lambda row: row["framework"].lower() == "megatron-core", "framework=megatron-bridge",
     "NVIDIA/Megatron-LM examples/llama/README.md: follows NeMo Framework's performance scripts"),
    (_has("framework", "flash-attention training scripts"),
     "fused_bias_activation=true; fused_dropout_add=true; fused_add_norm=true; norm=tuned; fused_cross_entropy=true; "
     "loss=in_place; fp32_params=true",
     "Dao-AILab/flash-attention training/README.md: fused MLP, fused bias, fused dropout-add-layernorm, in-place cross "
     "entropy, autocast"),
    (_has("notes", "fused layernorm, swiglu, cross entropy and rotary"),
     "norm=tuned; fused_bias_activation=true; fused_cross_entropy=true; fused_rope=true",
     "jzhang38/TinyLlama README: kernels of flash-attention"),
    (_trains_gpt3_without_dropout, "dropout=0; attention_dropout=0",
     "NVIDIA/NeMo llm recipes, NVIDIA-NeMo/Megatron-Bridge recipes: hidden_dropout 0"),
    # -- what its remarks say
    (_is_compiled, "compile=true", "the remark"),
    (_has("notes", "no torch.compile"), "compile=false", "the remark"),
    (_is_packed_squad, "document=200",
     "the remark; Rajpurkar et al., arXiv 1606.05250: paragraphs of 120 words, questions of 11 and the answer"),
    (_is_rowwise, "precision=fp8-rowwise", "the remark"),
    (lambda row: _is_rowwise(row) and row["comm_overlap"] == "async TP", "overlap_tensor=forward_scatters",
     "pytorch/pytorch issue 149990: gathers are not fused with GEMMs that have scales by row"),
    (_has("notes", "chunked ce"), "loss=in_place",
     "pytorch/torchtune modules/loss/ce_chunked_output_loss.py: an eighth of the logits at a time"),
    (lambda row: row["framework"].lower() == "torchtune" and row["task"] == "lora", "compile=true; loss=in_place",
     "pytorch/torchtune README: lora_finetune_single_device with compile=True and CEWithChunkedOutputLoss"),
    (_has("notes", "qlora"), "lora_base=nf4", "the remark"),
    (lambda row: "tokendrop" in row["model"].lower() or "pad-expert-input-to-capacity" in row["notes"].lower(),
     "host_waits_for_routing=false; merges_tokens=false; expert_s=0",
     "NVIDIA/Megatron-LM moe/token_dispatcher.py: experts padded to a capacity get known numbers of tokens, with plain "
     "all_to_all alone"),
    (_has("notes", "permute fusion"), "fused_permute=true", "the remark: --moe-permute-fusion"),
    (_has("notes", "cp_comm_type a2a", "ulysses"), "context=all_to_all", "the remark: --cp-comm-type a2a"),
    (_has("notes", "first layer dense"), "experts.dense_layers=1", "the remark: --moe-layer-freq"),
)  # fmt: skip
#: the forks' scripts: lambdal/deeplearning-benchmark pytorch/scripts/benchmark_pytorch.sh
WITHOUT_PEER_TO_PEER = "DeepLearningExamples fork"


def complete(kind: str, rows: list[Row]) -> list[Row]:
    """The rows with what their sources state in the new columns."""
    return [_classic(row) if kind == "classic" else _llm(row) for row in _with_carried_notes(rows)]


def _with_carried_notes(rows: list[Row]) -> Iterator[Row]:
    """Rows whose remark begins with + have what it says beside what the row above has; the text itself stays."""
    above = ""
    table = ""
    for row in rows:
        carried = row["notes"]
        if carried.startswith("+") and row.get("table_id") == table:
            carried = f"{above} {carried}"
        above, table = carried, row.get("table_id", "")
        yield {**row, "notes": carried, "own notes": row["notes"]}


def _llm(row: Row) -> Row:
    stated: dict[str, str] = {}
    for holds, settings, _ in RULES:
        if holds(row):
            stated |= dict(part.strip().split("=", 1) for part in settings.split(";"))
    notes = row["notes"].lower()
    etp = re.search(r"\b(?:etp|expert tensor parallel(?: size| degree)?)\s*[=:]?\s*(\d+)", notes)
    unpadded = "unpacked" in notes and "+packed" not in notes
    return {
        **row,
        "notes": row.pop("own notes"),
        "etp": row.get("etp") or (etp[1] if etp else ""),
        "rate_counts": "tokens without padding" if unpadded else "",
        "settings": "; ".join(f"{name}={value}" for name, value in stated.items()),
    }


def _classic(row: Row) -> Row:
    lengths = re.findall(r"\bseq_len=(\d+)(?![\d.])", row["notes"])
    accumulated = re.search(r"\bgrad_accum=(\d+(?: and \d+)?)", row["notes"])
    return {
        **row,
        "notes": row.pop("own notes"),
        "seq_len": lengths[-1] if lengths else "",
        "grad_accum": accumulated[1] if accumulated else "",
        "settings": "peer_to_peer=false" if WITHOUT_PEER_TO_PEER in row["framework"] else "",
    }


def main() -> int:
    from ship_runs import write

    for name in ("llm", "later", "classic"):
        kind = "classic" if name == "classic" else "llm"
        text = gzip.decompress((TARGET / f"{name}.csv.gz").read_bytes()).decode("utf-8")
        write(name, complete(kind, list(csv.DictReader(io.StringIO(text)))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
