"""DeepSpeed JSON on its own: how states are sharded; the model and the launcher say the rest."""

from __future__ import annotations

from proteus.launch import zero
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch

_MARKS = frozenset(
    {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
     "bf16", "fp16", "gradient_clipping", "activation_checkpointing", "steps_per_print", "wall_clock_breakdown"}
)  # fmt: skip
_PARTS = ("stage", "offload_optimizer", "reduce_bucket_size", "overlap_comm")


def recognises(document: Document) -> bool:
    if document.form not in ("json", "yaml") or "num_layers" in document.names:
        return False
    stage = document.section("zero_optimization")
    if any(part in stage for part in _PARTS):
        return True
    return "train_micro_batch_size_per_gpu" in document.names and len(document.names & _MARKS) >= 2


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="deepspeed", keys=keys)
    if not zero.precision(draft) and all(need.name != "precision" for need in draft.needs):
        if any(entry.value == zero.AUTO for entry in document.entries):
            draft.need("precision", 'the file leaves values to a launcher ("auto"), which says bf16 or fp16 as well')
        else:
            draft.say(precision="fp32")
            draft.assume("precision=fp32: neither bf16 nor fp16 is enabled")
    zero.stage(draft)
    zero.batch(draft)
    zero.optimizer(draft, "optimizer.type")
    tp = keys.whole("tensor_parallel.autotp_size", "tensor_parallel.tp_size", default=1, least=0) or 1
    draft.say(tp=tp, cp=keys.whole("sequence_parallel_size"))
    if keys.switch("compile.enabled", "compile.deepcompile", default=False):
        draft.say(compile=True)
    keys.ignore(zero.IGNORED)
    return draft.finish(world_size)
