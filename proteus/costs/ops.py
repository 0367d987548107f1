"""Seconds of a kernel on one GPU, with an error band and a source.

>>> from proteus import hardware
>>> work = Work(family=Family.GEMM, flop=2 * 4096.0**3, bytes=3 * 2 * 4096.0**2, dtype="bf16", shape=(1,) + 3 * (4096,))
>>> time = OpCosts(hardware.load("a100-80gb")).time(work)
>>> 0.5 < time.time_s * 1e3 < 0.7, time.assumed
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proteus.costs import curves
from proteus.costs.attention import attention_time_s
from proteus.costs.collective_types import Collective, GroupShape
from proteus.costs.conv import conv_time_s
from proteus.costs.curves import VECTOR, Curve
from proteus.costs.gemm import gemm_time_s
from proteus.costs.measured import CollectiveTimes, MeasuredOverlap
from proteus.costs.memory import memory_time_s
from proteus.costs.residuals import Spread
from proteus.costs.work import SERIAL, Access, Family, Work
from proteus.errors import InputError, unknown
from proteus.frameworks import Framework
from proteus.hardware import Gpu
from proteus.hardware.curves import GemmCurve
from proteus.units import DTYPE_BYTES


@dataclass(frozen=True, slots=True)
class OpTime:
    """Seconds of a kernel.

    Parameters
    ----------
    spread
        Standard deviations of the logarithm of the time, as those of its
        family on sources that were held out.
    assumed
        True where another GPU's or dtype's curve stands in.
    """

    time_s: float
    spread: Spread
    source: str
    assumed: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """What a measured run or the user's own profile says about a machine.

    Two calibrations are equal when they are the same object, so that what was
    priced with one is remembered for it.

    Parameters
    ----------
    scale
        Factor on the time of a family; families not named keep 1.
    measured_s
        Times of works that were measured here [s]; they beat the curves.
    collectives
        Times of collectives inside a host; they beat the fitted links.
    overlap
        Measured slow-downs of a kernel and a collective side by side.
    launch_s, op_s
        Host time per launch and per op [s]; None keeps the framework's.
    network, host
        Factors on the times of collectives and of the host.
    """

    scale: Mapping[Family, float] = field(default_factory=dict)
    measured_s: Mapping[Work, float] = field(default_factory=dict)
    collectives: tuple[CollectiveTimes, ...] = ()
    overlap: MeasuredOverlap | None = None
    launch_s: float | None = None
    op_s: float | None = None
    network: float = 1.0
    host: float = 1.0
    source: str = "calibration"

    def collective(self, kind: Collective, shape: GroupShape) -> CollectiveTimes | None:
        """The measured times of a collective in groups of that shape, or None."""
        if shape.num_hosts > 1:
            return None
        return next((c for c in self.collectives if c.kind is kind and c.num_ranks == shape.num_ranks), None)

    @property
    def is_from_steps(self) -> bool:
        """Whether it holds factors that measured steps asked for."""
        return bool(self.scale) or self.network != 1.0 or self.host != 1.0

    @property
    def has_host(self) -> bool:
        """Whether the host's launches were measured here."""
        return self.launch_s is not None and self.op_s is not None

    def on_host(self, framework: Framework) -> Framework:
        """The framework with the host times measured here."""
        launch_s = framework.launch_s if self.launch_s is None else self.launch_s
        op_s = framework.op_s if self.op_s is None else self.op_s
        return framework.but(
            launch_s=launch_s * self.host, op_s=op_s * self.host, expert_s=framework.expert_s * self.host
        )


