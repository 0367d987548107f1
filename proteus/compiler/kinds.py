"""What a task of the graph is for, in the order of the timeline's legend."""

from __future__ import annotations

from enum import IntEnum


class SpanKind(IntEnum):
    """What a span is, in the order of the timeline's legend."""

    FORWARD = 0
    BACKWARD = 1  # input and weight gradients together, or the input part alone
    WEIGHT_GRAD = 2
    RECOMPUTE = 3
    OPTIMIZER = 4
    TENSOR_COMM = 5
    CONTEXT_COMM = 6
    EXPERT_COMM = 7
    PIPELINE_COMM = 8
    GRADIENT_COMM = 9
    PARAMETER_COMM = 10  # ZeRO / FSDP parameter gathering
    COPY = 11  # host to device or back
    HOST = 12

    @property
    def is_comm(self) -> bool:
        return SpanKind.TENSOR_COMM <= self <= SpanKind.PARAMETER_COMM
