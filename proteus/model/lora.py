"""Low-rank adapters beside the GEMMs of a model (LoRA, Hu et al., arXiv 2106.09685).

The GEMM ``y = x w`` becomes ``y = x w + (x a) b``, with `a` and `b` of low
rank in between; only these two are meant to be trained::

    x ──┬── attention.qkv ─────────────────────────────── lora_add ── y
        └── lora_dropout ── lora_a [.. rank] ── lora_b ──────┘

One adapter serves all outputs of a GEMM (query, key and value have one
`a`), as in Megatron's fused layers; where an output is named instead of the
GEMM it gets one of its own, as in frameworks with separate projections.
An expert has its own adapters.

What an adapter adds is scaled by a constant, alpha over rank, which changes
no cost but its own pass (``scaled``).  Adapters run in the activations' precision also where the GEMM beside them
is quantised: Megatron and NeMo build them of plain parallel layers, not of
Transformer Engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from proteus.arguments import A, takes
from proteus.errors import ModelError, unknown
from proteus.model.graph import Block, Dim, Lora, Model, Op, Operand, OpKind, Role, Saved, Tensor

#: dim of the rank; tensor parallelism leaves it whole unless a config says otherwise
RANK = "lora_rank"
#: how the weights beside adapters are kept
BASES = ("exact", "nf4")
#: last part of the names of the ops that hold an adapter's parameters
TRAINED = ("lora_a", "lora_b")


@takes(ModelError, model=A(Model), lora=A(Lora))
def with_lora(model: Model, lora: Lora) -> Model:
    """`model` with adapters; those it has are replaced.

    Raises
    ------
    ModelError
        A target that is no GEMM of the layers, with those there are.

    Examples
    --------
    >>> from proteus.model import zoo
    >>> model = with_lora(zoo.load("llama3-8b"), Lora(rank=16, targets=("attention.qkv",)))
    >>> model.num_params - zoo.load("llama3-8b").num_params == 32 * 16 * (4096 + 6144)
    True
    """
    base = model.base or model
    known = {name for block in base.blocks if block.indexed for op in _products(block) for name in _names(op)}
    for target in lora.targets:
        if not any(_is_under(name, target) for name in known):
            raise ModelError(f"{model.name}: {unknown('GEMM for an adapter', target, known)}")
    blocks = tuple(_adapted(block, lora) if block.indexed else block for block in base.blocks)
    adapted = replace(base, blocks=blocks, lora=lora, base=base)
    adapted.validate()
    return adapted


def _products(block: Block) -> list[Op]:
    """GEMMs that can have an adapter: not those that choose experts, whose result is fp32."""
    return [op for op in block.ops if op.kind is OpKind.LINEAR and block.tensors[op.outputs[0].tensor].dtype is None]


def _names(op: Op) -> list[str]:
    return [op.name, *(operand.tensor for operand in op.outputs)]


def _is_under(name: str, target: str) -> bool:
    return name == target or name.startswith(f"{target}.")


def _sites(op: Op, targets: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Adapters of a GEMM: the name they go by, and the outputs they add to."""
    every = tuple(range(len(op.outputs)))
    if not targets or any(_is_under(op.name, target) for target in targets):
        return [(op.name, every)]
    return [(op.outputs[i].tensor, (i,)) for i in every if op.outputs[i].tensor in targets]


def _adapted(block: Block, lora: Lora) -> Block:
    writer = _Writer(block, lora)
    products = {op.name for op in _products(block)}
    for op in block.ops:
        op = writer.add(op)
        if op.name in products:
            for name, outputs in _sites(op, lora.targets):
                writer.adapter(op, name, outputs)
    return replace(
        block,
        dims={**block.dims, RANK: lora.rank},
        tensors=writer.tensors,
        ops=tuple(writer.ops),
        outputs=tuple(writer.renamed.get(name, name) for name in block.outputs),
    )


