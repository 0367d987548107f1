"""How numbers are stored and multiplied in a run.

Mixed precision keeps several copies of a parameter; which ones is what the
memory and the traffic of a step depend on::

    name   GEMMs     activations  parameter  gradient  master  Adam m, v
    fp32   fp32      4            4          4         -       4 + 4
    tf32   tf32      4            4          4         -       4 + 4
    fp16   fp16      2            2          2         4       4 + 4
    bf16   bf16      2            2          2         4       4 + 4
    fp8    fp8       2            2          2         4       4 + 4
    nvfp4  nvfp4     2            2          2         4       4 + 4

``fp8-rowwise`` is fp8 with a scale for each row of an operand (torchao's
recipe ``rowwise``) where fp8 has one for the whole.

Frameworks differ in the gradient (Megatron accumulates in fp32) and in what
they call the parameter (FSDP and autocast keep fp32 and cast on use): see
:func:`kept_by`.  Source: Micikevicius et al., arXiv 1710.03740;
Rajbhandari et al., arXiv 1910.02054, section 3.1 (16 bytes per parameter).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proteus.errors import InputError, unknown
from proteus.frameworks import Framework
from proteus.units import DTYPE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes per element of everything that a step keeps or moves.

    Parameters
    ----------
    compute
        dtype of the GEMMs of linear layers: the row of the GPU's peaks.
    activation
        dtype of activations, of attention's GEMMs and of convolutions.
    param_bytes
        The parameter that forward and backward read.
    grad_bytes
        The gradient that is accumulated, reduced and read by the optimizer.
    master_bytes
        The fp32 copy that the optimizer updates; 0 where the parameter is it.
    moment_bytes
        One moment of the optimizer (Adam keeps two, SGD with momentum one).
    row_scales
        Operands are scaled by row; what is a row differs between the two
        GEMMs that read one, so each has a quantised copy of its own.
    wire_bytes
        A gradient on its way through a reduction; 0 where it travels as it is kept.
    """

    name: str
    compute: str
    activation: str
    param_bytes: float
    grad_bytes: float
    master_bytes: float
    moment_bytes: float = 4.0
    wire_bytes: float = 0.0
    row_scales: bool = False

    @property
    def reduce_bytes(self) -> float:
        """Bytes per element that a reduction of gradients moves.

        >>> load("fp32").reduce_bytes
        4.0
        """
        return self.wire_bytes or self.grad_bytes

    @property
    def activation_bytes(self) -> int:
        """Bytes per element of an activation.

        >>> load("bf16").activation_bytes
        2
        """
        return DTYPE_BYTES[self.activation]

    @property
    def compute_bytes(self) -> float:
        """Bytes per element of an operand of a linear layer's GEMM, scales included.

        >>> load("fp8").compute_bytes, load("nvfp4").compute_bytes
        (1.0, 0.5625)
        """
        return NVFP4_BYTES if self.compute == "nvfp4" else float(DTYPE_BYTES[self.compute])

    def state_bytes(self, optimizer: str) -> float:
        """Master copy and moments of one parameter [bytes].

        >>> load("bf16").state_bytes("adam"), load("fp32").state_bytes("sgd")
        (12.0, 4.0)
        """
        return self.master_bytes + self.moment_bytes * num_moments(optimizer)


#: an element of NVFP4: four bits, and a scale of eight bits for every 16 elements (NVIDIA, arXiv 2509.25149, section 2)
NVFP4_BYTES = 0.5 + 1.0 / 16.0
#: a frozen weight in NF4: four bits, an 8-bit scale for every 64, a 32-bit one for every 256 of those (QLoRA, Dettmers
#: et al., arXiv 2305.14314, section 3)
NF4_BYTES = 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0)
#: moments that an optimizer keeps per parameter
_MOMENTS = {"sgd": 1, "adam": 2, "adamw": 2, "lamb": 2, "sgd-plain": 0}


def num_moments(optimizer: str) -> int:
    """How many moments per parameter an optimizer keeps.

    >>> num_moments("adam")
    2
    """
    if optimizer not in _MOMENTS:
        raise InputError(unknown("optimizer", optimizer, _MOMENTS))
    return _MOMENTS[optimizer]


def _half(name: str, compute: str, activation: str) -> Precision:
    return Precision(
        name=name, compute=compute, activation=activation, param_bytes=2.0, grad_bytes=2.0, master_bytes=4.0
    )


def _full(name: str, compute: str) -> Precision:
    return Precision(name=name, compute=compute, activation="fp32", param_bytes=4.0, grad_bytes=4.0, master_bytes=0.0)


_PRECISIONS = {
    "fp32": _full("fp32", "fp32"),
    "tf32": _full("tf32", "tf32"),
    "fp16": _half("fp16", "fp16", "fp16"),
    "bf16": _half("bf16", "bf16", "bf16"),
    "fp8": _half("fp8", "fp8", "bf16"),
    "fp8-rowwise": replace(_half("fp8-rowwise", "fp8", "bf16"), row_scales=True),
    "nvfp4": _half("nvfp4", "nvfp4", "bf16"),
}


def names() -> tuple[str, ...]:
    return tuple(_PRECISIONS)


def load(name: str) -> Precision:
    """The precision of that name.

    >>> load("fp8").compute
    'fp8'
    """
    if name not in _PRECISIONS:
        raise InputError(unknown("precision", name, _PRECISIONS))
    return _PRECISIONS[name]


def kept_by(framework: Framework, name: str) -> Precision:
    """The precision `name` as a framework keeps parameters and gradients in it.

    >>> from proteus import frameworks
    >>> kept_by(frameworks.load("megatron-core"), "bf16").grad_bytes
    4.0
    >>> kept_by(frameworks.load("torchtitan"), "bf16").param_bytes
    4.0
    """
    base = replace(load(name), wire_bytes=framework.wire_bytes)
    if base.master_bytes == 0.0:
        return base
    base = replace(base, master_bytes=framework.master_bytes)
    if framework.pure:
        return replace(base, master_bytes=0.0, moment_bytes=base.param_bytes)
    if framework.fp32_params:
        return replace(base, param_bytes=4.0, grad_bytes=4.0, master_bytes=0.0)
    return replace(base, grad_bytes=4.0) if framework.fp32_grads else base
