"""A framework as a value: its kernels, runtime, memory, host times and defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_type_hints

from proteus.errors import InputError, unknown
from proteus.frameworks import kernels
from proteus.frameworks.rules import FACTS, Rule, release
from proteus.frameworks.values import Kind, checked, kind_of, written
from proteus.hardware import Gpu

Attention = Literal[
    "unfused", "unfused_fp32", "fused_softmax", "memory_efficient", "flash1", "flash2", "flash3", "cudnn"
]
Norm = Literal["chain", "native", "tuned"]
OptimizerKernels = Literal["fused", "foreach", "loop"]
Loss = Literal["softmax", "copied", "held", "in_place"]
TensorOverlap = Literal["none", "forward_scatters", "forward", "all"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe"]

#: attention that keeps the scores
KEEPS_SCORES = ("unfused", "unfused_fp32", "fused_softmax")
#: runs on every GPU: plain matmuls and elementwise kernels
RUNS_EVERYWHERE: Attention = "unfused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a framework's file says, with what it takes over from another's.

    Parameters
    ----------
    values
        Fields of :class:`Framework` before any rule.
    defaults, recipes
        What the framework does where a plan says nothing, and facts of its recipes.
    rules
        In order; a later one wins.
    sources, tables
        Per field: where its value is from, and the published tables that shaped it.
    origin
        The file of a framework of the user's own; empty for those of the catalogue.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    values: tuple[tuple[str, Any], ...]
    defaults: tuple[tuple[str, Any], ...]
    recipes: tuple[tuple[str, Any], ...]
    rules: tuple[Rule, ...]
    sources: tuple[tuple[str, str], ...] = field(compare=False, repr=False)
    tables: tuple[tuple[str, tuple[str, ...]], ...] = field(compare=False, repr=False)
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """How a framework turns ops into kernels, and what it does between them.

    Parameters
    ----------
    name, version
        Name in the catalogue (or of a file), and the release that is meant; empty where none was named.
    attention
        ``unfused``: matmul, scale, mask, softmax, dropout, matmul;
        ``unfused_fp32``: the same with the softmax of an fp32 copy;
        ``fused_softmax``: scale, mask and softmax in one kernel (Megatron-LM);
        the others are fused kernels, which never write the scores.
    fallback_attention
        Kernels that the framework takes, in this order, where `attention` does not run on the GPU.
    fused_bias_activation, fused_dropout_add
        Bias and activation, or bias, dropout and residual add, are one kernel.
    norm
        ``native``: the framework's one kernel; ``tuned``: kernels written for
        the row length (apex, Transformer Engine, a compiler); ``chain``:
        several passes in fp32.
    fused_add_norm
        The residual add is part of the norm's kernel, which saves one read.
    fused_norm_activation
        A ReLU after a batch norm, and the add between them, are part of its kernel.
    channels_last
        Images lie in memory with their channels last, as tensor cores take
        them; otherwise every convolution on tensor cores transposes its
        operands and its result.
    fused_rope
        Rotary embedding is one pass over q and k; otherwise slices and concatenations.
    fused_permute
        One kernel near memory speed gathers the tokens of every expert.
    fused_cross_entropy
        The loss takes about one pass over the logits; otherwise a chain in fp32.
    fused_grad_accumulation
        The GEMM of the weight gradient adds into the fp32 gradient itself.
    fp32_grads
        Gradients are accumulated and reduced in fp32.
    fp32_params
        The stored parameter is fp32 and is cast for use (autocast, FSDP).
    master_bytes
        Of the optimizer's copy of a 16-bit parameter: 4, or 2 where it keeps
        only the low half, because the parameter itself is the high one.
    pure
        Parameters and moments have the precision of the run; there is no fp32 copy.
    optimizer_kernels
        ``fused``: one multi-tensor kernel; ``foreach``: one kernel per
        arithmetic step; ``loop``: every step of every tensor.
    loss
        What the loss keeps of the logits.  ``softmax`` keeps the softmax in
        fp32 (Megatron-LM); ``copied`` keeps an fp32 copy as well
        (``cross_entropy(logits.float())``); ``held`` also keeps the logits
        and both fp32 gradients of PyTorch's operators; ``in_place`` keeps the
        logits alone.
    wire_bytes
        Bytes per element that a reduction of gradients moves; 0: as they are kept.
    bucket_elements, bucket_elements_per_rank
        Gradients are reduced in buckets of so many elements, or so many per
        data-parallel rank where that is more; 0: `bucket_bytes` says it.
    bucket_bytes, first_bucket_bytes
        The same in bytes, and the size of the bucket that is filled first; 0: as all others.
    sends_wait
        Pipeline schedules in which a rank waits until what it sent has left.
    host_waits_for_passes
        The host waits until every forward and every backward of a micro-batch
        has ended, so it cannot launch ahead of the device.
    host_waits_for_transfers
        The host waits until a transfer between pipeline stages has ended, so
        it cannot launch ahead of the device.
    transfer_s
        Host time around every such transfer, during which the device idles too [s].
    splits_transfers
        Tensor-parallel ranks that hold the same activation send a part each
        to the next stage, whose ranks gather it (Megatron-LM's scatter/gather
        optimization).
    host_waits_for_routing
        The host reads how many tokens every expert got before it can issue
        their GEMMs, so it cannot launch ahead of the device.
    merges_tokens
        A token goes once to a device (or once over the network to a host)
        that has several of its experts, not once for each of them.
    biased_products
        Time of a grouped GEMM in 16 bits with a bias for each group, over
        that of one without.
    overlaps_tensor
        Where gathers and scatters of sequence parallelism run in chunks
        beside the GEMMs that need them, so that only one chunk of each is
        exposed: in the ``forward`` (PyTorch's asynchronous tensor parallelism;
        ``forward_scatters``: no gathers), in ``all`` of the step (user buffers
        of Transformer Engine) or in ``none``.
    gathers_quantised
        What tensor parallelism gathers for quantised GEMMs (activations, and
        gradients of their results) is quantised before, not after.
    overlaps_experts
        Tokens go to experts and come back while another micro-batch computes,
        which takes longer for it; not in the forwards before the first
        backward and the backwards after the last forward
        (Megatron-Core's overlap_moe_expert_parallel_comm).
    prefetches
        ZeRO-3 gathers the parameters of a block in one collective beside the
        block before; otherwise each large parameter alone when its block
        begins, and what every rank sent is copied to its place (DeepSpeed).
    prefetches_backward
        The backward does so too; otherwise it gathers a block once the
        gradients of the block after it are computed (PyTorch FSDP's BACKWARD_POST).
    regathers
        What sequence parallelism gathers for a GEMM is dropped after it and
        gathered again for the gradient (Megatron-LM); otherwise it is kept whole.
    broadcasts_updates
        Every rank broadcasts the parameters that it has updated (ZeRO-1 and
        2), one after another; otherwise they are gathered at once.
    stops_early
        Recomputation ends once all that the backward needs is there, so the
        last GEMM of a block does not run again (PyTorch's non-reentrant
        checkpoints since 2.1); otherwise the whole forward runs again.
    engine_workspace
        Linear layers keep a workspace of Transformer Engine beside cuBLAS's own.
    loss_metrics
        Metrics that compute the loss of every micro-batch once more, with the
        framework's own operators.
    allocator_share
        What the caching allocator holds beyond the tensors, as a share of their peak.
    fragmentation
        What it holds besides, as a share of what the step itself takes and gives back.
    launch_s
        Host time of one kernel launch [s].
    op_s
        Host time of the framework around an op, besides its launches [s].
    expert_s
        Host time of each local expert of a grouped GEMM [s].
    default_items, recipe_items
        What the framework does where a plan says nothing, and facts of its
        recipes; read them as :attr:`defaults` and :attr:`recipes`.
    facts
        What the rules were told of the run (:meth:`given`).
    changes
        Fields that the user set (:meth:`but`); no rule changes them.
    """

    name: str
    version: str = ""
    attention: Attention
    fallback_attention: tuple[Attention, ...]
    fused_bias_activation: bool
    fused_dropout_add: bool
    norm: Norm
    fused_add_norm: bool
    fused_norm_activation: bool
    channels_last: bool
    fused_rope: bool
    fused_permute: bool
    fused_cross_entropy: bool
    fused_grad_accumulation: bool
    fp32_grads: bool
    fp32_params: bool
    master_bytes: float
    pure: bool
    optimizer_kernels: OptimizerKernels
    loss: Loss
    wire_bytes: float
    bucket_elements: float
    bucket_elements_per_rank: float
    bucket_bytes: float
    first_bucket_bytes: float
    sends_wait: tuple[Schedule, ...]
    host_waits_for_passes: bool
    host_waits_for_transfers: bool
    transfer_s: float
    splits_transfers: bool
    host_waits_for_routing: bool
    merges_tokens: bool
    biased_products: float
    overlaps_tensor: TensorOverlap
    gathers_quantised: bool
    overlaps_experts: bool
    prefetches: bool
    prefetches_backward: bool
    regathers: bool
    broadcasts_updates: bool
    stops_early: bool
    engine_workspace: bool
    loss_metrics: int
    allocator_share: float
    fragmentation: float
    launch_s: float
    op_s: float
    expert_s: float
    default_items: tuple[tuple[str, Any], ...] = ()
    recipe_items: tuple[tuple[str, Any], ...] = ()
    facts: tuple[tuple[str, Any], ...] = ()
    changes: tuple[tuple[str, Any], ...] = ()
    definition: Definition
    source_items: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        return hash((self.name, self.version, self.facts, self.changes))

    def __repr__(self) -> str:
        return f"Framework({self.text!r})"

    # -- what it says ---------------------------------------------------------

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return self.definition.title

    @property
    def versions(self) -> tuple[str, ...]:
        """Conditions on the version that change something, in the order of the rules."""
        wanted = (value for rule in self.definition.rules for name, value in rule.conditions if name == "version")
        return tuple(dict.fromkeys(wanted))

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Plan fields that the framework decides where a plan says nothing; only documented ones."""
        return MappingProxyType(dict(self.default_items))

    @property
    def recipes(self) -> Mapping[str, Any]:
        """Facts of its recipes, such as the rank of their adapters."""
        return MappingProxyType(dict(self.recipe_items))

    @property
    def sources(self) -> Mapping[str, str]:
        """Field (of the framework, of :attr:`defaults` or of :attr:`recipes`) -> where its value is from."""
        return MappingProxyType(dict(self.source_items))

    @property
    def flash(self) -> bool:
        """Whether attention is one kernel that never writes the scores."""
        return self.attention not in KEEPS_SCORES

    @property
    def text(self) -> str:
        """One line that :func:`~proteus.frameworks.load` reads to an equal value.

        >>> from proteus.frameworks import load
        >>> load("NeMo@24.07,  attention=flash2").text
        'nemo@24.07, attention=flash2'
        """
        first = self.definition.origin or self.name
        head = f"{first}@{self.version}" if self.version else first
        return ", ".join([head, *(f"{name}={written(value)}" for name, value in (*self.facts, *self.changes))])

    def describe(self) -> str:
        """Every value with its source, one per line."""
        sources = self.sources
        lines = [f"{self.title} ({self.text})"]
        for group, names in GROUPS.items():
            lines += [f"{group}:", *(_line(name, getattr(self, name), sources) for name in names)]
        for group, items in (("defaults", self.default_items), ("recipes", self.recipe_items)):
            lines += [f"{group}:", *(_line(name, value, sources) for name, value in items)] if items else []
        return "\n".join(lines)

    def bucket_size_bytes(self, element_bytes: float, num_data_ranks: int) -> float:
        """Bytes of a bucket of gradients of `element_bytes` each, which are reduced over so many ranks.

        >>> from proteus.frameworks import load
        >>> [load(name).bucket_size_bytes(4.0, 64) / 1e6 for name in ("megatron-core", "ddp")]
        [256.0, 26.2144]
        """
        if self.bucket_elements:
            return max(self.bucket_elements, self.bucket_elements_per_rank * num_data_ranks) * element_bytes
        return self.bucket_bytes

    # -- other values ------------------------------------------------------------

    def but(self, **changes: object) -> Framework:
        """The same framework with other fields; rules do not change these.

        Raises
        ------
        InputError
            No such field, or a value that it cannot have.

        >>> from proteus.frameworks import load
        >>> load("megatron-core").but(attention="flash1").attention
        'flash1'
        """
        made = {**dict(self.changes), **checked("framework field", KINDS, changes)}
        return build(self.definition, self.version, self.facts, tuple(sorted(made.items())))

    def given(self, **facts: object) -> Framework:
        """The framework as it runs what is said: precision, compile, cuda_graphs, experts, lora, pure, virtual_stages.

        None says nothing.  What none of its rules asks for is not kept.
        ``virtual_stages`` is of a pipeline; a run without one does not say it.

        Raises
        ------
        InputError
            No such fact, or a value that it cannot have.

        >>> from proteus.frameworks import load
        >>> load("torchtitan").given(compile=True).norm, load("torchtitan").norm
        ('tuned', 'chain')
        """
        known_facts = {name: value for name, value in facts.items() if value is not None}
        made = {**dict(self.facts), **checked("fact of a framework's rules", FACTS, known_facts)}
        asked = {name for rule in self.definition.rules for name, _ in rule.conditions}
        made = {name: value for name, value in made.items() if name in asked}
        return build(self.definition, self.version, tuple(sorted(made.items())), self.changes)

    def on(self, gpu: Gpu) -> OnGpu:
        """The framework as it runs on a GPU, and what differs there from what it does elsewhere.

        Raises
        ------
        InputError
            The user asked for an attention kernel that does not run on this GPU.

        >>> from proteus import hardware
        >>> from proteus.frameworks import load
        >>> load("huggingface").on(hardware.load("v100")).framework.attention
        'memory_efficient'
        """
        return _on(self, gpu.name, kernels.Chip.of(gpu))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, version: str = "") -> Framework:
        """A framework of the user's own, from a YAML file of the form of those in ``frameworks/data``.

        Raises
        ------
        InputError
            Not such a file: with its line and field.
        """
        from proteus.frameworks.catalogue import read  # which names the frameworks that a file may be `like`

        return build(read(os.fspath(path)), version, (), ())


class OnGpu(NamedTuple):
    """A framework on a kind of GPU, and what was replaced there and why."""

    framework: Framework
    notes: tuple[str, ...]


#: which group of a file holds a field
GROUPS: Mapping[str, tuple[str, ...]] = {
    "kernels": (
        "attention", "fallback_attention", "fused_bias_activation", "fused_dropout_add", "norm", "fused_add_norm",
        "fused_norm_activation", "channels_last", "fused_rope", "fused_permute", "fused_cross_entropy",
        "fused_grad_accumulation", "optimizer_kernels", "biased_products", "gathers_quantised", "loss_metrics",
    ),
    "runtime": (
        "wire_bytes", "bucket_elements", "bucket_elements_per_rank", "bucket_bytes", "first_bucket_bytes",
        "sends_wait", "host_waits_for_passes", "host_waits_for_transfers", "splits_transfers",
        "host_waits_for_routing", "merges_tokens", "overlaps_tensor", "overlaps_experts", "prefetches",
        "prefetches_backward", "regathers", "broadcasts_updates", "stops_early",
    ),
    "memory": (
        "fp32_grads", "fp32_params", "master_bytes", "pure", "loss", "engine_workspace", "allocator_share",
        "fragmentation",
    ),
    "host": ("launch_s", "op_s", "expert_s", "transfer_s"),
}  # fmt: skip
#: plan field -> the framework field that it sets
PLAN_FIELDS: Mapping[str, str] = {
    "attention": "attention",
    "overlap_tensor": "overlaps_tensor",
    "overlap_experts": "overlaps_experts",
}


def _kinds() -> dict[str, Kind]:
    hints = get_type_hints(Framework)
    return {name: kind_of(hints[name]) for names in GROUPS.values() for name in names}


#: field -> the values that it may have
KINDS: Mapping[str, Kind] = _kinds()


@lru_cache(maxsize=256)
def build(
    definition: Definition, version: str, facts: tuple[tuple[str, Any], ...], changes: tuple[tuple[str, Any], ...]
) -> Framework:
    """A framework by what is said of it: its rules applied in order, then the user's changes."""
    if version and release(version) is None:
        raise InputError(f"framework {definition.name}: version {version!r} has no number; write one such as 24.07")
    values, defaults, fact_values = dict(definition.values), dict(definition.defaults), dict(facts)
    sources = dict(definition.sources)
    for rule in definition.rules:
        if rule.holds(version, fact_values, defaults):
            values.update(rule.values)
            defaults.update(rule.defaults)
            sources.update(rule.sources)
    values.update(changes)
    sources.update({name: "you" for name, _ in changes})
    return Framework(
        name=definition.name,
        version=version,
        **values,
        default_items=tuple(sorted(defaults.items())),
        recipe_items=definition.recipes,
        facts=facts,
        changes=changes,
        definition=definition,
        source_items=tuple(sorted(sources.items())),
    )


@lru_cache(maxsize=256)
def _on(framework: Framework, gpu_name: str, chip: kernels.Chip) -> OnGpu:
    here = framework.given(gpu=chip.generation)
    reason = kernels.cannot_run(here.attention, chip)
    if reason is None:
        return OnGpu(here, ())
    order: tuple[Attention, ...] = (*here.fallback_attention, RUNS_EVERYWHERE)
    instead = next(name for name in order if kernels.cannot_run(name, chip) is None)
    if "attention" in dict(framework.changes):
        raise InputError(
            f"attention={here.attention} does not run on {gpu_name}: {reason}; {here.title} runs {instead} there"
        )
    note = f"{here.title} on {gpu_name}: attention {instead} instead of {here.attention}, which {reason}"
    return OnGpu(here.but(attention=instead), (note,))


def _line(name: str, value: object, sources: Mapping[str, str]) -> str:
    return f"  {name} = {written(value)}  # {sources.get(name, 'no source')}"


@cache
def field_names() -> tuple[str, ...]:
    """Fields that a file or a user may set."""
    return tuple(KINDS)


def check_field(name: str) -> str:
    """`name` if a framework has such a field."""
    if name not in KINDS:
        raise InputError(unknown("framework field", name, KINDS))
    return name


assert {f.name for f in fields(Framework)} >= set(KINDS)
