"""Collectives by kind and bytes equal those that PyTorch issues for the same plan.

One process with PyTorch's fake process group; what differs on purpose is
listed in docs/differences.md.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import proteus as pt
from proteus import placement
from proteus.compiler.chain import chain
from proteus.compiler.compile import compile_tree
from proteus.compiler.layout import local_chunk
from proteus.compiler.program import BlockProgram, Instruction, Move, ProgramPhase
from proteus.compiler.redistribute import group_bytes, plan, wire_bytes
from proteus.mesh import Mesh
from proteus.strategy import StrategyTree
from proteus.verify.verification import count_collectives
from tests.verify.torch_traffic import Traffic, fake_world

BATCH, SEQ, HIDDEN, HEADS, FFN = 2, 8, 64, 8, 128
MODEL = pt.models.load("tiny-llama", layers=2, seq=SEQ, heads=HEADS, kv_heads=HEADS)
CLUSTER = pt.clusters.load("dgx-a100")
FP32 = 4.0


def sent(instructions: Iterable[Instruction]) -> Counter[tuple[str, int]]:
    moves = [i for i in instructions if isinstance(i, Move) and not i.step.is_local]
    return Counter((move.step.kind, int(move.size_bytes)) for move in moves)


def layer_program(tree: StrategyTree) -> BlockProgram:
    (chunk,) = chain(tree, element_bytes=FP32, fused_attention=True)
    return next(link.program for link in chunk.links if link.run.block.name == "layers")


class Layer(nn.Module):
    """The layer of `MODEL` as a PyTorch user writes it, its fused products as one linear layer each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate_up, self.fc2 = nn.Linear(HIDDEN, 2 * FFN, bias=False), nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2).chunk(3, dim=1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.proj(attended)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.fc2(nn.functional.silu(gate) * up)


def test_tensor_parallel_layer() -> None:
    """DTensor's Colwise and Rowwise: two all_reduces forward, two backward."""
    tree = StrategyTree(MODEL).parallelize(tp=2, micro_batch=BATCH)
    program = layer_program(tree)
    with fake_world(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        styles = {"qkv": ColwiseParallel(), "proj": RowwiseParallel()}
        styles |= {"gate_up": ColwiseParallel(), "fc2": RowwiseParallel()}
        layer = parallelize_module(Layer(), mesh, styles)
        x = torch.rand(BATCH, SEQ, HIDDEN, requires_grad=True)
        with Traffic() as forward:
            y = layer(x)
        with Traffic() as backward:
            y.sum().backward()
    assert sent(program.forward) == forward.sent == {("all_reduce", BATCH * SEQ * HIDDEN * 4): 2}
    assert sent(program.backward) == backward.sent == {("all_reduce", BATCH * SEQ * HIDDEN * 4): 2}


def test_sequence_parallel_layer() -> None:
    """The same but for what Megatron-LM gathers again in the backward, and DTensor keeps."""
    tree = StrategyTree(MODEL).parallelize(tp=2, micro_batch=BATCH, sequence_parallel=True)
    program = layer_program(tree)
    with fake_world(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        styles = {
            "norm1": SequenceParallel(use_local_output=True),
            "norm2": SequenceParallel(use_local_output=True),
            "qkv": ColwiseParallel(input_layouts=Shard(1)),
            "proj": RowwiseParallel(output_layouts=Shard(1)),
            "gate_up": ColwiseParallel(input_layouts=Shard(1)),
            "fc2": RowwiseParallel(output_layouts=Shard(1)),
        }
        layer = parallelize_module(Layer(), mesh, styles)
        x = torch.rand(BATCH, SEQ // 2, HIDDEN, requires_grad=True)
        with Traffic() as forward:
            y = layer(x)
        with Traffic() as backward:
            y.sum().backward()
    size = BATCH * SEQ * HIDDEN * 4
    assert sent(program.forward) == forward.sent == {("all_gather", size): 2, ("reduce_scatter", size): 2}
    again = [i for i in program.backward if i.phase is ProgramPhase.RECOMPUTE]
    others = [i for i in program.backward if i.phase is not ProgramPhase.RECOMPUTE]
    assert sent(others) == backward.sent == {("all_gather", size): 2, ("reduce_scatter", size): 2}
    assert sent(again) == {("all_gather", size): 2}


class Parameters(nn.Module):
    """A module with the parameters of one copy of a block, each used once."""

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        super().__init__()
        # PyTorch's layers hold matrices: what comes before the last dim is one dim
        matrices = [(math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else shape for shape in shapes]
        self.weights = nn.ParameterList(nn.Parameter(torch.rand(shape)) for shape in matrices)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * sum(weight.sum() for weight in self.weights)


def torch_model() -> nn.Sequential:
    copies = [block for block in MODEL.blocks for _ in range(block.count)]
    return nn.Sequential(*(Parameters([block.shape(p.name) for p in block.parameters()]) for block in copies))


def by_kind(traffic: Counter[tuple[str, int]]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for (kind, size), count in traffic.items():
        old = found.get(kind, (0, 0.0))
        found[kind] = (old[0] + count, old[1] + count * size)
    return found


def proteus_counts(tree: StrategyTree) -> dict[str, tuple[int, float]]:
    found = count_collectives(compile_tree(tree, CLUSTER, fold=False))
    return {kind: (count.count, count.bytes) for kind, count in found.items()}


def fsdp_traffic(micro_batches: int, *, reshard: bool) -> dict[str, tuple[int, float]]:
    with fake_world(4), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about hooks, which a module of parameters alone cannot help
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
        model = torch_model()
        for module in model:
            fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh)
        with Traffic() as traffic:
            for _ in range(micro_batches):
                model(torch.rand(2, requires_grad=True)).sum().backward()
    return by_kind(traffic.sent)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_fully_sharded(micro_batches: int) -> None:
    """FSDP2 on every block: gathered before its forward and its backward, reduced after."""
    tree = StrategyTree(MODEL).parallelize(dp=4, zero=3, precision="fp32", global_batch=4 * micro_batches)
    assert proteus_counts(tree) == fsdp_traffic(micro_batches, reshard=True)


def test_fully_sharded_kept_whole() -> None:
    """reshard_after_forward=False is ZeRO-2, whose parameters are gathered after their update, equal blocks at once."""
    ours = proteus_counts(StrategyTree(MODEL).parallelize(dp=4, zero=2, precision="fp32", global_batch=4))
    theirs = fsdp_traffic(1, reshard=False)
    assert ours["reduce_scatter"] == theirs["reduce_scatter"]
    assert ours["all_gather"][1] == theirs["all_gather"][1]
    assert (ours["all_gather"][0], theirs["all_gather"][0]) == (len(MODEL.blocks), MODEL.num_blocks)


@pytest.mark.parametrize("cap_bytes", [1e9, 1.0])
def test_data_parallel(cap_bytes: float) -> None:
    """DDP's buckets hold every gradient once; very small ones hold one parameter there and one block here."""
    buckets: list[int] = []

    def hook(state, bucket):  # PyTorch refuses annotations that are text
        buckets.append(bucket.buffer().numel() * bucket.buffer().element_size())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    with fake_world(4):
        model = nn.parallel.DistributedDataParallel(torch_model(), bucket_cap_mb=cap_bytes / 2**20)
        model.register_comm_hook(None, hook)
        for _ in range(2):  # DDP lays its buckets out in the order of the first backward
            buckets.clear()
            model(torch.rand(2, requires_grad=True)).sum().backward()
    tree = StrategyTree(MODEL).parallelize(dp=4, precision="fp32", global_batch=4, bucket_bytes=cap_bytes)
    count, size = proteus_counts(tree)["all_reduce"]
    assert size == sum(buckets) == MODEL.num_params * 4
    if cap_bytes > size:
        assert count == len(buckets) == 1
    else:
        assert (count, len(buckets)) == (MODEL.num_blocks, len(MODEL.parameter_paths()))


_PLACEMENTS = {
    placement.Replicate(): Replicate(),
    placement.Partial(): Partial(),
    placement.Shard("a"): Shard(0),
    placement.Shard("b"): Shard(1),
}


@pytest.mark.parametrize(
    ("before", "after"),
    # redistributing to Partial is for DTensor's own use
    [(a, b) for a, b in itertools.product(_PLACEMENTS, repeat=2) if a != b and b != placement.Partial()],
    ids=repr,
)
def test_redistribute_on_one_axis(before: placement.Placement, after: placement.Placement) -> None:
    """The same collective as DTensor's, of the same size, for every change on one axis."""
    mesh, whole = Mesh((("x", 4),)), 8 * 12
    steps = plan(("a", "b"), whole * FP32, (before,), (after,), mesh)
    ours = Counter((s.kind, int(group_bytes(s, whole * FP32, mesh))) for s in steps if not s.is_local)
    with fake_world(4):
        device_mesh = init_device_mesh("cpu", (4,))
        shape = {"S(a)": (2, 12), "S(b)": (8, 3)}.get(repr(before), (8, 12))
        tensor = DTensor.from_local(torch.rand(shape), device_mesh, [_PLACEMENTS[before]])
        with Traffic() as traffic:
            tensor.redistribute(device_mesh, [_PLACEMENTS[after]])
    if ours == {("all_to_all", whole * 4 // 4): 1}:  # on a CPU, whose gloo lacks it, DTensor gathers and slices
        assert traffic.sent == {("all_gather", whole * 4): 1}
    else:
        assert ours == traffic.sent


def test_redistribute_on_two_axes_sends_no_more() -> None:
    """DTensor changes one axis after the other; the cheapest sequence never sends more, and less now and then."""
    mesh, sizes, whole = Mesh((("x", 2), ("y", 2))), {"a": 8, "b": 12}, 8 * 12 * FP32
    fewer = 0
    with fake_world(4):
        device_mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
        layouts = list(itertools.product(_PLACEMENTS, repeat=2))
        for before, after in itertools.product(layouts, repeat=2):
            if placement.Partial() in after:
                continue
            ours = sum(
                wire_bytes(step.kind, group_bytes(step, whole, mesh), 2 ** len(step.axes))
                for step in plan(("a", "b"), whole, before, after, mesh)
            )
            shape = [local_chunk(dim, size, before, mesh, (0, 0))[1] for dim, size in sizes.items()]
            tensor = DTensor.from_local(torch.rand(shape), device_mesh, [_PLACEMENTS[p] for p in before])
            with Traffic() as traffic:
                tensor.redistribute(device_mesh, [_PLACEMENTS[p] for p in after])
            assert ours <= traffic.wire_bytes, (before, after)
            fewer += ours < traffic.wire_bytes
    assert fewer
