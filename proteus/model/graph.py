"""The model: ops over named dims, grouped in blocks.

A model is a chain of *blocks* (embedding, a transformer layer, a residual
unit, the head).  Equal blocks are one :class:`Block` with a count, so a
96-layer model is one block, not 96 copies.  Inside a block every op is an
*iteration space*: a set of named dims, of which each operand indexes some
(the paper's section IV calls them the splittable dimensions)::

    attention.qkv    batch  seq  hidden  kv_heads  q_per_kv  two  head_dim
                     par    par  red     par       par       ind  ind
    x                [batch, seq, hidden]
    weight.q         [kv_heads, q_per_kv, head_dim, hidden]
    weight.kv        [kv_heads, two, head_dim, hidden]
    q                [batch, seq, kv_heads, q_per_kv, head_dim]
    kv               [batch, seq, kv_heads, two, head_dim]

What a partition of the op does to its operands follows from this table
alone: an operand that indexes a partitioned dim is sharded along it, one
that does not is replicated (and its gradient is a partial sum), and a
partitioned reduction dim makes every output a partial sum.  (`kv` does not
index ``q_per_kv``: cut it, and every part computes the same `kv`.)

Order of operands
-----------------
``LINEAR``
    inputs ``(x, weight, ..., bias, ...)``, as many weights as outputs and
    either no bias or as many; output ``i`` is ``x`` times weight ``i``.
``CONV2D``
    inputs ``(x, weight)``; ``x`` is ``[batch, channels, height, width]``.
``ATTENTION``
    ``form="gqa"``: inputs ``(q, kv)``, ``two`` being key and value;
    ``form="qkv"``: inputs ``(q, k, v)``;
    ``form="mla"``: inputs ``(q_nope, q_rope, k_nope, k_rope, v)``, the
    scores being the sum of both GEMMs, ``k_rope`` shared by all heads.
    Queries run along ``seq``; keys and values are read along ``kv_seq``,
    a dim of its own, so that cutting ``seq`` cuts the rows only.
``ADD``, ``DROPOUT``, ``ACTIVATION``
    activations first, then biases (parameters), which are added before
    anything else.  A gated ``ACTIVATION`` reads gate and value along a dim
    ``two`` of one input, or as two inputs.
``TAKE``
    inputs ``(x, places)``; ``x`` is ``[batch, seq, hidden]``, ``places`` ids along ``seq``.
``ROUTER``, ``DISPATCH``, ``COMBINE``
    logits to gates; ``(x, gates)`` to slots; ``(slots, gates)`` to tokens.

Where a bias stands
-------------------
A cut reduction dim makes every part yield a partial sum, and a bias added
by every part would count several times.  So an op that adds its own bias
(``attention.qkv``, ``mlp.fc1``) marks its reduction dims indivisible, and
where cutting the reduction is the point (``attention.proj``, ``mlp.fc2``)
the bias is an input of the ``DROPOUT``, ``ACTIVATION`` or ``ADD`` after it,
as in Megatron's ``bias_dropout_add``.

Sizes
-----
Sizes are per sample: the dim ``batch`` has size 1 here and gets its real
size (the micro-batch times the data-parallel degree) when a strategy is
compiled.  A dim in :attr:`Block.derived` follows others: of the places in an
expert's queue MoE's ``slot_rows`` come from ``batch``, ``slots`` from ``seq``.
A rank with 1/n of the tokens has 1/n of the places, and so in ``DISPATCH``
and ``COMBINE`` they are sharded by whatever axes shard ``batch`` and ``seq``
and are never cut on their own; to every other op they are dims like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from proteus.arguments import Choice, Names, Real, Whole, check_fields
from proteus.errors import ModelError
from proteus.model.digest import digest
from proteus.model.origin import Origin

BATCH = "batch"


class Role(StrEnum):
    """What cutting a dim of an op does."""

    PARALLEL = "parallel"  # the op runs on its chunk alone
    REDUCTION = "reduction"  # every part yields a partial sum
    INDIVISIBLE = "indivisible"  # the op needs the whole dim


class OpKind(StrEnum):
    """The ops of the zoo. Numeric meaning: ``verify``; cost: ``costs``."""

    # einsum of x and each weight (+ bias); grouped when a dim is in x, weight and y; attrs: quantised = False keeps it
    # in the activations' precision where others run in fp8 or fp4
    LINEAR = "linear"
    MATMUL = "matmul"  # einsum of two activations
    EMBEDDING = "embedding"  # rows of weight[vocab, hidden] by token id
    POSITION = "position"  # add a learned position table to x
    ATTENTION = "attention"  # softmax(q k^T) v; attrs: form = gqa | qkv | mla, causal, rope, dropout
    LAYER_NORM = "layer_norm"
    RMS_NORM = "rms_norm"  # attrs: only = (dim, index) normalizes that part and passes the rest
    BATCH_NORM = "batch_norm"  # statistics over the local batch, as DDP does
    GROUP_NORM = "group_norm"  # attrs: groups
    ACTIVATION = "activation"  # attrs: function = gelu | relu | relu2 | silu | swiglu | geglu | sigmoid | tanh
    DROPOUT = "dropout"  # attrs: p, the rate
    ADD = "add"  # attrs: scaled = the last term is multiplied by a constant, here 1; by_expert = it is of an expert
    CONV2D = "conv2d"  # attrs: kernel, stride, padding (each height, width)
    POOL2D = "pool2d"  # attrs: function = max | average, kernel, stride, padding; no kernel: all of both
    RESHAPE = "reshape"  # no arithmetic; attrs: merge = {new dim: (old dims, outermost first)}, the rest is permuted
    CONCAT = "concat"  # along attrs dim, at its place in each input; an input of lower rank is one row
    SELECT = "select"  # one index of a dim; attrs: dim, index
    TAKE = "take"  # places of dim 1 of x, named by ids [batch, places]
    INTERACTION = "interaction"  # DLRM: pairwise dot products
    EMBEDDING_BAG = "embedding_bag"  # DLRM: sum of rows per table; attrs: pooling, the rows summed
    ROUTER = "router"  # MoE: gates (0 where not chosen) from logits; attrs: topk, function, normalize
    DISPATCH = "dispatch"  # MoE: tokens to expert slots; attrs: topk, capacity_factor, dropless
    COMBINE = "combine"  # MoE: expert slots back to tokens, weighted; attrs as DISPATCH
    MAX = "max"  # over a reduction dim; yields Partial(max)
    SUM_EXP = "sum_exp"  # sum over vocab of exp(logits - max)
    PICK = "pick"  # logits at the label
    CROSS_ENTROPY = "cross_entropy"  # mean over tokens of log(sum_exp) + max - picked
    LOSS = "loss"  # any other mean loss; attrs: function = mse | bce
    # of imported models.  Proteus knows what they cost and how they may be cut, not what they compute.
    MAP = "map"  # memory-bound, understood dim by dim; attrs: function
    OPAQUE = "opaque"  # attrs: function, flop = forward FLOP of one sample; cut along the batch only


TensorKind = Literal["parameter", "activation", "input", "saved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of a block.

    Parameters
    ----------
    dims
        Names of its dims; sizes stand in :attr:`Block.dims`.
    kind
        ``input`` tensors (tokens, labels, images) come from the data loader
        of whatever rank needs them and have no gradient.  ``saved`` tensors
        are what an op writes for its own backward alone (a dropout mask, the
        log-sum-exp of attention); their dims are dims of that op.
    dtype
        None means the precision of the run (bf16, ...); a name fixes it.
    tied_to
        Full path of the parameter that this one *is* (a tied embedding).
    """

    name: str
    dims: tuple[str, ...]
    kind: TensorKind = "activation"
    dtype: str | None = None
    tied_to: str | None = None


