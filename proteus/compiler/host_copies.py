"""What goes between a rank and its host besides the copies of single phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from proteus.compiler.chain import Chunk
from proteus.compiler.offload import offloaded_parameters, update_bytes
from proteus.compiler.phases import ChunkPhase
from proteus.compiler.plan_columns import StepWriter
from proteus.compiler.rank_plan import HOST_ACTIVATIONS
from proteus.compiler.tables import HOST_COPIES, ROOT, HostCopy, Tables
from proteus.costs.precision import Precision
from proteus.strategy.schedules.pipeline_plan import B, F


def there_and_back(
    tables: Tables,
    rank_chunks: Sequence[Chunk],
    made: Mapping[tuple[int, int], ChunkPhase],
    first: Mapping[tuple[int, int], np.ndarray],
) -> list[np.ndarray]:
    """Activations come back from the host only after they went there."""
    copies = np.array([row.kind in HOST_COPIES for row in tables.comms], bool)
    edge_arrays = []
    for c in rank_chunks:
        if (c.index, F) not in first or (c.index, B) not in first or not copies.any():
            continue
        places = {}
        for kind in (F, B):
            phase = made[(c.index, kind)]
            at = np.flatnonzero(phase.is_comm & (phase.part == HOST_ACTIVATIONS))
            at = at[copies[phase.ref[at]]]
            places[kind] = at[np.lexsort((phase.copy[at], phase.link[at]))]
        pairs = [first[(c.index, kind)][:, None] + places[kind][None, :] for kind in (F, B)]
        edge_arrays.append(np.stack(pairs, axis=2).reshape(-1, 2))
    return edge_arrays


def update_on_host(
    tables: Tables,
    rank_chunks: Sequence[Chunk],
    writer: StepWriter,
    preds: Sequence[int],
    precision: Precision,
    optimizer: str,
) -> list[int]:
    """Gradients to the host, the update there, parameters back; the last step."""
    links = [link for c in rank_chunks for link in c.links]
    numel = offloaded_parameters(links)
    if not numel:
        return []
    mesh = rank_chunks[0].mesh
    moves = (
        (HostCopy.TO_HOST, numel * precision.grad_bytes, "gradients to host"),
        (HostCopy.UPDATE, update_bytes(numel, optimizer, precision), "update on host"),
        (HostCopy.FROM_HOST, numel * precision.param_bytes, "parameters from host"),
    )
    last = list(preds)
    for kind, size, state_name in moves:
        last = [writer.add(True, tables.comm(tables.copy_row(mesh, kind, size, state_name, ROOT)), last)]
    return last
