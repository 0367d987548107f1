"""A mixture of experts as ops: route, dispatch, grouped MLP, combine.

::

    x [batch, seq, hidden] ── router ── gate ─── gates [batch, seq, experts]
      └── dispatch ── [experts, slot_rows, slots, hidden]
                        └ experts.gate_up, activation, experts.fc2
                                        └── combine ─┴── [batch, seq, hidden]

An expert has ``slots`` for every sample, in ``slot_rows``.  Samples cut over a
mesh axis give ``slot_rows`` cut over that axis, positions give ``slots``;
experts cut over it want ``experts`` cut.  The mismatch between the two is
expert parallelism's all_to_all, which the compiler finds by itself.
"""

from __future__ import annotations

from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind
from proteus.model.layer import add_mlp, add_sum
from proteus.model.spec import Experts, TransformerSpec

_TOKENS = "batch seq hidden"


def add_experts(b: BlockBuilder, x: str, spec: TransformerSpec, experts: Experts) -> tuple[str, str | None]:
    """From normed x to the mixture's output; there is no bias left to add."""
    gates = _add_gates(b, x, experts)
    attrs = {"topk": experts.topk, "capacity_factor": experts.capacity_factor, "dropless": experts.dropless}
    slots = b.op(
        "mlp.dispatch",
        OpKind.DISPATCH,
        "batch seq hidden experts slot_rows slots",
        [x, gates],
        "experts slot_rows slots hidden",
        saves=[gates],
        attrs=attrs,
    )
    done = _add_expert_mlp(b, slots, spec)
    out = b.op(
        "mlp.combine",
        OpKind.COMBINE,
        "batch seq hidden slot_rows slots | experts",
        [done, gates],
        _TOKENS,
        saves=[done, gates],
        attrs=attrs,
    )
    if not experts.shared_ffn:
        return out, None
    shared, bias = add_mlp(b, x, spec, "mlp.shared", "shared_ffn")
    return add_sum(b, "mlp.sum", [out, shared], bias), None


def _add_gates(b: BlockBuilder, x: str, experts: Experts) -> str:
    dims = "batch seq experts"
    weight = b.parameter("mlp.router.weight", "experts hidden")
    # every token chooses among all experts, so their dim stays whole here
    logits = b.op(
        "mlp.router",
        OpKind.LINEAR,
        "batch seq | hidden | experts",
        [x, weight],
        dims,
        saves=[x],
        dtype="fp32",
        attrs={"quantised": False},
    )
    operands = [logits]
    if experts.score_bias:
        operands.append(b.parameter("mlp.gate.score_bias", "experts", dtype="fp32"))
    return b.op(
        "mlp.gate",
        OpKind.ROUTER,
        "batch seq | | experts",
        operands,
        dims,
        saves=[logits],
        dtype="fp32",
        attrs={"topk": experts.topk, "function": experts.router, "normalize": experts.normalize},
    )


def _add_expert_mlp(b: BlockBuilder, slots: str, spec: TransformerSpec) -> str:
    two = " two" if spec.gated else ""
    name = "mlp.experts.gate_up" if spec.gated else "mlp.experts.fc1"
    operands = [slots, b.parameter(f"{name}.weight", f"experts{two} expert_ffn hidden")]
    if spec.mlp_bias:
        operands.append(b.parameter(f"{name}.bias", f"experts{two} expert_ffn"))
    reduction = "| | hidden" if spec.mlp_bias else "| hidden |"
    inner = f"experts slot_rows slots{two} expert_ffn"
    roles = f"experts slot_rows slots expert_ffn {reduction}{two}"
    up = b.op(name, OpKind.LINEAR, roles, operands, inner, saves=[slots])
    active = b.op(
        "mlp.experts.activation",
        OpKind.ACTIVATION,
        f"experts slot_rows slots expert_ffn | |{two}",
        [up],
        "experts slot_rows slots expert_ffn",
        saves=[up],
        attrs={"function": spec.activation},
    )
    weight = b.parameter("mlp.experts.fc2.weight", "experts hidden expert_ffn")
    roles = "experts slot_rows slots hidden | expert_ffn"
    out = "experts slot_rows slots hidden"
    done = b.op("mlp.experts.fc2", OpKind.LINEAR, roles, [active, weight], out, saves=[active])
    if not spec.mlp_bias:
        return done
    bias = b.parameter("mlp.experts.fc2.bias", "experts hidden")
    return b.op("mlp.experts.bias", OpKind.ADD, out, [done, bias], out, attrs={"by_expert": True})
