"""Patterns of direct links."""

from __future__ import annotations

import pytest

from proteus.cluster.wiring import cube_mesh, full_mesh, pairs


@pytest.mark.parametrize("ports", [4, 6])
def test_cube_mesh_uses_every_port_once(ports: int) -> None:
    links = cube_mesh(ports, 1.0)
    for gpu in range(8):
        assert sum(rate for a, b, rate in links if gpu in (a, b)) == ports
    # Every GPU has four neighbours, and any other is one further step away.
    near = {g: {a + b - g for a, b, _ in links if g in (a, b)} for g in range(8)}
    assert all(len(peers) == 4 for peers in near.values())
    assert all(near[a] & near[b] or b in near[a] for a in range(8) for b in range(8) if a != b)


def test_full_mesh_shares_the_ports() -> None:
    links = full_mesh(8, 448e9)
    assert len(links) == 28 and {rate for *_, rate in links} == {64e9}


def test_pairs_leave_an_odd_gpu_alone() -> None:
    assert pairs(5, 7.0) == ((0, 1, 7.0), (2, 3, 7.0))
