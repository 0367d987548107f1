"""Framework profiles: what a framework fuses and what it costs the host.

A profile holds documented habits of a framework, not tuned factors: which
elementwise ops become one kernel, which attention it calls, whether the
optimizer is one kernel, how long its host needs per op.  The file
``data/profiles.json`` names the source of every field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import Literal, get_args

from proteus.costs import precision as precisions
from proteus.costs.precision import Precision
from proteus.costs.work import BIASED, Family, Work
from proteus.errors import InputError, unknown
from proteus.units import US

Attention = Literal[
    "unfused", "unfused_fp32", "fused_softmax", "memory_efficient", "flash1", "flash2", "flash3", "cudnn"
]
Norm = Literal["chain", "native", "tuned"]
Optimizer = Literal["fused", "foreach", "loop"]
Loss = Literal["softmax", "copied", "held", "in_place"]
TensorOverlap = Literal["none", "forward_scatters", "forward", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a framework turns ops into kernels.

    Parameters
    ----------
    attention
        ``unfused``: product, scale, mask, softmax, dropout, product;
        ``unfused_fp32``: the same with the softmax of an fp32 copy;
        ``fused_softmax``: scale, mask and softmax in one kernel (Megatron);
        the others are fused kernels, which never write the scores.
    fused_bias_activation, fused_dropout_add
        Bias and activation, or bias, dropout and residual add, in one kernel.
    norm
        ``native``: the framework's one kernel; ``tuned``: kernels for the
        row length (apex, Transformer Engine, a compiler); ``chain``: several
        passes in fp32.
    fused_add_norm
        The residual add is part of the norm's kernel, which saves one read.
    fused_norm_activation
        A ReLU after a batch norm, and the add between, are part of its kernel.
    channels_last
        Images lie with their channels last in memory, as tensor cores take
        them; else every convolution on tensor cores turns its operands
        around and its result back.
    fused_rope
        Rotary embedding in one pass over q and k; else slices and concats.
    fused_permute
        MoE tokens are gathered by one kernel near memory speed.
    fused_cross_entropy
        Loss in about one pass over the logits; else a chain in fp32.
    fused_grad_accumulation
        The weight gradient's product adds into the fp32 gradient itself.
    fp32_grads
        Gradients are accumulated and reduced in fp32.
    fp32_params
        The stored parameter is fp32 and cast for use (autocast, FSDP).
    master_bytes
        Of the optimizer's copy of a 16-bit parameter: 4, or 2 where it keeps
        only the low half beside the parameter, which is the high one.
    pure
        Parameter and moments have the run's precision; no fp32 copy.
    optimizer
        ``fused``: one multi-tensor kernel; ``foreach``: one kernel per
        arithmetic step; ``loop``: every step of every tensor.
    loss
        What the loss holds of the logits.  ``softmax`` keeps it in fp32
        (Megatron-LM); ``copied`` holds an fp32 copy besides
        (``cross_entropy(logits.float())``); ``held`` also the logits
        themselves and both fp32 gradients of PyTorch's operators;
        ``in_place`` keeps only the logits.
    wire_bytes
        Bytes per element that a reduction of gradients moves; 0: as they are kept.
    host_waits_for_passes
        The host stands still until every forward and every backward of a
        micro-batch has ended, so it cannot launch ahead of the devices.
    host_waits_for_transfers
        The host stands still until a transfer between pipeline stages has
        ended, so it cannot launch ahead of the devices.
    transfer_s
        Host time around every such transfer, in which the device idles too [s].
    splits_transfers
        Tensor ranks that hold the same send a part each to the next stage,
        whose ranks gather it (Megatron-LM's scatter/gather optimization).
    host_waits_for_routing
        The host reads how many tokens every expert got before it can issue
        their products, so it cannot launch ahead of the devices.
    merges_tokens
        A token goes once to a device (or once over the network to a host)
        that has several of its experts, not once for each of them.
    biased_products
        Time of a grouped product in 16 bits with a bias for each group, over
        that of one without.
    overlaps_tensor
        Where gathers and scatters of sequence parallelism run in chunks beside
        the products that need them, so that only one chunk of each stands
        alone: in the ``forward`` (PyTorch's asynchronous tensor parallelism;
        ``forward_scatters``: no gathers), in ``all`` of the step (user buffers
        of Transformer Engine) or in ``none``.
    gathers_quantised
        What tensor parallelism gathers for quantised products (activations,
        and gradients of their results) is quantised before, not after.
    overlaps_experts
        Tokens go to experts and come back while another micro-batch computes,
        which takes longer for it; not in the forwards before the first
        backward and the backwards after the last forward
        (Megatron-Core's overlap_moe_expert_parallel_comm).
    prefetches
        ZeRO-3 gathers the parameters of a block in one collective beside the
        block before; else each large one alone when its block begins, and
        what every rank sent is copied to its place (DeepSpeed).
    prefetches_backward
        The backward does so too; else it gathers a block once the gradients
        of the block after are computed (PyTorch FSDP's BACKWARD_POST).
    regathers
        What sequence parallelism gathers for a product is dropped after it
        and gathered again for the gradient (Megatron); else it is kept whole.
    broadcasts_updates
        Every rank broadcasts the parameters that it has updated (ZeRO-1 and
        2), one after another; else they are gathered at once.
    stops_early
        Recomputation ends once all that the backward needs is there, so the
        last product of a block does not run again (PyTorch's non-reentrant
        checkpoints since 2.1); else the whole forward does.
    loss_metrics
        Metrics that compute the loss of every micro-batch once more, by the
        framework's own operators.
    fragmentation
        What the caching allocator holds beside what the step itself takes and
        gives back, as a share of it, over what it holds everywhere.
    launch_s
        Host time of one kernel launch [s].
    op_s
        Host time of the framework around an op, besides its launches [s].
    expert_s
        Host time of each local expert of a grouped product [s].
    """

    name: str
    attention: Attention
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
    optimizer: Optimizer
    loss: Loss
    wire_bytes: float
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
    loss_metrics: int
    fragmentation: float
    launch_s: float
    op_s: float
    expert_s: float
    source: str

    @property
    def defaults(self):
        return {}

    @property
    def sources(self):
        return {}

    @property
    def text(self):
        return self.name

    @property
    def bucket_bytes(self):
        return 160e6

    def given(self, **facts):
        return self

    @property
    def flash(self) -> bool:
        """Whether attention is one kernel that never writes the scores.

        >>> load("megatron").flash
        True
        """
        return self.attention not in ("unfused", "unfused_fp32", "fused_softmax")

    def precision(self, name: str) -> Precision:
        """The precision `name` as this framework stores it.

        >>> load("megatron").precision("bf16").grad_bytes
        4.0
        >>> load("torchtitan").precision("bf16").param_bytes
        4.0
        """
        base = replace(precisions.load(name), wire_bytes=self.wire_bytes)
        if base.master_bytes == 0.0:
            return base
        base = replace(base, master_bytes=self.master_bytes)
        if self.pure:
            return replace(base, master_bytes=0.0, moment_bytes=base.param_bytes)
        if self.fp32_params:
            return replace(base, param_bytes=4.0, grad_bytes=4.0, master_bytes=0.0)
        return replace(base, grad_bytes=4.0) if self.fp32_grads else base

    def host_s(self, works: Iterable[Work]) -> float:
        """Host time to issue the kernels of one op in one phase [s]."""
        launches = experts = 0
        for work in works:
            launches += work.num_kernels
            experts += work.shape[0] if work.family is Family.GROUPED_GEMM else 0
        return self.op_s + launches * self.launch_s + experts * self.expert_s if launches else 0.0

    def slowdown(self, work: Work) -> float:
        """Time of a kernel in this framework over that of the kernel alone."""
        return self.biased_products if work.variant == BIASED and work.dtype in ("bf16", "fp16") else 1.0

    def but(self, **changes: object) -> Profile:
        """The same profile with other fields, e.g. ``but(attention="flash1")``.

        >>> load("megatron").but(attention="flash1").attention
        'flash1'
        """
        known = {field.name for field in fields(self)}
        for name in changes:
            if name not in known:
                raise InputError(unknown("profile field", name, known))
        return replace(self, **changes)  # type: ignore[arg-type]


