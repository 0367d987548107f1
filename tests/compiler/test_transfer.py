"""What passes between stages: every receiver gets what it needs, once."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from proteus.compiler.layout import Layout, local_chunk
from proteus.compiler.transfer import Handed, pieces
from proteus.mesh import Mesh
from proteus.placement import Replicate, Shard

SHAPE = (4, 6)
BEFORE, AFTER = ("batch", "hidden"), ("batch", "features")
R = Replicate()
MESHES = [Mesh((("x", 1),)), Mesh((("x", 2),)), Mesh((("x", 3),)), Mesh((("x", 2), ("y", 2)))]


def handed(before: Layout, after: Layout) -> Handed:
    return Handed(0, SHAPE, BEFORE, AFTER, before, after, 2.0)


def layouts(mesh: Mesh, dims: tuple[str, str]) -> list[Layout]:
    return list(itertools.product([R, Shard(dims[0]), Shard(dims[1])], repeat=len(mesh.axes)))


def box_mask(dims: tuple[str, ...], layout: Layout, mesh: Mesh, rank: int) -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    coordinate = tuple(mesh.coordinates()[rank].tolist())
    cuts = [local_chunk(d, n, layout, mesh, coordinate) for d, n in zip(dims, SHAPE, strict=True)]
    mask[tuple(slice(a, a + n) for a, n in cuts)] = True
    return mask


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(("one", "two"), list(itertools.product(MESHES, repeat=2)), ids=repr)
def test_every_element_arrives_once(one: Mesh, two: Mesh, forward: bool) -> None:
    for before, after in itertools.product(layouts(one, BEFORE), layouts(two, AFTER)):
        tensor = handed(before, after)
        cut_pieces = pieces(tensor, one, two, True) if forward else pieces(tensor, two, one, False)
        source_mesh, target_mesh = (one, two) if forward else (two, one)
        have, want = ((BEFORE, before), (AFTER, after)) if forward else ((AFTER, after), (BEFORE, before))
        arrived = np.zeros((target_mesh.size, *SHAPE), int)
        for piece in cut_pieces:
            box = tuple(slice(a, a + n) for a, n in piece.box)
            arrived[piece.target][box] += 1
            assert box_mask(have[0], have[1], source_mesh, piece.source)[box].all(), "sent by a rank that has it"
        for rank in range(target_mesh.size):
            assert (arrived[rank] == box_mask(want[0], want[1], target_mesh, rank)).all()


def test_holders_take_turns() -> None:
    """Two ranks hold the tensor, four need it: each sends twice."""
    cut_pieces = pieces(handed((R,), (R, R)), Mesh((("x", 2),)), Mesh((("x", 2), ("y", 2))), True)
    assert Counter(piece.source for piece in cut_pieces) == {0: 2, 1: 2}