@dataclass(frozen=True, slots=True)
class Dim:
    """One dim of an op's iteration space."""

    size: int
    role: Role


@dataclass(frozen=True, slots=True)
class Operand:
    """How an op indexes one tensor: one dim of the op per dim of the tensor.

    Usually the names are equal.  They differ where an op needs the same dim
    twice: attention reads k and v, whose dim is ``seq``, along ``kv_seq``.
    """

    tensor: str
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """What autograd keeps of an op for its backward.

    A tensor that several ops save is kept once.  `bytes_per_element`
    overrides the dtype of the tensor.
    """

    tensor: str
    bytes_per_element: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An op as an iteration space; see the module docstring.

    `name` is the path inside the block, e.g. ``attention.qkv``; the tree
    shows the same path.  `selective` marks what "selective" recomputation
    drops (attention's core, in Megatron's sense).  `saves_unfused` is what a
    chain of separate kernels keeps in place of `saves` (softmax probabilities
    and their dropout mask); it is empty where fusing changes nothing.
    """

    name: str
    kind: OpKind
    dims: Mapping[str, Dim]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    saves: tuple[Saved, ...] = ()
    saves_unfused: tuple[Saved, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    selective: bool = False

    def sizes(self) -> dict[str, int]:
        return {name: dim.size for name, dim in self.dims.items()}

    def flop(self, sizes: Mapping[str, int] | None = None) -> float:
        """Forward multiply-adds times two [FLOP], by convention matmuls only.

        `sizes` are local sizes of the op's dims (all of them); None means
        the undivided op for one sample.  Attention counts the full square;
        halve it for the causal convention.
        """
        at = self.sizes() if sizes is None else sizes
        match self.kind:
            case OpKind.LINEAR:
                return sum(2.0 * math.prod(at[d] for d in dims) for dims in self.products())
            case OpKind.MATMUL:
                return 2.0 * math.prod(at[name] for name in self.dims)
            case OpKind.CONV2D:
                kernel: tuple[int, int] = self.attrs["kernel"]
                points = math.prod(at[d] for d in self.outputs[0].dims)
                per_group = at[self.inputs[0].dims[1]] / int(self.attrs.get("groups", 1))
                return 2.0 * points * per_group * kernel[0] * kernel[1]
            case OpKind.ATTENTION:
                out = self.outputs[0].dims
                rows = math.prod(at[d] for d in out[:-1])
                # q k^T along the query dims, p v along the value dim: MLA's are of different size
                widths = [at[q.dims[-1]] for q in self.queries()] + [at[out[-1]]]
                return 2.0 * rows * at["kv_seq"] * sum(widths)
            case OpKind.OPAQUE:
                cut = math.prod(at[name] / dim.size for name, dim in self.dims.items() if dim.role is Role.PARALLEL)
                return float(self.attrs["flop"]) * cut
            case OpKind.INTERACTION:
                return 2.0 * at["batch"] * at["features"] ** 2 * at["embedding_dim"]
            case _:
                return 0.0

    def products(self) -> tuple[tuple[str, ...], ...]:
        """The dims of each GEMM of a ``LINEAR``: those of x, its weight and its output."""
        x, weights = self.inputs[0], self.inputs[1 : 1 + len(self.outputs)]
        return tuple(
            tuple(d for d in self.dims if d in {*x.dims, *weight.dims, *out.dims})
            for weight, out in zip(weights, self.outputs, strict=True)
        )

    @property
    def is_gated(self) -> bool:
        """Whether an ``ACTIVATION`` multiplies a value by its gate."""
        return self.attrs.get("function") in ("swiglu", "geglu")

    def queries(self) -> tuple[Operand, ...]:
        """The query operands of an ``ATTENTION``; see the module docstring."""
        return self.inputs[: 2 if self.attrs.get("form") == "mla" else 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`count` equal copies, in a chain, of a small graph of ops.

    Parameters
    ----------
    name
        ``layers`` (its copies are ``layers.0``, ``layers.1``, ...) or, for a
        block with count 1 and `indexed` false, the path itself: ``embedding``.
    dims
        Sizes of all dim names of the block, ``batch`` being 1.
    inputs, outputs
        Names of the tensors handed over from the block before and to the
        block after, matched by position.
    first
        Index of the first copy: ResNet's ``layer1.0`` is a block of its own
        and ``layer1.1``, ``layer1.2`` are two copies that start at 1.
    derived
        Dims whose size follows from others; see the module docstring.
    """

    name: str
    count: int = 1
    indexed: bool = True
    first: int = 0
    dims: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, index: int = 0) -> str:
        return f"{self.name}.{self.first + index}" if self.indexed else self.name

    def shape(self, tensor: str) -> tuple[int, ...]:
        return tuple(self.dims[dim] for dim in self.tensors[tensor].dims)

    def parameters(self) -> Iterator[Tensor]:
        return (tensor for tensor in self.tensors.values() if tensor.kind == "parameter")

    def resized(self, dim: str, size: int) -> Block:
        """The block with another size of a dim; itself when it does not have it."""
        if dim not in self.dims:
            return self
        ops = tuple(
            replace(op, dims={**op.dims, dim: Dim(size, op.dims[dim].role)}) if dim in op.dims else op
            for op in self.ops
        )
        return replace(self, dims={**self.dims, dim: size}, ops=ops)

    def derived_of(self, op: Op) -> Mapping[str, tuple[str, ...]]:
        """Dims of `op` that are cut by whatever cuts others: expert slots follow batch and seq."""
        return self.derived if op.kind in (OpKind.DISPATCH, OpKind.COMBINE) else {}

    def num_params(self) -> int:
        """Parameters of one copy; a tied parameter counts where it is owned."""
        return sum(math.prod(self.shape(p.name)) for p in self.parameters() if p.tied_to is None)

    def validate(self) -> None:
        """Raise :class:`ModelError` where the block contradicts itself."""
        for name, tensor in self.tensors.items():
            if name != tensor.name:
                raise ModelError(f"{self.name}: tensor {tensor.name} is listed as {name!r}")
            missing = [dim for dim in tensor.dims if dim not in self.dims]
            if missing:
                raise ModelError(f"{self.name}: tensor {name} uses dim {missing[0]!r}, which has no size")
        names = [op.name for op in self.ops]
        if len(set(names)) != len(names):
            raise ModelError(f"{self.name}: two ops are named {next(n for n in names if names.count(n) > 1)!r}")
        known = set(self.inputs) | {t.name for t in self.tensors.values() if t.kind in ("parameter", "input")}
        for op in self.ops:
            self._validate_op(op, known)
            known |= {operand.tensor for operand in op.outputs}
        lost = [name for name in self.outputs if name not in known]
        if lost:
            raise ModelError(f"{self.name}: output {lost[0]!r} is never written")
        for dim, sources in self.derived.items():
            missing = [name for name in (dim, *sources) if name not in self.dims]
            if missing:
                raise ModelError(f"{self.name}: derived dim {dim!r} follows from {sources}: {missing[0]!r} has no size")

    def _validate_op(self, op: Op, known: set[str]) -> None:
        where = f"{self.name}.{op.name}"
        for operand in op.inputs:
            if operand.tensor not in known:
                raise ModelError(f"{where}: reads {operand.tensor!r} before it is written")
        for operand in op.outputs:
            if operand.tensor in known or self.tensors[operand.tensor].kind != "activation":
                raise ModelError(f"{where}: writes {operand.tensor!r}, which is written already or no activation")
        for operand in (*op.inputs, *op.outputs):
            tensor = self.tensors[operand.tensor]
            if len(tensor.dims) != len(operand.dims):
                raise ModelError(f"{where}: {operand.tensor} has dims {tensor.dims}, indexed by {operand.dims}")
            if len(set(operand.dims)) != len(operand.dims):
                raise ModelError(f"{where}: {operand.tensor} is indexed twice by one dim: {operand.dims}")
            for tensor_dim, dim in zip(tensor.dims, operand.dims, strict=True):
                if dim not in op.dims or op.dims[dim].size != self.dims[tensor_dim]:
                    raise ModelError(
                        f"{where}: dim {dim!r} of {operand.tensor} does not fit {tensor_dim}={self.dims[tensor_dim]}"
                    )
        self._validate_roles(op, where)
        for saved in (*op.saves, *op.saves_unfused):
            tensor = self.tensors[saved.tensor]
            if tensor.kind == "saved":
                foreign = [dim for dim in tensor.dims if dim not in op.dims]
                if foreign:
                    raise ModelError(f"{where}: saves {saved.tensor}, whose dim {foreign[0]!r} the op does not have")
            elif all(saved.tensor != operand.tensor for operand in (*op.inputs, *op.outputs)):
                raise ModelError(f"{where}: saves {saved.tensor!r}, which it neither reads nor writes")

    def _validate_roles(self, op: Op, where: str) -> None:
        written = {dim for operand in op.outputs for dim in operand.dims}
        # a derived dim and its sources stand for one another
        linked = {name for dim, sources in self.derived.items() for name in (dim, *sources)}
        for name, dim in op.dims.items():
            if dim.role is Role.REDUCTION and name in written:
                raise ModelError(f"{where}: dim {name!r} is a reduction, yet an output has it")
            if dim.role is Role.PARALLEL and name not in written | linked:
                raise ModelError(f"{where}: dim {name!r} is parallel, yet no output has it")