@cache
def _profiles() -> dict[str, Profile]:
    text = resources.files("proteus.costs").joinpath("data/profiles.json").read_text("utf-8")
    table = json.loads(text)
    found: dict[str, Profile] = {}
    for name, row in table["profiles"].items():
        base = {key.replace("_us", "_s"): value * US if key.endswith("_us") else value for key, value in row.items()}
        like = base.pop("like", None)
        found[name] = replace(found[like], name=name, **base) if like else Profile(name=name, **base)
    for alias, name in table["aliases"].items():
        found[alias] = found[name]
    return found


def names() -> tuple[str, ...]:
    return tuple(sorted(_profiles()))


@cache
def load(name: str) -> Profile:
    """The profile of a framework, with changes after its name where there are any.

    >>> load("torch-eager").optimizer
    'foreach'
    >>> load("megatron, attention=flash1, fp32_grads=false").attention
    'flash1'
    """
    base, *changes = (part.strip() for part in name.split(","))
    found = _profiles()
    key = base.lower().replace("_", "-")
    if key not in found:
        raise InputError(unknown("framework profile", base, found))
    profile = found[key]
    for change in changes:
        field, equals, text = (part.strip() for part in change.partition("="))
        if not equals:
            raise InputError(f"framework profile {name!r}: {change!r} changes nothing; write field=value")
        profile = profile.but(**{field: _value(profile, field, text)})
    return profile


def _value(profile: Profile, field: str, text: str) -> object:
    """What a text means for a field of a profile."""
    if field not in _CHANGEABLE:
        raise InputError(unknown("profile field", field, _CHANGEABLE))
    choices = _CHOICES.get(field)
    if choices is not None:
        if text not in choices:
            raise InputError(unknown(f"{field} of a framework profile", text, choices))
        return text
    if isinstance(getattr(profile, field), bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"framework profile: {field}={text!r} is neither true nor false")
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"framework profile: {field}={text!r} is no number") from None


_CHANGEABLE = tuple(f.name for f in fields(Profile) if f.name not in ("name", "source"))
_CHOICES: dict[str, tuple[str, ...]] = {
    "attention": get_args(Attention), "norm": get_args(Norm), "optimizer": get_args(Optimizer), "loss": get_args(Loss),
    "overlaps_tensor": get_args(TensorOverlap),
}  # fmt: skip
