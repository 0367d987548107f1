"""Every change of layout, carried out on real shards, gives the same tensor."""

from __future__ import annotations

import itertools

import pytest
import torch

from proteus.compiler.layout import Layout
from proteus.compiler.redistribute import Step, group_bytes, plan, wire_bytes
from proteus.mesh import Mesh
from proteus.placement import Partial, Placement, Replicate, Shard
from proteus.verify.moves import moved, shard

DIMS = ("a", "b")
PLACEMENTS: tuple[Placement, ...] = (Replicate(), Partial(), Shard("a"), Shard("b"))
#: even and uneven sizes, fewer rows than ranks among them
SIZES = [{"a": 8, "b": 8}, {"a": 5, "b": 7}, {"a": 3, "b": 2}]
MESHES = [Mesh((("x", 3),)), Mesh((("x", 2), ("y", 2))), Mesh((("x", 2), ("y", 3)))]


def layouts(mesh: Mesh) -> list[Layout]:
    return list(itertools.product(PLACEMENTS, repeat=len(mesh.axes)))


def laid_out(whole: torch.Tensor, layout: Layout, mesh: Mesh) -> list[torch.Tensor]:
    """Shards of `whole`; partial ones are random terms that add up to it."""
    generator = torch.Generator().manual_seed(1)
    coordinates = [tuple(c) for c in mesh.coordinates().tolist()]
    partial = [axis for axis, p in enumerate(layout) if isinstance(p, Partial)]
    keys = sorted({tuple(c[axis] for axis in partial) for c in coordinates})
    terms = {key: torch.rand(whole.shape, generator=generator, dtype=torch.float64) for key in keys[1:]}
    terms[keys[0]] = whole - sum(terms.values(), torch.zeros_like(whole))
    return [shard(terms[tuple(c[axis] for axis in partial)], DIMS, layout, mesh, c) for c in coordinates]


def carried_out(step: Step, shards: list[torch.Tensor], sizes: dict[str, int], mesh: Mesh) -> list[torch.Tensor]:
    """The shards of all ranks after a step."""
    coordinates = [tuple(c) for c in mesh.coordinates().tolist()]
    groups = [[rank] for rank in range(mesh.size)]
    if not step.is_local:
        groups = mesh.groups(tuple(mesh.names[axis] for axis in step.axes)).tolist()
    result = list(shards)
    for group in groups:
        after = moved(step, DIMS, sizes, mesh, [coordinates[r] for r in group], [shards[r] for r in group])
        for rank, data in zip(group, after, strict=True):
            result[rank] = data
    return result


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_every_pair_of_layouts(mesh: Mesh, sizes: dict[str, int]) -> None:
    whole = torch.rand(sizes["a"], sizes["b"], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for before, after in itertools.product(layouts(mesh), repeat=2):
        shards = laid_out(whole, before, mesh)
        steps = plan(DIMS, float(whole.numel()), before, after, mesh)
        layout = before
        for step in steps:
            assert step.before == layout
            layout = step.after
            shards = carried_out(step, shards, sizes, mesh)
        assert layout == after
        # a partial result is judged by its sum
        partial = tuple(axis for axis, p in enumerate(after) if isinstance(p, Partial))
        if partial:
            total = tuple(Replicate() if axis in partial else p for axis, p in enumerate(after))
            shards = carried_out(Step("all_reduce", partial, after, total, reduce="sum"), shards, sizes, mesh)
            after = total
        for rank, coordinate in enumerate(mesh.coordinates().tolist()):
            want = shard(whole, DIMS, after, mesh, tuple(coordinate))
            assert torch.allclose(shards[rank], want, rtol=0, atol=1e-12), (before, after, steps)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (Partial(), Replicate(), ["all_reduce"]),
        (Partial(), Shard("a"), ["reduce_scatter"]),
        (Shard("a"), Replicate(), ["all_gather"]),
        (Shard("a"), Shard("b"), ["all_to_all"]),
        (Replicate(), Shard("a"), ["slice"]),
        (Replicate(), Partial(), ["mask"]),
        (Partial("max"), Replicate(), ["all_reduce"]),
        (Partial("max"), Shard("a"), ["all_reduce", "slice"]),
        (Replicate(), Replicate(), []),
    ],
)
def test_one_collective_where_one_will_do(before: Placement, after: Placement, kinds: list[str]) -> None:
    steps = plan(DIMS, 64.0, (before,), (after,), Mesh((("x", 4),)))
    assert [step.kind for step in steps] == kinds