#: how the frozen weights beside adapters are kept
BASES = ("exact", "nf4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters of a model; :func:`proteus.model.lora.with_lora` adds them.

    Parameters
    ----------
    rank
        Columns of the first matrix of an adapter, rows of the second.
    targets
        GEMMs of the layers that get one: ops (``attention.qkv``), modules
        (``mlp``) or single outputs (``attention.qkv.q``); empty means all.
    dropout
        Rate of the dropout before an adapter.
    base
        ``nf4`` keeps the frozen GEMMs of the layers in 4 bits (QLoRA);
        that changes no op, and a recipe heeds it.
    """

    rank: int
    targets: tuple[str, ...] = ()
    dropout: float = 0.0
    base: Literal["exact", "nf4"] = "exact"

    def __post_init__(self) -> None:
        check_fields(
            self, ModelError, rank=Whole(minimum=1), targets=Names(), dropout=Real(minimum=0.0, below=1.0),
            base=Choice(lambda: BASES, "base of adapters"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A chain of blocks.

    Two models are equal when their content is: name, blocks with all sizes,
    sequence length and adapters.  Where they came from, `facts` and
    `assumptions` do not count.

    Parameters
    ----------
    seq
        Tokens per sample; 1 for models without a sequence.
    facts
        What the config said: hidden, layers, heads, kv_heads, ffn, vocab, ...
        For messages and tables; the graph does not need it.
    lora, base
        The adapters, and the model without them; None in a model that has none.
    origin
        How to build the model again (without its adapters); None where it
        was put together by hand.
    assumptions
        What was guessed, and what its source says that the graph leaves out,
        a sentence each.

    Examples
    --------
    >>> from proteus.model import zoo
    >>> short, long = zoo.load("gpt2", seq=512), zoo.load("gpt2", seq=1024)
    >>> short == long, long == zoo.load("gpt2"), long.digest
    (False, True, 'upijagz3g7ju4esm')
    """

    name: str
    blocks: tuple[Block, ...]
    seq: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)
    lora: Lora | None = None
    base: Model | None = None
    origin: Origin | None = None
    assumptions: tuple[str, ...] = ()
    _digest: str | None = field(default=None, init=False, repr=False)

    @property
    def digest(self) -> str:
        """16 letters and digits that identify the content, the same in every process; computed once."""
        if self._digest is None:
            object.__setattr__(self, "_digest", digest(self.name, self.seq, self.lora, self.blocks))
        assert self._digest is not None
        return self._digest

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.digest == other.digest if isinstance(other, Model) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def num_params(self) -> int:
        return sum(block.num_params() * block.count for block in self.blocks)

    @property
    def num_blocks(self) -> int:
        return sum(block.count for block in self.blocks)

    def flop(self) -> float:
        """Forward FLOP of one sample (matmuls, full attention)."""
        return sum(op.flop() * block.count for block in self.blocks for op in block.ops)

    def parameter_paths(self) -> dict[str, int]:
        """Elements of every parameter by full path, tied ones excluded."""
        return {
            f"{block.path(i)}.{p.name}": math.prod(block.shape(p.name))
            for block in self.blocks
            for i in range(block.count)
            for p in block.parameters()
            if p.tied_to is None
        }

    def resized(self, dim: str, size: int) -> Model:
        """The same model with another size of a dim, e.g. a padded vocabulary."""
        base = None if self.base is None else self.base.resized(dim, size)
        origin = None if self.origin is None else self.origin.with_resized(dim, size)
        blocks = tuple(block.resized(dim, size) for block in self.blocks)
        return replace(self, blocks=blocks, base=base, origin=origin)

    def with_seq(self, seq: int) -> Model:
        """The same model at another sequence length, adapters included.

        A model with an origin is built again.  One without has its dims
        resized where that is exact: in a plain chain of tokens.

        Raises
        ------
        ModelError
            The model has no sequence, fewer positions, or its other sizes
            follow from the sequence in a way that only its builder knows.

        Examples
        --------
        >>> from proteus.model import zoo
        >>> zoo.load("llama3-8b").with_seq(4096) == zoo.load("llama3-8b", seq=4096)
        True
        """
        from proteus.model.zoo import with_seq  # the zoo builds models, and so comes after them

        return with_seq(self, seq)

    def validate(self) -> None:
        """Raise :class:`ModelError` where a block or the chain contradicts itself."""
        for block in self.blocks:
            block.validate()
        paths = [block.path(i) for block in self.blocks for i in range(block.count)]
        if len(set(paths)) != len(paths):
            raise ModelError(f"{self.name}: two blocks have the path {next(p for p in paths if paths.count(p) > 1)!r}")
        owned = self.parameter_paths()
        for block in self.blocks:
            for tensor in block.parameters():
                if tensor.tied_to is not None and owned.get(tensor.tied_to) != math.prod(block.shape(tensor.name)):
                    raise ModelError(
                        f"{block.name}: {tensor.name} is tied to {tensor.tied_to!r}, absent or not as large"
                    )
            if block.count > 1 and [block.shape(t) for t in block.outputs] != [block.shape(t) for t in block.inputs]:
                raise ModelError(f"{block.name}×{block.count}: its outputs {block.outputs} do not fit its inputs")
        for before, after in zip(self.blocks, self.blocks[1:], strict=False):
            if [before.shape(t) for t in before.outputs] != [after.shape(t) for t in after.inputs]:
                raise ModelError(
                    f"{before.name} hands over {before.outputs}, {after.name} takes {after.inputs}: shapes differ"
                )

    def __repr__(self) -> str:
        from proteus.units import format_count

        blocks = " → ".join(f"{b.name}×{b.count}" if b.count > 1 else b.name for b in self.blocks)
        return f"Model({self.name}: {format_count(self.num_params)} parameters; {blocks})"
