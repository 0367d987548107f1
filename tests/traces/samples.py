"""Small traces with known answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x4_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float> >(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

Event = dict[str, Any]


def kernel(ts: float, dur: float, name: str = GEMM, *, stream: int = 7, device: int = 0, **args: Any) -> Event:
    where = {"device": device, "stream": stream}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur,
            "args": {**where, **args}}  # fmt: skip


def launch(ts: float, correlation: int, dur: float = 1.0) -> Event:
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": ts, "dur": dur,
            "args": {"correlation": correlation}}  # fmt: skip


def op(ts: float, dur: float, name: str, category: str = "cpu_op") -> Event:
    return {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": dur, "args": {}}


def step(number: int, ts: float, dur: float) -> Event:
    return op(ts, dur, f"ProfilerStep#{number}", "user_annotation")


def copy(ts: float, dur: float, size: int = 1024) -> Event:
    return {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": ts,
            "dur": dur, "args": {"device": 0, "stream": 7, "bytes": size}}  # fmt: skip


def document(events: list[Event], *, rank: int | None = None, world_size: int | None = None) -> dict[str, Any]:
    info = {"backend": "nccl", "rank": rank, "world_size": world_size}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events, "traceName": "trace.json"}


def write(path: Path, events: list[Event], **info: int) -> Path:
    path.write_text(json.dumps(document(events, **info)), encoding="utf-8")
    return path