def test_axes_that_change_alike_go_together() -> None:
    mesh = Mesh((("x", 2), ("y", 2)))
    (step,) = plan(DIMS, 64.0, (Partial(), Partial()), (Replicate(), Replicate()), mesh)
    assert (step.kind, step.axes) == ("all_reduce", (0, 1))
    (step,) = plan(DIMS, 64.0, (Shard("a"), Shard("a")), (Replicate(), Replicate()), mesh)
    assert (step.kind, step.axes) == ("all_gather", (0, 1))


def test_slicing_first_is_cheaper_than_reducing_all() -> None:
    """P on x, whole on y, wanted cut by y: slice, then reduce half as much."""
    mesh = Mesh((("x", 2), ("y", 2)))
    steps = plan(DIMS, 64.0, (Partial(), Replicate()), (Replicate(), Shard("a")), mesh)
    assert [step.kind for step in steps] == ["slice", "all_reduce"]
    assert group_bytes(steps[1], 64.0, mesh) == 32.0


def test_the_cost_decides() -> None:
    """A model that makes all_to_all expensive changes the plan."""
    mesh = Mesh((("x", 4),))

    def cost(kind: str, axes: tuple[int, ...], size: float) -> float:
        return 1e9 if kind == "all_to_all" else wire_bytes("all_gather", size, 4)

    steps = plan(DIMS, 64.0, (Shard("a"),), (Shard("b"),), mesh, cost)
    assert [step.kind for step in steps] == ["all_gather", "slice"]


def test_sizes_by_the_convention_of_collectives() -> None:
    mesh = Mesh((("x", 2), ("y", 4)))
    gather = plan(DIMS, 64.0, (Shard("a"), Shard("b")), (Replicate(), Shard("b")), mesh)[0]
    assert group_bytes(gather, 64.0, mesh) == 16.0  # the gathered part of a y rank
    exchange = plan(DIMS, 64.0, (Replicate(), Shard("a")), (Replicate(), Shard("b")), mesh)[0]
    assert group_bytes(exchange, 64.0, mesh) == 16.0  # the send buffer of one rank


def test_axes_that_cut_several_dims_exchange_together() -> None:
    """Tokens cut by sample and by position go to experts cut by both, and come back, in one collective each."""
    dims, mesh = ("experts", "rows", "slots"), Mesh((("x", 2), ("y", 2)))
    tokens, experts = (Shard("rows"), Shard("slots")), (Shard("experts"), Shard("experts"))
    for before, after in ((tokens, experts), (experts, tokens)):
        (step,) = plan(dims, 64.0, before, after, mesh)
        assert (step.kind, step.axes) == ("all_to_all", (0, 1))
        assert group_bytes(step, 64.0, mesh) == 16.0


def test_an_exchange_comes_before_a_gather_that_makes_it_larger() -> None:
    dims, mesh = ("experts", "rows", "slots"), Mesh((("ep", 2), ("tp", 2)))
    steps = plan(dims, 64.0, (Shard("rows"), Shard("slots")), (Shard("experts"), Replicate()), mesh)
    assert [step.kind for step in steps] == ["all_to_all", "all_gather"]


def test_axes_that_swap_their_dims_do_not_exchange_at_once() -> None:
    """Each rank would need the shard of one other only: that is no all_to_all."""
    mesh = Mesh((("x", 2), ("y", 2)))
    steps = plan(DIMS, 64.0, (Shard("a"), Shard("b")), (Shard("b"), Shard("a")), mesh)
    assert len(steps) > 1 and all(len(step.axes) == 1 for step in steps if step.kind == "all_to_all")
