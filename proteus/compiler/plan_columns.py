"""The columns of a rank's plan while they are filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.phases import ChunkPhase
from proteus.compiler.rank_plan import NONE
from proteus.compiler.state import StateMove
from proteus.compiler.steps import STREAMS
from proteus.compiler.tables import CommRow


@dataclass(slots=True)
class StepWriter:
    """Steps being appended after the actions (or before them)."""

    is_comm: list[bool] = field(default_factory=list)
    ref: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    moves: dict[int, StateMove] = field(default_factory=dict)
    base: int = 0

    def add(
        self, is_comm: bool, ref: int, preds: Sequence[int], chunk: int = NONE, move: StateMove | None = None
    ) -> int:
        self.is_comm.append(is_comm)
        self.ref.append(ref)
        self.chunk.append(chunk)
        step = self.base + len(self.ref) - 1
        self.edges.extend((int(p), step) for p in preds if p >= 0)
        if move is not None:
            self.moves[step] = move
        return step


class PlanColumns:
    """Step columns of a rank, filled phase by phase."""

    def __init__(self, total: int) -> None:
        self.is_comm = np.zeros(total, bool)
        self.ref = np.zeros(total, np.int32)
        self.chunk, self.link, self.copy, self.micro, self.phase = (np.full(total, NONE, np.int32) for _ in range(5))
        self.part = np.full(total, NONE, np.int32)
        self.alloc, self.free = np.zeros(total), np.zeros(total)

    def head(self, writer: StepWriter) -> None:
        n = len(writer.ref)
        self.is_comm[:n] = writer.is_comm
        self.ref[:n] = writer.ref
        self.chunk[:n] = writer.chunk

    def place(self, phase: ChunkPhase, first: np.ndarray, chunk: int, kind: int) -> None:
        """Write one phase at `first`, once per micro-batch."""
        at = first[:, None] + np.arange(phase.num_steps)
        for target_column, column in (
            (self.is_comm, phase.is_comm),
            (self.ref, phase.ref),
            (self.part, phase.part),
            (self.link, phase.link),
            (self.copy, phase.copy),
            (self.alloc, phase.alloc_bytes),
            (self.free, phase.free_bytes),
        ):
            target_column[at] = column
        self.chunk[at] = chunk
        self.phase[at] = kind
        self.micro[at] = np.arange(len(first))[:, None]

    def tail(self, writer: StepWriter) -> None:
        n = len(writer.ref)
        self.is_comm = np.concatenate([self.is_comm, np.array(writer.is_comm, bool)])
        self.ref = np.concatenate([self.ref, np.array(writer.ref, np.int32)])
        self.chunk = np.concatenate([self.chunk, np.array(writer.chunk, np.int32)])
        for name in ("link", "copy", "micro", "phase", "part"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(n, NONE, np.int32)]))
        for name in ("alloc", "free"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(n)]))


def stream_steps(is_comm: np.ndarray, ref: np.ndarray, comms: Sequence[CommRow]) -> dict[str, np.ndarray]:
    """The steps of every stream, in order."""
    streams = np.array([STREAMS.index(row.stream) for row in comms], np.int64)
    stream = np.zeros(len(ref), np.int64)
    stream[is_comm] = streams[ref[is_comm]] if len(comms) else 0
    steps_by_stream = {name: np.flatnonzero(stream == number) for number, name in enumerate(STREAMS)}
    return {name: steps for name, steps in steps_by_stream.items() if len(steps)}


def by_target(edges: np.ndarray) -> np.ndarray:
    """Edges in the order of the steps that wait."""
    return edges[np.argsort(edges[:, 1], kind="stable")].astype(np.int32)
