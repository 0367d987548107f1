"""Measured kernels, read into the arguments of the curves.

Reads ``gemm.csv``, ``attention.csv``, ``conv.csv`` and ``memops.csv`` of a
folder of published measurements; every row names its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from proteus.costs import curves
from proteus.costs.ops import GEMM_MAX_SPLIT
from proteus.hardware import Gpu, gpus

#: how the measurement files spell GPUs that the catalogue spells otherwise
SPELLINGS = {
    "A100 80GB": "a100-80gb",
    "A100 80GB SXM4": "a100-80gb",
    "V100 (DGX-1)": "v100-sxm2-16gb",
    "P100": "p100-sxm2-16gb",
    "TITAN X Pascal": "titan-x-pascal",
    "TITAN Xp": "titan-xp",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "Tesla P100-PCIE-16GB": "p100-pcie-16gb",
    "NVIDIA A100 PCIe 80GB": "a100-pcie-80gb",
}
DTYPES = {"bfloat16": "bf16", "fp16_in_fp32_acc": "fp16"}
BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


#: share of the sheet's bandwidth of an elementwise pass, and the least that is left of a measured time
STREAM_EFF, SHORTEST_SHARE = 0.85, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Rows of one family, chip, key and source.

    Parameters
    ----------
    args
        float64[rows, arguments]: what the curve takes before its parameters.
    time_s
        float64[rows]: measured.
    label
        str[rows]: the op, for memory-bound kernels.
    """

    family: str
    chip: str
    key: str
    source: str
    args: np.ndarray
    time_s: np.ndarray
    label: np.ndarray


def _gpu(name: str) -> Gpu | None:
    return gpus.find(SPELLINGS.get(name, name))


def _grouped(family: str, frame: pd.DataFrame) -> list[Samples]:
    """`frame` has the columns chip, key, source, time_s, args and label."""
    groups = []
    for (chip, key, source), rows in frame.groupby(["chip", "key", "source"]):
        args = np.array(rows["args"].tolist(), dtype=np.float64)
        groups.append(
            Samples(
                family=family, chip=chip, key=key, source=source, args=args,
                time_s=rows["time_s"].to_numpy(float), label=rows["label"].to_numpy(str),
            )
        )  # fmt: skip
    return groups


def _row(gpu: Gpu, key: str, source: str, time_s: float, args: list[float], label: str = "") -> dict[str, object]:
    return {"chip": gpu.chip.name, "key": key, "source": source, "time_s": time_s, "args": args, "label": label}


def _peak(family: str, gpu: Gpu, dtype: str) -> float:
    peaks = gpu.peak_flops
    if dtype in ("bf16", "fp16"):
        return peaks.get("bf16") or peaks.get("fp16") or peaks["fp32"]
    if dtype == "fp32":
        return peaks["fp32"] * curves.fp32_clock(family, gpu.chip, gpu.tdp_w or 0.0, peaks["fp32"])
    return peaks.get(dtype) or peaks["fp32"]


def _sheet(family: str, gpu: Gpu, dtype: str) -> list[float]:
    return [_peak(family, gpu, dtype), gpu.memory_Bps, float(gpu.num_sms or 1)]


def gemm(folder: Path) -> list[Samples]:
    frame = pd.read_csv(folder / "gemm.csv", low_memory=False)
    rows = []
    for row in frame.itertuples():
        gpu = _gpu(row.gpu)
        if gpu is None:
            continue
        dtype = DTYPES.get(row.dtype, row.dtype)
        size = BYTES[dtype]
        out = 2.0 if dtype == "fp8" else size
        if "accumulate=True" in row.notes:
            out = 8.0  # reads and writes an fp32 sum
        batch, m, n, k = float(row.b), float(row.m), float(row.n), float(row.k)
        if row.gpu == "P100" and dtype == "fp16":
            continue  # stored as fp16, multiplied as fp32
        moved = batch * ((m * k + k * n) * size + m * n * out)
        time_s = row.time_us * 1e-6
        if dtype == "fp8":
            # the measured op first quantises its input: reads bf16, writes fp8, in a kernel of its own
            time_s = max(time_s - 3.0 * m * k / (gpu.memory_Bps * STREAM_EFF), SHORTEST_SHARE * time_s)
        rows.append(
            _row(
                gpu,
                dtype,
                row.source,
                time_s,
                [batch, m, n, k, moved, *_sheet("gemm", gpu, dtype), GEMM_MAX_SPLIT],
                row.op,
            )
        )
    return _grouped("gemm", pd.DataFrame(rows))


def attention(folder: Path) -> list[Samples]:
    """Forward of serving libraries; forward and backward of flash attention."""
    frame = pd.read_csv(folder / "attention.csv")
    frame = frame[frame.op == "attention_prefill"]
    rows = []
    for row in frame.itertuples():
        gpu = _gpu(row.gpu)
        if gpu is None:
            continue
        dim = float(row.head_dim)
        args = [row.batch, row.heads, row.kv_heads, row.seq_q, row.seq_kv, dim, dim, 1.0, 0.0, 2.0]
        rows.append(
            _row(gpu, "serving", row.source, row.time_us * 1e-6, [*map(float, args), *_sheet("attention", gpu, "bf16")])
        )
    rows += _published_attention(folder)
    return _grouped("attention", pd.DataFrame(rows))


