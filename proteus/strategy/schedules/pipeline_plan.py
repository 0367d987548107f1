"""A pipeline schedule as data: which rank runs which action in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

import numpy as np

from proteus.errors import StrategyError


class ActionKind(StrEnum):
    """What an action computes for one chunk and one micro-batch."""

    F = "F"  # forward
    B = "B"  # backward; only its input-gradient part where the plan has W actions for the chunk
    W = "W"  # weight-gradient part of the backward


F, B, W = range(3)
"""Codes of the kinds in the columns: positions in ``ActionKind``."""

KINDS = tuple(ActionKind)

# At most nine digits: int32 columns hold every number that this matches.
_ACTION = re.compile(r"([0-9]{1,9})([FBW])([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Action:
    """One step of one rank.

    Parameters
    ----------
    chunk
        Position along the model, ``0 ... num_chunks - 1``.
    kind
        Forward, backward or weight gradient.
    micro_batch
        Which micro-batch.

    Examples
    --------
    >>> Action(2, ActionKind.F, 0)
    2F0
    >>> Action.parse("1B3").micro_batch
    3
    """

    chunk: int
    kind: ActionKind
    micro_batch: int

    def __repr__(self) -> str:
        return f"{self.chunk}{self.kind}{self.micro_batch}"

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action that prints as `text`."""
        match = _ACTION.fullmatch(text)
        if match is None:
            raise StrategyError(
                f"{text[:40]!r} is not an action; write <chunk><kind><micro-batch> with kind F, B or W, such as 2F0"
            )
        chunk, kind, micro_batch = match.groups()
        return cls(int(chunk), ActionKind(kind), int(micro_batch))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # no slots: `rows` is made on first use and kept
class PipelinePlan:
    """What every pipeline rank runs, in order.

    Parameters
    ----------
    name
        The schedule's name, or ``grid``.
    num_micro_batches
        Micro-batches of one step.
    chunk_rank
        Pipeline rank of every chunk of the model.
    row_ptr
        int64[num_ranks + 1]: rank ``r`` owns ``row_ptr[r]:row_ptr[r + 1]``
        of the columns.
    chunk, kind, micro_batch
        int32, uint8, int32 [actions]: the rows one after the other.  `kind`
        holds positions in :class:`ActionKind`.

    Examples
    --------
    >>> from proteus.strategy.schedule import plan
    >>> plan("1f1b", 2, 3).rows[0]
    (0F0, 0F1, 0B0, 0F2, 0B1, 0B2)
    """

    name: str
    num_micro_batches: int
    chunk_rank: tuple[int, ...]
    row_ptr: np.ndarray
    chunk: np.ndarray
    kind: np.ndarray
    micro_batch: np.ndarray

    def __post_init__(self) -> None:
        # Plans are cached and shared, so nobody may write into them.
        for column in (self.row_ptr, self.chunk, self.kind, self.micro_batch):
            column.setflags(write=False)

    @classmethod
    def from_columns(
        cls, name: str, num_micro_batches: int, chunk_rank: Sequence[int], columns: Sequence[tuple[np.ndarray, ...]]
    ) -> PipelinePlan:
        """A plan from one ``(chunk, kind, micro_batch)`` triple per rank."""
        lengths = [len(chunk) for chunk, _, _ in columns]
        chunk, kind, micro_batch = (
            np.concatenate([column[i] for column in columns]).astype(dtype)
            for i, dtype in enumerate(("i4", "u1", "i4"))
        )
        return cls(
            name=name,
            num_micro_batches=num_micro_batches,
            chunk_rank=tuple(chunk_rank),
            row_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype("i8"),
            chunk=chunk,
            kind=kind,
            micro_batch=micro_batch,
        )

    @property
    def num_ranks(self) -> int:
        return len(self.row_ptr) - 1

    @property
    def num_chunks(self) -> int:
        return len(self.chunk_rank)

    def columns(self, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``(chunk int32[], kind uint8[], micro_batch int32[])`` of one rank, read-only."""
        row = slice(self.row_ptr[rank], self.row_ptr[rank + 1])
        return self.chunk[row], self.kind[row], self.micro_batch[row]

    @cached_property
    def rows(self) -> tuple[tuple[Action, ...], ...]:
        """The actions of every rank as objects: for reading, not for speed."""
        actions = [
            Action(chunk, KINDS[kind], micro_batch)
            for chunk, kind, micro_batch in zip(self.chunk.tolist(), self.kind.tolist(), self.micro_batch.tolist())
        ]
        ends = self.row_ptr.tolist()
        return tuple(tuple(actions[start:end]) for start, end in pairwise(ends))

    @cached_property
    def is_split(self) -> tuple[bool, ...]:
        """For every chunk, whether its backward is cut into B and W."""
        split = np.zeros(self.num_chunks, bool)
        split[self.chunk[self.kind == W]] = True
        return tuple(split.tolist())

    def _key(self) -> tuple[object, ...]:
        columns = (self.row_ptr, self.chunk, self.kind, self.micro_batch)
        return (self.num_micro_batches, self.chunk_rank, *(column.tobytes() for column in columns))

    def __eq__(self, other: object) -> bool:
        """Whether both run the same actions; the name does not count."""
        return isinstance(other, PipelinePlan) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"PipelinePlan({self.name}, {self.num_ranks} ranks, {self.num_chunks} chunks, "
            f"{self.num_micro_batches} micro-batches, {len(self.chunk)} actions)"
        )
