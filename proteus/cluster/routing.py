"""Paths inside one host, as tables of link numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from proteus.cluster.host import Host
from proteus.cluster.kinds import LinkKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostRoutes:
    """Local link numbers, padded with -1.

    Parameters
    ----------
    between
        int32[gpus, gpus, hops]: from GPU to GPU.
    out, into
        int32[gpus, hops]: from a GPU to the network through its NIC, and back; all -1 without a NIC.
    to_memory, from_memory
        int32[gpus, hops]: from a GPU to the memory of its CPU, and back.
    """

    between: np.ndarray
    out: np.ndarray
    into: np.ndarray
    to_memory: np.ndarray
    from_memory: np.ndarray


@cache
def host_routes(host: Host) -> HostRoutes:
    """The routes of `host`.

    Between GPUs, as NCCL prefers them: NVSwitch; a direct NVLink or xGMI;
    two direct links through one other GPU; PCIe, through the nearest common
    switch or the CPUs.  Without peer-to-peer the last is the memory of the
    receiver's CPU, which the sender writes and the receiver reads (NCCL's
    documentation of ``NCCL_SHM_DISABLE``).
    """
    paths = _Paths(host)
    gpus = range(host.num_gpus)
    nic = host.nic_of_gpu
    return HostRoutes(
        between=_padded([paths.between(a, b) for a in gpus for b in gpus]).reshape(host.num_gpus, host.num_gpus, -1),
        out=_padded([paths.tree(g, nic[g]) if nic[g] >= 0 else [] for g in gpus]),
        into=_padded([paths.tree(nic[g], g) if nic[g] >= 0 else [] for g in gpus]),
        to_memory=_padded([paths.memory(g, outward=True) for g in gpus]),
        from_memory=_padded([paths.memory(g, outward=False) for g in gpus]),
    )


def _padded(paths: list[list[int]]) -> np.ndarray:
    table = np.full((len(paths), max(1, *map(len, paths))), -1, np.int32)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    return table


class _Paths:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.link = {(link.src, link.dst): i for i, link in enumerate(host.links)}
        self.direct: dict[int, dict[int, int]] = {}
        self.switch: dict[int, tuple[int, int]] = {}
        for i, link in enumerate(host.links):
            if link.kind in (LinkKind.NVLINK, LinkKind.XGMI):
                self.direct.setdefault(link.src, {})[link.dst] = i
            elif link.kind == LinkKind.NVSWITCH and link.src < host.num_gpus:
                self.switch[link.src] = (i, self.link[link.dst, link.src])

    def between(self, a: int, b: int) -> list[int]:
        if a == b:
            return []
        if a in self.switch and b in self.switch:
            return [self.switch[a][0], self.switch[b][1]]
        mine = self.direct.get(a, {})
        if b in mine:
            return [mine[b]]
        links = self.host.links
        through = [(mine[c], self.direct[c][b]) for c in sorted(mine) if b in self.direct[c]]
        if through:
            return list(max(through, key=lambda hop: min(links[i].capacity_Bps for i in hop)))
        return self.tree(a, b) if self.host.layout.peer_to_peer else self.through_memory(a, b)

    def through_memory(self, a: int, b: int) -> list[int]:
        """From GPU `a` into the memory of the CPU of `b`, and out of it."""
        back = self.memory(b, outward=False)
        memory = self.host.links[back[0]]
        return [*self.tree(a, memory.dst), self.link[memory.dst, memory.src], *back]

    def tree(self, a: int, b: int) -> list[int]:
        """Up from `a`, across, and down to `b`; a NIC's own link goes to or from the network."""
        up, down = self._chain(a), self._chain(b)
        path = []
        common = next((v for v in up if v in down), None)
        up_to = up.index(common) if common is not None else len(up) - 1
        down_to = down.index(common) if common is not None else len(down) - 1
        path += [self._step(up[i], up[i + 1]) for i in range(up_to)]
        if common is None:
            path.append(self.link[up[-1], down[-1]])
        path += [self._step(down[i + 1], down[i]) for i in reversed(range(down_to))]
        return [link for link in path if link >= 0]

    def memory(self, gpu: int, *, outward: bool) -> list[int]:
        chain = self._chain(gpu)
        memory = next(i for i, v in enumerate(self.host.vertices) if v.kind == "memory" and v.parent == chain[-1])
        chain = [*chain, memory]
        hops = list(pairwise(chain))
        return [self.link[a, b] for a, b in hops] if outward else [self.link[b, a] for a, b in reversed(hops)]

    def _chain(self, vertex: int) -> list[int]:
        vertices = self.host.vertices
        chain = [len(vertices) - 1, vertex] if vertices[vertex].kind == "nic" else [vertex]
        while vertices[chain[-1]].parent >= 0:
            chain.append(vertices[chain[-1]].parent)
        return chain

    def _step(self, a: int, b: int) -> int:
        # A NIC's lanes and port are one link, the one between the NIC and the network.
        return self.link.get((a, b), -1)