FLASH = {
    "FlashAttention-1": "flash1",
    "FlashAttention-2": "flash2",
    "flash-attn via TransformerEngine": "flash2",
}
#: tables that count the whole square of a causal kernel as work: half of it would be as slow as no other table has it
WHOLE_SQUARE = "flash-attn via TransformerEngine"
DIRECTIONS = {"fwd": (0.0, 2.0), "bwd": (1.0, 5.0), "fwd+bwd": (2.0, 7.0)}


def _published_attention(folder: Path) -> list[dict[str, object]]:
    """Rates of training kernels, printed as TFLOPS of 4 (bwd 10) b h s^2 d, half of it if causal."""
    hand_read = pd.read_csv(Path(__file__).parent / "attention.csv")
    published = pd.read_csv(folder / "attention.csv")
    whole = published.sw == WHOLE_SQUARE
    published = published.assign(
        variant=published.sw.map(FLASH),
        seq=published.seq_q,
        causal=((published.causal == "True") | whole).astype(int),
        tflops=published.tflops.where(~whole, published.tflops / 2.0),
    )[published.sw.isin(FLASH) & ~(whole & (published.head_dim != 128))]  # values are narrower than its longer keys
    rows_read = []
    rows = pd.concat([hand_read, published])
    rows = rows.assign(kv_heads=rows.kv_heads.fillna(rows.heads), seq_kv=rows.seq_kv.fillna(rows.seq))
    for row in rows.itertuples():
        gpu = _gpu(row.gpu)
        assert gpu is not None, row.gpu
        direction, flop_factor = DIRECTIONS[row.dir]
        batch, seq, heads, dim = float(row.batch), float(row.seq), float(row.heads), float(row.head_dim)
        kv_heads, seq_kv = float(row.kv_heads), float(row.seq_kv)
        flop = 2.0 * flop_factor * batch * heads * seq * seq_kv * dim * (0.5 if row.causal else 1.0)
        args = [
            batch,
            heads,
            kv_heads,
            seq,
            seq_kv,
            dim,
            dim,
            float(row.causal),
            direction,
            2.0,
            *_sheet("attention", gpu, "bf16"),
        ]
        rows_read.append(_row(gpu, row.variant, row.source, flop / (row.tflops * 1e12), args))
    return rows_read


def conv(folder: Path) -> list[Samples]:
    frame = pd.read_csv(folder / "conv.csv")
    direction = {"fwd": 0.0, "bwd_data": 1.0, "bwd_weight": 2.0}
    rows = []
    for row in frame.itertuples():
        gpu = _gpu(row.gpu)
        if gpu is None:
            continue
        pad = [float(x) for x in str(row.pad).split("x")] * 2
        stride = [float(x) for x in str(row.stride).split("x")] * 2
        dtype = DTYPES.get(row.dtype, row.dtype)
        if row.gpu == "P100" and dtype == "fp16":
            continue
        if row.dir == "bwd_data" and row.c_in < 4:
            continue  # images need no gradient, and no network asks for it
        shape = [row.batch, row.c_in, row.h_in, row.w_in, row.c_out, row.kh, row.kw, *stride[:2], *pad[:2], 1.0]
        peak, memory_Bps, sms = _sheet("conv", gpu, dtype)
        memory_Bps *= curves.find("memory", "stream", gpu).params[0]
        sheet = [peak, memory_Bps, sms]
        args = [*map(float, shape), direction[row.dir], float(dtype != "fp32"), BYTES[dtype], *sheet]
        rows.append(_row(gpu, dtype, row.source, row.time_us * 1e-6, args, row.dir))
    return _grouped("conv", pd.DataFrame(rows))


#: access pattern of the measured memory-bound ops; silu_mul of vLLM gives every row to one block, as a softmax does
ACCESS = {
    "ln_fwd": "norm", "rmsnorm_fwd": "norm", "softmax_fwd": "softmax", "silu_mul_fwd": "softmax",
    "embedding_lookup_fwd": "gather",
}  # fmt: skip


def memory(folder: Path) -> list[Samples]:
    frame = pd.read_csv(folder / "memops.csv")
    frame = frame[frame.time_us.notna()]
    rows = []
    for row in frame.itertuples():
        gpu = _gpu(row.gpu)
        if gpu is None:
            continue
        name = row.op
        moved = float(row.bytes_moved)
        if name == "pow_fwd":
            moved *= 1.5  # the exponent is a second tensor: three passes
        args = [moved, *curves.access(ACCESS.get(name, "stream")), gpu.memory_Bps, float(gpu.num_sms or 1)]
        rows.append(_row(gpu, "stream", row.source, row.time_us * 1e-6, args, name))
    return _grouped("memory", pd.DataFrame(rows))
