"""Known patterns of direct GPU-to-GPU links."""

from __future__ import annotations

Direct = tuple[tuple[int, int, float], ...]

#: NVLink ports between the GPUs of a DGX-1 with V100: two quads, each fully connected, joined like
#: a cube.  Every GPU has 6 ports.  (NVIDIA/nccl#315: ``nvidia-smi topo -m`` of that machine.)
_CUBE_6 = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
#: The same with P100, which has 4 ports: one to every neighbour.
_CUBE_4 = dict.fromkeys(_CUBE_6, 1)


def cube_mesh(ports: int, port_Bps: float, num_gpus: int = 8) -> Direct:
    """The hybrid cube mesh of a DGX-1 whose GPUs have 4 or 6 ports, or what its first GPUs have of it.

    Examples
    --------
    >>> sum(rate for a, b, rate in cube_mesh(6, 25e9) if 0 in (a, b))
    150000000000.0
    >>> cube_mesh(6, 25e9, num_gpus=2)
    ((0, 1, 25000000000.0),)
    """
    counts = _CUBE_6 if ports == 6 else _CUBE_4
    return tuple((a, b, count * port_Bps) for (a, b), count in counts.items() if b < num_gpus)


def full_mesh(count: int, total_Bps: float) -> Direct:
    """Every pair by an equal share of a GPU's `total_Bps`."""
    share = total_Bps / max(1, count - 1)
    return tuple((a, b, share) for a in range(count) for b in range(a + 1, count))


def pairs(count: int, total_Bps: float) -> Direct:
    """Bridges between 0-1, 2-3 and so on, each with all ports of its two GPUs."""
    return tuple((a, a + 1, total_Bps) for a in range(0, count - 1, 2))
