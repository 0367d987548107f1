"""Small made-up results for the views: a 1F1B pipeline whose devices talk after every op."""

from __future__ import annotations

import numpy as np

from proteus.result.spans import Lane, SpanKind, Spans

STREAMS = ("compute", "tensor", "pipeline", "gradient")


def pipeline_spans(*, devices: int = 4, micro_batches: int = 8, layers: int = 4, multiplicity: int = 1) -> Spans:
    """Spans of `devices` stages; every op of a micro-batch is `layers` spans of 1 ms, with tensor communication."""
    rows: list[
        tuple[int, float, float, int, int, int, int, int]
    ] = []  # lane, start, duration, kind, node, name, mb, pattern
    op_s, comm_s = 1e-3, 2.5e-4
    for device in range(devices):
        lane = device * len(STREAMS)
        now = device * layers * op_s
        warmup = min(devices - device, micro_batches)
        order = [("F", m) for m in range(warmup)]
        for m in range(micro_batches):
            order.append(("B", m))
            if m + warmup < micro_batches:
                order.append(("F", m + warmup))
        for action, micro in order:
            kind = SpanKind.FORWARD if action == "F" else SpanKind.BACKWARD
            length = op_s if action == "F" else 2 * op_s
            for layer in range(layers):
                node = 2 + layer
                rows.append((lane, now, length, kind, node, 0 if action == "F" else 1, micro, -1))
                rows.append((lane + 1, now + length - comm_s, comm_s, SpanKind.TENSOR_COMM, node, 2, micro, device))
                now += length
            rows.append((lane + 2, now, comm_s, SpanKind.PIPELINE_COMM, 1, 3, micro, devices + device))
            now += comm_s
        rows.append((lane + 3, now, 8 * op_s, SpanKind.GRADIENT_COMM, 1, 4, -1, 2 * devices + device))
        rows.append((lane, now + 8 * op_s, op_s, SpanKind.OPTIMIZER, 0, 5, -1, -1))
    table = np.array(rows)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    num_lanes = devices * len(STREAMS)
    return Spans(
        start_s=table[:, 1],
        duration_s=table[:, 2],
        kind=table[:, 3].astype("u1"),
        node=table[:, 4].astype("i4"),
        name_id=table[:, 5].astype("i4"),
        micro_batch=table[:, 6].astype("i4"),
        pattern=table[:, 7].astype("i4"),
        lane_ptr=np.searchsorted(table[:, 0], np.arange(num_lanes + 1)).astype("i8"),
        lanes=tuple(
            Lane(device=d, stream=s, label=f"GPU {d}", multiplicity=multiplicity)
            for d in range(devices)
            for s in STREAMS
        ),
        names=("layer forward", "layer backward", "all_reduce", "send", "all_reduce gradients", "adam"),
        pattern_ptr=np.arange(3 * devices + 1, dtype="i4"),
        pattern_link=np.arange(3 * devices, dtype="i4"),
        task=np.arange(len(table), dtype="i4"),
    )


def makespan(spans: Spans) -> float:
    return float((spans.start_s + spans.duration_s).max())
