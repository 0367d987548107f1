"""Convolutions: which algorithm is the fastest, and what makes each of them slow."""

from __future__ import annotations

from proteus.costs import curves
from proteus.costs.conv import ConvCurve, conv_time_s

#: V100 SXM2: fp32 and tensor cores
SHEETS = {"fp32": (15.7e12, 4.0), "half": (125e12, 2.0)}
CURVE, TENSOR = (ConvCurve(*curves.find("conv", key, "v100-sxm2-16gb", "volta").params) for key in SHEETS)


def time_s(
    c_in: int, size: int, c_out: int, kernel: int, stride: int = 1, *,
    batch: int = 16, direction: int = 0, dtype: str = "fp32", curve: ConvCurve | None = None,
) -> float:  # fmt: skip
    peak, element_bytes = SHEETS[dtype]
    pad = kernel // 2
    shape = (batch, c_in, size, size, c_out, kernel, kernel, stride, stride, pad, pad, 1, direction)
    return conv_time_s(
        *map(float, shape),
        float(dtype == "half"),
        element_bytes,
        peak,
        900e9,
        80.0,
        *(curve or (TENSOR if dtype == "half" else CURVE)),
    )


def test_winograd_beats_the_product_of_patches_beyond_the_peak() -> None:
    flop = 2.0 * 16 * 56**2 * 128 * 256 * 9
    assert flop / time_s(128, 56, 256, 3) > SHEETS["fp32"][0]
    assert flop / time_s(128, 56, 256, 3, dtype="half") < SHEETS["half"][0]


def test_winograd_in_one_kernel_suits_few_channels_and_through_memory_suits_many() -> None:
    one_kernel, memory = CURVE._replace(transform=1e6), CURVE._replace(fused=1e-6)
    assert time_s(64, 56, 64, 3, curve=one_kernel) < time_s(64, 56, 64, 3, curve=memory)
    assert time_s(512, 32, 512, 3, batch=64, curve=one_kernel) > time_s(512, 32, 512, 3, batch=64, curve=memory)


def test_a_tile_of_four_points_is_computed_whole() -> None:
    memory = CURVE._replace(fused=1e-6)
    assert time_s(512, 9, 512, 3, curve=memory) > 1.5 * time_s(512, 8, 512, 3, curve=memory)


def test_the_gradient_of_a_strided_kernel_costs_more_than_its_forward() -> None:
    assert time_s(256, 28, 512, 1, 2, direction=1) > 1.5 * time_s(256, 28, 512, 1, 2)


def test_tensor_cores_pad_three_channels() -> None:
    assert time_s(3, 224, 64, 7, 2, dtype="half") > 0.9 * time_s(8, 224, 64, 7, 2, dtype="half")
    assert time_s(8, 224, 64, 7, 2, dtype="half") < time_s(7, 224, 64, 7, 2, dtype="half")