class _Writer:
    """The ops of a block being written anew; `renamed` says what stands for an output that an adapter added to."""

    def __init__(self, block: Block, lora: Lora) -> None:
        self.lora = lora
        self.tensors = dict(block.tensors)
        self.ops: list[Op] = []
        self.renamed: dict[str, str] = {}

    def add(self, op: Op) -> Op:
        """Add an op of the model, reading what adapters made of its inputs."""

        def now(saves: tuple[Saved, ...]) -> tuple[Saved, ...]:
            return tuple(replace(saved, tensor=self.renamed.get(saved.tensor, saved.tensor)) for saved in saves)

        inputs = tuple(replace(o, tensor=self.renamed.get(o.tensor, o.tensor)) for o in op.inputs)
        self.ops.append(replace(op, inputs=inputs, saves=now(op.saves), saves_unfused=now(op.saves_unfused)))
        return self.ops[-1]

    def adapter(self, op: Op, name: str, outputs: tuple[int, ...]) -> None:
        """Add the adapter `name` of the GEMM `op`."""
        x = op.inputs[0]
        in_x = set(x.dims)
        in_y = {dim for i in outputs for dim in op.outputs[i].dims}
        in_w = {dim for i in outputs for dim in op.inputs[1 + i].dims}
        kept = tuple(dim for dim in x.dims if dim in in_y)  # rows, and experts
        apart = tuple(dim for dim in kept if dim in in_w)  # every expert has weights of its own
        summed = tuple(dim for dim in x.dims if dim not in in_y)
        if self.lora.dropout:
            x = self._dropout(op, name, x)
        rank = Dim(self.lora.rank, Role.PARALLEL)
        weight = self._tensor(f"{name}.lora_a.weight", (*apart, RANK, *summed), "parameter")
        inner = self._tensor(f"{name}.lora_a.out", (*kept, RANK))
        self._op(f"{name}.lora_a", {**_dims(op, x.dims), RANK: rank}, (x, weight), (inner,), saves=(x.tensor,))
        weights, deltas, biggest = [], [], dict.fromkeys((*kept, RANK))
        for i in outputs:
            y = op.outputs[i]
            grown = tuple(dim for dim in y.dims if dim not in in_x)
            biggest |= dict.fromkeys(grown)
            label = "" if len(outputs) == 1 else f".{y.tensor.rpartition('.')[2]}"
            weights.append(self._tensor(f"{name}.lora_b.weight{label}", (*apart, *grown, RANK), "parameter"))
            deltas.append(self._tensor(f"{name}.lora_b{label or '.out'}", y.dims))
        rank = Dim(self.lora.rank, Role.REDUCTION)
        dims = {**_dims(op, tuple(dim for dim in biggest if dim != RANK)), RANK: rank}
        self._op(f"{name}.lora_b", dims, (inner, *weights), tuple(deltas), saves=(inner.tensor,))
        for i, delta in zip(outputs, deltas, strict=True):
            y = op.outputs[i]
            total = self._tensor(f"{y.tensor}.adapted", y.dims)
            label = "" if len(outputs) == 1 else f".{y.tensor.rpartition('.')[2]}"
            add = f"{name}.lora_add{label}"
            self._op(add, _dims(op, y.dims), (y, delta), (total,), kind=OpKind.ADD, attrs={"scaled": True})
            self.renamed[y.tensor] = total.tensor

    def _dropout(self, op: Op, name: str, x: Operand) -> Operand:
        mask = self._tensor(f"{name}.lora_dropout.mask", x.dims, "saved", "bool")
        out = self._tensor(f"{name}.lora_dropout.out", x.dims)
        dims = {dim: replace(d, role=Role.PARALLEL) for dim, d in _dims(op, x.dims).items()}
        rate = {"p": self.lora.dropout}
        self._op(f"{name}.lora_dropout", dims, (x,), (out,), kind=OpKind.DROPOUT, saves=(mask.tensor,), attrs=rate)
        return out

    def _tensor(self, name: str, dims: tuple[str, ...], kind: str = "activation", dtype: str | None = None) -> Operand:
        self.tensors[name] = Tensor(name=name, dims=dims, kind=kind, dtype=dtype)  # type: ignore[arg-type]
        return Operand(name, dims)

    def _op(
        self,
        name: str,
        dims: dict[str, Dim],
        inputs: tuple[Operand, ...],
        outputs: tuple[Operand, ...],
        *,
        kind: OpKind = OpKind.LINEAR,
        saves: tuple[str, ...] = (),
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.ops.append(
            Op(
                name=name, kind=kind, dims=dims, inputs=inputs, outputs=outputs,
                saves=tuple(Saved(tensor) for tensor in saves), attrs={"quantised": False} if attrs is None else attrs,
            )
        )  # fmt: skip


def _dims(op: Op, names: tuple[str, ...]) -> dict[str, Dim]:
    return {name: op.dims[name] for name in names}
