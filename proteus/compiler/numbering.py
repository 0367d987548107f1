"""Which task of the engine every step of every simulated rank is.

A collective is one task for all that take part in it: it belongs to the first
of the classes that have it, the others refer to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proteus.compiler.fold import Folding
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.relations import Relations
from proteus.compiler.segments import PlayedRank


@dataclass(slots=True)
class TaskIds:
    """Tasks by class and step.

    Parameters
    ----------
    of
        Per class int32[steps]: the task of each step.
    owns
        Per class bool[steps]: which of them are numbered with the class; None
        where all are.
    first
        Per class its first own task; its own ones follow each other.
    total
        Number of tasks.
    """

    of: list[np.ndarray]
    owns: list[np.ndarray | None]
    first: list[int]
    total: int

    def at(self, number: int, steps: np.ndarray) -> np.ndarray:
        """The tasks of some steps of a class."""
        return steps + self.first[number] if self.owns[number] is None else self.of[number].take(steps)

    def own(self, number: int) -> slice:
        """The tasks numbered with a class."""
        first, owns = self.first[number], self.owns[number]
        return slice(first, first + (len(self.of[number]) if owns is None else int(owns.sum())))


def number_tasks(
    plans: Sequence[RankPlan],
    classes: Sequence[PlayedRank],
    relations: Relations,
    row_relation: Sequence[int],
    folding: Folding,
    num_ranks: int,
) -> TaskIds:
    """Number the steps of one class after the other.

    Parameters
    ----------
    row_relation
        Relation of every communication row.
    """
    owner = _owners(classes, relations, set(row_relation), folding)
    ids = TaskIds([], [], [], 0)
    for number, rank in enumerate(classes):
        plan = plans[rank.plan]
        row_owner = np.full(len(row_relation), number, np.int64)
        for row in plan.rows.tolist():
            relation = row_relation[row]
            group = relations.group_of_rank(relation, num_ranks)[rank.device]
            row_owner[row] = owner[relation][folding.group_class[relation][group]]
        ids.first.append(ids.total)
        if (row_owner == number).all():
            ids.owns.append(None)
            ids.of.append(np.arange(ids.total, ids.total + plan.num_steps, dtype=np.int32))
            ids.total += plan.num_steps
            continue
        is_owned = ~plan.is_comm | (row_owner[plan.ref * plan.is_comm] == number)
        of = (ids.total - 1 + np.cumsum(is_owned)).astype(np.int32)
        away = np.flatnonzero(~is_owned)
        for first in np.unique(row_owner[plan.ref[away]]).tolist():
            mine = away[row_owner[plan.ref[away]] == first]
            first_plan = classes[first].plan
            theirs = mine if first_plan == rank.plan else _same_steps(plan, mine, plans[first_plan])
            of[mine] = ids.of[first][theirs]
        ids.of.append(of)
        ids.owns.append(is_owned)
        ids.total += int(is_owned.sum())
    return ids


def _owners(
    classes: Sequence[PlayedRank], relations: Relations, used: set[int], folding: Folding
) -> dict[int, np.ndarray]:
    """By relation, for every class of groups the first class of ranks that is in one."""
    owners = {}
    for relation in used:
        groups, members = folding.group_class[relation], relations.groups[relation].members
        owners[relation] = np.full(int(groups.max()) + 1, len(classes), np.int64)
        np.minimum.at(owners[relation], groups, folding.rank_class[members].min(axis=1))
    return owners


def _same_steps(plan: RankPlan, steps: np.ndarray, other_plan: RankPlan) -> list[int]:
    """The steps of another plan that are the same collectives (tied parameters)."""
    return [int(np.flatnonzero(other_plan.is_comm & (other_plan.ref == row))[0]) for row in plan.ref[steps].tolist()]