#: cuBLAS, CUTLASS and rocBLAS split k as deep as it helps
GEMM_MAX_SPLIT = 32.0
#: SMs of a GPU whose sheet does not say: those of an A100
DEFAULT_NUM_SMS = 108
#: GEMMs in NVFP4 over those in MXFP8, operands quantised before: on B300, whose sheet says 3.1 times, cuBLAS makes
#: the four GEMMs of a layer (hidden 4096, 15,872 tokens) and their gradients 1.90 and, in an older release, 1.95
#: times as fast (TransformerEngine docs/examples/gemm_profiling, per-layer totals 7.161 / 3.764 and 7.324 / 3.754 ms).
NVFP4_OVER_FP8 = 1.92
#: relative error of a time measured on the machine itself: run-to-run spread
MEASURED_SIGMA = 0.02
MEASURED = Spread(shared=MEASURED_SIGMA, own=0.0)


class OpCosts:
    """Times of kernels on one kind of GPU; remembers what it was asked.

    Parameters
    ----------
    gpu
        Its sheet, and its chip with the curves.
    calibration
        None means curves and sheet alone.
    """

    def __init__(self, gpu: Gpu, calibration: Calibration | None = None) -> None:
        self.gpu = gpu
        self.calibration = calibration or Calibration()
        self._cache: dict[Work, OpTime] = {}
        self._curves: dict[tuple[str, str], Curve] = {}
        self._borrowed: dict[str, float] = {}
        self._sms = float(gpu.num_sms or DEFAULT_NUM_SMS)
        peaks = gpu.peak_flops
        self._half_flops = peaks.get("bf16") or peaks.get("fp16") or peaks.get("fp32", 0.0)

    def time(self, work: Work) -> OpTime:
        """The time of `work` alone on the GPU."""
        op_time = self._cache.get(work)
        if op_time is None:
            op_time = self._cache[work] = self._evaluate(work)
        return op_time

    def _evaluate(self, work: Work) -> OpTime:
        measured_s = self.calibration.measured_s.get(work)
        if measured_s is not None:
            return OpTime(measured_s, MEASURED, self.calibration.source, False)
        scale = self.calibration.scale.get(work.family, 1.0)
        match work.family:
            case Family.GEMM | Family.GROUPED_GEMM:
                curve, time_s = self._gemm(work)
            case Family.ATTENTION:
                curve, time_s = self._attention(work)
            case Family.CONV:
                curve, time_s = self._conv(work)
            case _:
                curve, time_s = self._memory(work)
        source = curve.source
        if scale != 1.0:
            source = f"{self.calibration.source} x {scale:.3g}; {source}"
        return OpTime(time_s * scale, curve.spread, source, curve.is_assumed)

    def _curve(self, family: str, key: str) -> Curve:
        curve = self._curves.get((family, key))
        if curve is None:
            curve = self._curves[family, key] = curves.find(family, key, self.gpu)
        return curve

    def _borrowed_factor(self, curve: Curve) -> float:
        factor = self._borrowed.get(curve.chip.name)
        if factor is None:
            factor = self._borrowed[curve.chip.name] = curves.borrowed_factor(curve.chip, self.gpu)
        return factor

    def peak(self, dtype: str) -> float:
        """Dense peak at which GEMMs of `dtype` run on this GPU [FLOP/s]."""
        return self._peak(dtype)

    def _peak(self, dtype: str) -> float:
        """The sheet's peak of a dtype [FLOP/s]; where it has none, that of what runs instead."""
        peaks = self.gpu.peak_flops
        for name in (dtype, *_RUNS_AS.get(dtype, ())):
            if peaks.get(name):
                return peaks[name]
        raise InputError(f"GPU {self.gpu.name}: {unknown('dtype', dtype, peaks)}")

    def _rate(self, dtype: str) -> float:
        """What the curve of `dtype` is a share of [FLOP/s]: the sheet's peak; for nvfp4 what was measured over fp8."""
        peak = self._peak(dtype)
        return min(peak, NVFP4_OVER_FP8 * self._peak("fp8")) if dtype == "nvfp4" else peak

    def _clock(self, family: Family, curve: Curve) -> float:
        """What the board's power leaves of the clock that the curve was measured at, in the middle of a step."""
        if curve.key == VECTOR:
            peak = self.gpu.peak_flops.get(VECTOR, 0.0)
            return curves.fp32_clock(family, self.gpu.chip, self.gpu.tdp_w or 0.0, peak)
        return min(1.0, self._power(curve) * curves.sustained_factor(curve.chip))

    def _power(self, curve: Curve) -> float:
        return curves.power_factor(curve.chip, self.gpu.tdp_w or 0.0, self._half_flops)

    def _gemm(self, work: Work) -> tuple[Curve, float]:
        curve = self._curve("gemm", work.dtype)
        eff, *rest = curve.params
        eff *= self._clock(Family.GEMM, curve)
        if work.variant == SERIAL:
            rest[GemmCurve._fields.index("sharpness") - 1] = 1.0  # the sum of both
        batch, m, n, k = work.shape
        if 0 in work.shape:
            return curve, 0.0
        peak = self._rate(work.dtype)
        params = GemmCurve(eff, *rest)
        time_s = gemm_time_s(batch, m, n, k, work.bytes, peak, self.gpu.memory_Bps, self._sms, GEMM_MAX_SPLIT, *params)
        # more power does not lift a board above its sheet; matrix cores for fp32, which its fp32 does not count, do
        above = 1.0 if curve.is_assumed else max(1.0, curves.large_share(curve.params))
        return curve, max(time_s, work.flop / (peak * above))

    def _attention(self, work: Work) -> tuple[Curve, float]:
        curve = self._curve("attention", work.variant or "flash2")
        eff, *rest = curve.params
        # softmax holds attention below the power at which GEMMs lower the clock
        eff *= min(1.0, self._power(curve)) * self._borrowed_factor(curve)
        size = float(DTYPE_BYTES[work.dtype])
        peak = self._peak(work.dtype)
        args: list[float] = [*work.shape, size, peak, self.gpu.memory_Bps, self._sms, eff, *rest]
        return curve, attention_time_s(*args)

    def _conv(self, work: Work) -> tuple[Curve, float]:
        curve = self._curve("conv", work.dtype)
        eff, *rest = curve.params
        eff *= self._clock(Family.CONV, curve) * self._borrowed_factor(curve)
        size = float(DTYPE_BYTES[work.dtype])
        peak = self._peak(work.dtype)
        tensor_cores = float(curve.key != VECTOR)
        stream_eff = self._curve("memory", "stream").params[0]
        memory_Bps = self.gpu.memory_Bps * stream_eff
        args: list[float] = [*work.shape, tensor_cores, size, peak, memory_Bps, self._sms, eff, *rest]
        time_s = conv_time_s(*args)
        return curve, max(time_s, work.flop / peak) if tensor_cores else time_s  # Winograd saves FLOP

    def _memory(self, work: Work) -> tuple[Curve, float]:
        curve = self._curve("memory", "stream")
        if work.num_kernels == 0 or work.bytes == 0.0:
            return curve, 0.0
        eff, sm_Bps = curves.access(work.variant or Access.STREAM)
        each = work.bytes / work.num_kernels
        time_s = memory_time_s(each, eff, sm_Bps, self.gpu.memory_Bps, self._sms, *curve.params)
        return curve, work.num_kernels * time_s


#: what computes a dtype or precision that the GPU's sheet does not list
_RUNS_AS = {
    "bf16": ("fp16", "fp32"),  # Volta and Pascal: no bf16 units
    "fp16": ("bf16", "fp32"),
    "tf32": ("fp32",),  # before Ampere TF32 is plain fp32
    "fp8": ("bf16", "fp16", "fp32"),  # weights are stored in fp8, GEMMs run in half precision
    "fp8-rowwise": ("fp8", "bf16", "fp16", "fp32"),  # a precision whose GEMMs are those of fp8
    "nvfp4": ("bf16", "fp16", "fp32"),  # the same
    "fp32": ("tf32",),
}
