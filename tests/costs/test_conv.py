"""Convolutions: which algorithm is the fastest, and what makes each of them slow."""

from __future__ import annotations

from proteus.costs import curves
from proteus.costs.conv import conv_time_s
from proteus.hardware import load
from proteus.hardware.curves import ConvCurve

#: V100 SXM2: fp32 and tensor cores
SHEETS = {"fp32": (15.7e12, 4.0), "half": (125e12, 2.0)}
CURVE, TENSOR = (ConvCurve(*curves.find("conv", key, load("v100-sxm2-16gb")).params) for key in SHEETS)


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


def test_the_kernel_in_one_piece_computes_whole_patches() -> None:
    """8 x 16 points of one image: 7 x 7 images cost what 8 x 16 do, more images do not help."""
    # nothing but Winograd in one kernel, and so slow that only its products count
    one_kernel = CURVE._replace(transform=1e6, fused=10.0, eff=CURVE.eff / 1000.0)
    whole = conv_time_s(
        *map(float, (64, 256, 8, 16, 512, 3, 3, 1, 1, 1, 1, 1, 0)),
        0.0,
        4.0,
        SHEETS["fp32"][0],
        900e9,
        80.0,
        *one_kernel,
    )
    assert 0.99 < time_s(256, 7, 512, 3, batch=64, curve=one_kernel) / whole < 1.01


def test_a_few_channels_cost_the_strided_gradient_a_whole_tile_of_them() -> None:
    assert time_s(32, 56, 256, 5, 2, direction=1) > 0.9 * time_s(128, 56, 256, 5, 2, direction=1)


def test_the_gradient_of_a_strided_1x1_kernel_writes_the_points_that_it_skips() -> None:
    written = CURVE._replace(scatter=CURVE.scatter + 1.0)
    more_s = time_s(256, 56, 128, 1, 2, direction=1, curve=written) - time_s(256, 56, 128, 1, 2, direction=1)
    assert abs(more_s / (4.0 * 16 * 56 * 56 * 256 / (900e9 * CURVE.memory_eff)) - 1.0) < 1e-6


def test_weight_gradients_of_short_batches_fill_their_tiles_in_vain() -> None:
    short, long = (time_s(512, 7, 2048, 1, batch=batch, direction=2) for batch in (4, 64))
    assert long / short < 0.75 * 16.0


def test_tensor_cores_pad_three_channels() -> None:
    assert time_s(3, 224, 64, 7, 2, dtype="half") > 0.9 * time_s(8, 224, 64, 7, 2, dtype="half")
    assert time_s(8, 224, 64, 7, 2, dtype="half") < time_s(7, 224, 64, 7, 2, dtype="half")
