from __future__ import annotations

from itertools import product

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.strategy import StrategyTree
from proteus.strategy.axes import among_experts, degrees, folded, mesh_axes, named


def test_both_divisions_are_found_again_in_the_mesh() -> None:
    for dp, cp, tp, tq, ep, etp in product((1, 2, 4), (1, 2), (1, 2), (1, 2), (1, 2, 4, 8), (1, 2, 4)):
        wanted = {"dp": dp, "tp": tp * tq, "cp": cp, "ep": ep, "etp": etp}
        if ep * etp > dp * cp * tp * tq:
            assert folded(dp=dp, cp=cp, tp=tp, tq=tq, ep=ep, etp=etp) is None
            continue
        mesh = Mesh(mesh_axes(dp=dp, shard=None, cp=cp, tp=tp, tq=tq, ep=ep, etp=etp))
        assert mesh.size == dp * cp * tp * tq
        assert degrees(mesh) == wanted


def test_ranks_stand_as_in_megatron() -> None:
    """Tensor ranks are neighbours among all else, and those of the experts among the experts; then come experts."""
    mesh = Mesh(mesh_axes(dp=2, shard=None, cp=2, tp=4, tq=1, ep=4, etp=2))
    assert mesh == Mesh((("dp", 2), ("cp_ep", 2), ("tp_ep", 2), ("tp", 2)))
    assert mesh.groups(named(mesh.names, "tp"))[:2].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mesh.groups(among_experts(mesh.names, "tensor"))[:2].tolist() == [[0, 1], [2, 3]]
    assert mesh.groups(among_experts(mesh.names, "expert"))[:2].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dp": 3, "ep": 2}, "ep=2 does not fit 8 experts on dp=3 × cp=1 × tp=1 with etp=1; possible: 1"),
        ({"tp": 4, "dp": 2, "etp": 3}, "etp=3 does not fit 8 experts on dp=2 × cp=1 × tp=4; possible: 1, 2, 4, 8"),
        ({"tp": 4, "etp": 2, "ep": 4}, "ep=4 does not fit .* with etp=2; possible: 1, 2"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(settings: dict[str, int], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        StrategyTree(pt.models.load("mixtral-8x7b")).parallelize(global_batch=12, **settings)


def test_a_model_without_experts_takes_no_degree_of_them() -> None:
    with pytest.raises(StrategyError, match="etp=2 does not fit a model without experts; possible: 1"):
        StrategyTree(pt.models.load("tiny-llama")).parallelize(tp=2, etp=2)
