"""Times of kernels on every GPU of the catalogue, and what they say of themselves."""

from __future__ import annotations

import math

import pytest

from proteus.costs import precision
from proteus.costs.lower import casts, gemm
from proteus.costs.ops import MEASURED, Calibration, OpCosts
from proteus.costs.passes import stream
from proteus.costs.work import Access, Family, Work
from proteus.hardware import gpus

PRODUCT = gemm(1, 4096, 4096, 4096, "bf16", 2, 2)
ATTENTION = Work(family=Family.ATTENTION, dtype="bf16", shape=(1, 32, 8, 4096, 4096, 128, 128, 1, 1), variant="cudnn")
CONV = Work(family=Family.CONV, dtype="fp16", shape=(64, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1, 1, 0))
MOVE = stream(1e9)


@pytest.mark.parametrize("name", gpus.names())
@pytest.mark.parametrize("work", [PRODUCT, ATTENTION, CONV, MOVE], ids=lambda w: w.family.value)
def test_every_gpu_has_a_time_a_band_and_a_source(name: str, work: Work) -> None:
    time = OpCosts(gpus.load(name)).time(work)
    assert 0 < time.time_s < 1 and math.isfinite(time.time_s)
    assert 0 < time.spread.shared < 1 and 0 < time.spread.own < 1
    assert "curve" in time.source


@pytest.mark.parametrize("name", gpus.names())
def test_never_faster_than_the_sheet(name: str) -> None:
    gpu = gpus.load(name)
    costs = OpCosts(gpu)
    assert costs.time(MOVE).time_s > 1e9 / gpu.memory_Bps
    peak = max(gpu.peak_flops.get("bf16", 0.0), gpu.peak_flops.get("fp16", 0.0), gpu.peak_flops["fp32"])
    assert PRODUCT.flop / costs.time(PRODUCT).time_s <= peak * (1 + 1e-9)


def test_measured_chips_are_not_assumed_and_others_are() -> None:
    assert not OpCosts(gpus.load("a100-80gb")).time(PRODUCT).assumed
    assert not OpCosts(gpus.load("h200")).time(PRODUCT).assumed
    assert OpCosts(gpus.load("l40s")).time(PRODUCT).assumed


def test_products_outside_tensor_cores_are_like_those_of_other_chips() -> None:
    source = OpCosts(gpus.load("h100")).time(gemm(1, 4096, 4096, 4096, "fp32", 4, 4)).source
    assert "ga100/fp32" in source


def test_matrix_cores_make_fp32_products_faster_than_the_vector_rate_of_the_sheet() -> None:
    product, mi210, mi50 = gemm(1, 8192, 8192, 8192, "fp32", 4, 4), gpus.load("mi210"), gpus.load("mi50")
    assert product.flop / OpCosts(mi210).time(product).time_s > 1.1 * mi210.peak_flops["fp32"]
    assert product.flop / OpCosts(mi50).time(product).time_s <= mi50.peak_flops["fp32"] * (1 + 1e-9)


def test_newer_is_faster() -> None:
    times = [OpCosts(gpus.load(n)).time(PRODUCT).time_s for n in ("v100", "a100", "h100", "b200")]
    assert times == sorted(times, reverse=True)


def test_less_power_is_slower() -> None:
    assert OpCosts(gpus.load("a100-pcie-80gb")).time(PRODUCT).time_s > OpCosts(gpus.load("a100")).time(PRODUCT).time_s


def test_reductions_are_slower_than_elementwise() -> None:
    costs = OpCosts(gpus.load("a100"))
    times = [costs.time(stream(1e9, a)).time_s for a in (Access.STREAM, Access.TUNED, Access.NORM, Access.GATHER)]
    assert times == sorted(times)


def test_calibration_scales_and_overrides() -> None:
    gpu = gpus.load("a100")
    plain = OpCosts(gpu).time(PRODUCT).time_s
    scaled = OpCosts(gpu, Calibration(scale={Family.GEMM: 1.1}))
    assert scaled.time(PRODUCT).time_s == pytest.approx(1.1 * plain)
    calibrated = OpCosts(gpu, Calibration(measured_s={PRODUCT: 1e-3}, source="profile of this machine"))
    assert calibrated.time(PRODUCT).time_s == 1e-3
    assert calibrated.time(PRODUCT).spread == MEASURED


def test_nothing_to_do_takes_no_time() -> None:
    costs = OpCosts(gpus.load("a100"))
    assert costs.time(stream(0.0)).time_s == 0.0
    assert costs.time(gemm(1, 0, 16, 16, "bf16", 2, 2)).time_s == 0.0


#: products of a layer of 15,872 tokens as (k, n), and milliseconds that quantising both operands of all four takes with
#: NVFP4 on B300: forward, gradients by the input and by the weight.  TransformerEngine docs/examples/gemm_profiling:
#: times with dynamic quantisation (1.932, 2.189, 2.331 ms) less those without (1.254, 1.305, 1.205 ms)
TOKENS, SHAPES = 15872, ((4096, 12288), (4096, 4096), (4096, 16384), (16384, 4096))
CASTS_MS = (0.678, 0.884, 1.126)


def test_quantising_to_nvfp4_takes_as_long_as_published() -> None:
    costs, four = OpCosts(gpus.load("b300")), precision.load("nvfp4")

    def cast_ms(*elements: int) -> float:
        works = [work for n in elements for work in casts(n, "nvfp4", 2.0, four.compute_bytes)]
        return 1e3 * sum(costs.time(work).time_s for work in works)

    forward = sum(cast_ms(TOKENS * k, k * n) for k, n in SHAPES)
    by_input = sum(cast_ms(TOKENS * n, k * n) for k, n in SHAPES)
    by_weight = sum(cast_ms(TOKENS * k, TOKENS * n) for k, n in SHAPES)
    assert (forward, by_input, by_weight) == pytest.approx(CASTS_MS, rel=0.1)


@pytest.mark.parametrize("name", ["b200", "b300", "gb200", "gb300"])
def test_nvfp4_gains_over_fp8_what_was_measured(name: str) -> None:
    """1.9 times on B300, whatever its sheet says; less where filling a tile or memory counts."""
    costs = OpCosts(gpus.load(name))
    eight = costs.time(gemm(1, TOKENS, 16384, 4096, "fp8", 1, 2))
    four = costs.time(gemm(1, TOKENS, 16384, 4096, "nvfp4", 0.5625, 2))
    assert 1.85 < eight.time_s / four.time_s < 1.93
    assert four.assumed  # the curve is that of fp8


def test_a_gpu_without_fp4_multiplies_in_half_precision() -> None:
    costs = OpCosts(gpus.load("h100-sxm"))
    assert costs.peak("nvfp4") == costs.peak("bf16")
    assert costs.time(gemm(1, 4096, 4096, 4096, "nvfp4", 0.5625, 2)).time_s >= 2 * 4096**3 / costs.peak("bf16")
