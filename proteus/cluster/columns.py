"""The links of a whole cluster as numpy columns, and routes over them.

Links are numbered host by host, then two per leaf switch (up, down).  A
route is that of the host template plus the offset of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from proteus.cluster.fabric import Fabric
from proteus.cluster.faults import Faults
from proteus.cluster.host import Host
from proteus.cluster.kinds import HOP_LATENCY_S, LinkKind
from proteus.cluster.routing import HostRoutes, host_routes
from proteus.errors import TopologyError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Everything about a cluster that depends on its size.

    Parameters
    ----------
    templates
        The distinct hosts.
    template
        int32[hosts]: which of them each host is.
    link_offset
        int64[hosts + 1]: first link of every host; the last is the first leaf link.
    capacity_Bps, latency_s, kind
        float64[links], float64[links], uint8[links].
    tables
        Routes inside a host; first axis is the template.
    leaf
        int32[hosts, gpus]: leaf switch that the NIC of each GPU is wired to, -1 without a NIC.
    """

    templates: tuple[Host, ...]
    template: np.ndarray
    link_offset: np.ndarray
    capacity_Bps: np.ndarray
    latency_s: np.ndarray
    kind: np.ndarray
    tables: HostRoutes
    leaf: np.ndarray
    has_fabric_links: bool

    @property
    def num_gpus(self) -> int:
        """GPUs of one host."""
        return int(self.leaf.shape[1])

    def routes(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """int32[n, hops]: links from `src` to `dst`, padded with -1."""
        src_host, src_gpu = np.divmod(src, self.num_gpus)
        dst_host, dst_gpu = np.divmod(dst, self.num_gpus)
        same = src_host == dst_host
        tables = self.tables
        if same.all():
            return self._look_up(tables.between, src_host, src_gpu, dst_gpu)
        far = np.flatnonzero(~same)
        parts = [self._look_up(tables.out, src_host[far], src_gpu[far])]
        if self.has_fabric_links:
            parts.append(
                self._over_spine(self.leaf[src_host[far], src_gpu[far]], self.leaf[dst_host[far], dst_gpu[far]])
            )
        parts.append(self._look_up(tables.into, dst_host[far], dst_gpu[far]))
        across = np.concatenate(parts, axis=1)
        if len(far) == len(src):
            return across
        near = np.flatnonzero(same)
        within = self._look_up(tables.between, src_host[near], src_gpu[near], dst_gpu[near])
        out = np.full((len(src), max(across.shape[1], within.shape[1])), -1, np.int32)
        out[far, : across.shape[1]] = across
        out[near, : within.shape[1]] = within
        return out

    def memory_routes(self, devices: np.ndarray, *, to_host: bool) -> np.ndarray:
        """int32[n, hops]: links between a device and the memory of its host."""
        host, gpu = np.divmod(devices, self.num_gpus)
        table = self.tables.to_memory if to_host else self.tables.from_memory
        return self._look_up(table, host, gpu)

    def link_colours(self) -> np.ndarray:
        """int64[links]: equal for links of the same kind and capacity."""
        number: dict[tuple[int, float], int] = {}

        def colours(kinds: Iterable[int], rates_Bps: Iterable[float]) -> np.ndarray:
            pairs = zip(kinds, rates_Bps, strict=True)
            return np.array([number.setdefault((int(k), float(c)), len(number)) for k, c in pairs], np.int64)

        first = int(self.link_offset[-1])
        healthy = [np.array([link.capacity_Bps for link in host.links]) for host in self.templates]
        by_template = [
            colours([link.kind for link in host.links], rates)
            for host, rates in zip(self.templates, healthy, strict=True)
        ]
        colour = np.empty(len(self.kind), np.int64)
        colour[:first] = self._tiled(by_template)
        # What faults changed, and the fabric, are few enough to look at one by one.
        rest = np.flatnonzero(self.capacity_Bps[:first] != self._tiled(healthy))
        rest = np.concatenate([rest, np.arange(first, len(self.kind))])
        colour[rest] = colours(self.kind[rest].tolist(), self.capacity_Bps[rest].tolist())
        return colour

    def _tiled(self, by_template: list[np.ndarray]) -> np.ndarray:
        """The values of each host's template, host by host."""
        starts = np.concatenate([[0], np.flatnonzero(np.diff(self.template)) + 1, [len(self.template)]])
        runs = zip(starts[:-1].tolist(), np.diff(starts).tolist(), strict=True)
        return np.concatenate([np.tile(by_template[int(self.template[start])], count) for start, count in runs])

    def _look_up(self, table: np.ndarray, host: np.ndarray, *local: np.ndarray) -> np.ndarray:
        """Rows of a table of routes, placed at their hosts."""
        rows = table[0][local] if len(self.templates) == 1 else table[(self.template[host], *local)]
        first = self.link_offset[host].astype(np.int32)
        placed: np.ndarray = rows + first[:, None]
        np.copyto(placed, np.int32(-1), where=rows < 0)
        return placed

    def _over_spine(self, src_leaf: np.ndarray, dst_leaf: np.ndarray) -> np.ndarray:
        first = np.int32(self.link_offset[-1])
        up_down = np.stack([first + 2 * src_leaf, first + 2 * dst_leaf + 1], axis=1).astype(np.int32)
        return np.where((src_leaf != dst_leaf)[:, None], up_down, np.int32(-1))


def build_columns(runs: Sequence[tuple[Host, int]], fabric: Fabric, faults: Faults) -> Columns:
    """Columns of hosts in `runs` of equal ones."""
    templates = tuple(dict.fromkeys(host for host, _ in runs))
    number = {host: i for i, host in enumerate(templates)}
    template = np.repeat(
        np.array([number[host] for host, _ in runs], np.int32), np.array([count for _, count in runs], np.int64)
    )
    sizes = np.array([len(host.links) for host in templates], np.int64)
    link_offset = np.concatenate([[0], np.cumsum(sizes[template])])

    def tiled(dtype: str, values: Sequence[np.ndarray]) -> np.ndarray:
        blocks = [np.tile(values[number[host]], count) for host, count in runs]
        return np.concatenate(blocks).astype(dtype, copy=False)

    capacity = tiled("f8", [np.array([link.capacity_Bps for link in host.links]) for host in templates])
    latency = tiled("f8", [np.array([link.latency_s for link in host.links]) for host in templates])
    kind = tiled("u1", [np.array([link.kind for link in host.links], np.uint8) for host in templates])
    leaf = _leaves(templates, template, fabric)
    if fabric.has_links:
        up = _leaf_capacity(templates, template, fabric)
        capacity = np.concatenate([capacity, np.repeat(up, 2)])
        pair = [LinkKind.LEAF, LinkKind.SPINE]
        kind = np.concatenate([kind, np.tile(np.array(pair, np.uint8), len(up))])
        latency = np.concatenate([latency, np.tile([HOP_LATENCY_S[k] for k in pair], len(up))])
    columns = Columns(
        templates=templates,
        template=template,
        link_offset=link_offset,
        capacity_Bps=capacity,
        latency_s=latency,
        kind=kind,
        tables=_stacked([host_routes(host) for host in templates]),
        leaf=leaf,
        has_fabric_links=fabric.has_links,
    )
    for pattern, fraction in faults.slow_links:
        links = matching_links(columns, pattern)
        if not len(links):
            raise TopologyError(f"no link matches {pattern!r}; names look like 'host0/{templates[0].link_name(0)}'")
        capacity[links] *= fraction
    return columns


def _leaves(templates: Sequence[Host], template: np.ndarray, fabric: Fabric) -> np.ndarray:
    rails = [[host.vertices[nic].rail if nic >= 0 else -1 for nic in host.nic_of_gpu] for host in templates]
    rail = np.array(rails, np.int32)[template]
    unit = (np.arange(len(template), dtype=np.int32) // fabric.hosts_per_leaf)[:, None]
    leaf = unit * num_rails(templates) + rail if fabric.kind == "rail" else np.broadcast_to(unit, rail.shape)
    return np.where(rail >= 0, leaf, -1).astype(np.int32)


def num_rails(templates: Sequence[Host]) -> int:
    """Most rails of any host."""
    return max((nic.rail + 1 for host in templates for nic in host.layout.nics), default=0)


def _leaf_capacity(templates: Sequence[Host], template: np.ndarray, fabric: Fabric) -> np.ndarray:
    """Uplink rate of every leaf [B/s]: that of the NICs in use below it, by the oversubscription."""
    rails = num_rails(templates)
    below = np.zeros((len(templates), rails))
    for i, host in enumerate(templates):
        used = {host.vertices[nic].name for nic in host.nic_of_gpu if nic >= 0}
        for nic in host.layout.nics:
            if nic.name in used:
                below[i, nic.rail] += nic.up_Bps
    first = np.arange(0, len(template), fabric.hosts_per_leaf)
    by_unit = np.add.reduceat(below[template], first, axis=0) / fabric.oversubscription
    return by_unit.reshape(-1) if fabric.kind == "rail" else by_unit.sum(axis=1)


def _stacked(tables: Sequence[HostRoutes]) -> HostRoutes:
    def stack(arrays: list[np.ndarray]) -> np.ndarray:
        hops = max(array.shape[-1] for array in arrays)
        pads = [[(0, 0)] * (array.ndim - 1) + [(0, hops - array.shape[-1])] for array in arrays]
        return np.stack([np.pad(a, p, constant_values=-1) for a, p in zip(arrays, pads, strict=True)])

    return HostRoutes(
        between=stack([table.between for table in tables]),
        out=stack([table.out for table in tables]),
        into=stack([table.into for table in tables]),
        to_memory=stack([table.to_memory for table in tables]),
        from_memory=stack([table.from_memory for table in tables]),
    )


def matching_links(columns: Columns, pattern: str) -> np.ndarray:
    """int64[n]: the links whose name matches the fnmatch `pattern`.

    A pattern without ``/`` is matched with the part of the name behind it,
    on every host and in the fabric.
    """
    host_part, slash, link_part = pattern.rpartition("/")
    link_parts = []
    hosts = range(len(columns.template))
    wanted = [h for h in hosts if not slash or fnmatchcase(f"host{h}", host_part)]
    by_template = [
        np.flatnonzero([fnmatchcase(host.link_name(i), link_part) for i in range(len(host.links))])
        for host in columns.templates
    ]
    for t, local in enumerate(by_template):
        of_this = np.array([h for h in wanted if columns.template[h] == t], np.int64)
        link_parts.append((columns.link_offset[of_this][:, None] + local).reshape(-1))
    first = int(columns.link_offset[-1])
    if not slash or host_part == "fabric":
        fabric = range(len(columns.capacity_Bps) - first)
        link_parts.append(first + np.flatnonzero([fnmatchcase(leaf_link_name(i), link_part) for i in fabric]))
    return np.sort(np.concatenate(link_parts))


def leaf_link_name(number: int) -> str:
    """Such as ``"leaf3->spine"``; `number` counts from the first leaf link."""
    leaf = number // 2
    return f"spine->leaf{leaf}" if number % 2 else f"leaf{leaf}->spine"
