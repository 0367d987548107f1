"""What PyTorch itself sends: every collective that a program issues, its kind and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from proteus.compiler.redistribute import wire_bytes

#: PyTorch's op → (kind, whether its size is that of the output), functional and in place
_KINDS = {
    "_c10d_functional::all_reduce": ("all_reduce", False),
    "_c10d_functional::all_reduce_": ("all_reduce", False),
    "_c10d_functional::all_gather_into_tensor": ("all_gather", True),
    "_c10d_functional::reduce_scatter_tensor": ("reduce_scatter", False),
    "_c10d_functional::all_to_all_single": ("all_to_all", False),
    "_dtensor::shard_dim_alltoall": ("all_to_all", False),
    "c10d::allreduce_": ("all_reduce", False),
    "c10d::_allgather_base_": ("all_gather", True),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", False),
    "c10d::alltoall_base_": ("all_to_all", False),
}


@contextmanager
def fake_world(size: int) -> Iterator[None]:
    """A process group of `size` ranks in one process, rank 0 being this one; nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


class Traffic(TorchDispatchMode):
    """Counts collectives by (kind, bytes), sizes by the convention of NCCL.

    `wire_bytes` is what one rank sends by the ring algorithms (functional collectives only).
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[tuple[str, int]] = Counter()
        self.wire_bytes = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it turns into local ops and collectives first
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name in _KINDS:
            kind, by_output = _KINDS[name]
            in_place = name.startswith("c10d::_")  # (output, input, ...)
            if in_place:
                tensor = args[0] if by_output else args[1]
            else:
                tensor = result if by_output else args[0]
            tensor = tensor[0] if isinstance(tensor, (list, tuple)) else tensor
            size = tensor.numel() * tensor.element_size()
            self.sent[(kind, size)] += 1
            if isinstance(args[-1], str):
                self.wire_bytes += wire_bytes(kind, size, _resolve_process_group(args[-1]).size())
        elif "c10d" in name and not name.endswith(("wait_tensor", "_wrap_tensor_autograd")):
            raise AssertionError(f"a collective that is not counted: {name}")
        return result
