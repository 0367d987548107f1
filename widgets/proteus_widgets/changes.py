"""Changes of a strategy that a session makes: fields of the plan, single nodes, the model and the cluster.

A change changes what it names and nothing else.  Only where another model or
cluster cannot carry the strategy do fields give way, and each is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields as fields_of
from typing import Any

from proteus.cluster import Cluster
from proteus.errors import InputError, ProteusError, StrategyError, context
from proteus.model.graph import Model
from proteus.strategy import NodeConfig, StrategyTree
from proteus.strategy.config import ScheduleConfig, Training
from proteus.strategy.plan import FILL, Plan, specs
from proteus.strategy.recipe import framework_of
from proteus_widgets.editors import INHERIT, said_after
from proteus_widgets.fields import BY_NAME, is_word, shown

#: what a schedule calls a field of the plan
_SCHEDULE = {"schedule": "name", "virtual_stages": "virtual_stages", "max_in_flight": "max_in_flight"}
_TRAINING = tuple(f.name for f in fields_of(Training))
#: fields that another model or cluster may not carry, in the order in which they find their place again;
#: all others come before them
_STRUCTURE = (
    "tp", "pp", "schedule", "virtual_stages", "layers_per_stage", "pipeline_cut", "cp", "dp", "num_devices", "shard",
    "etp", "ep",
)  # fmt: skip


def changed(tree: StrategyTree, changes: Mapping[str, Any]) -> StrategyTree:
    """The tree with other values of some fields of the plan.

    Of a tree that was built by hand, what it trains with and its schedule can
    be changed; its degrees stand in its nodes.

    Raises
    ------
    StrategyError
        A field that is none, a value that cannot be, an edit that would not fit any more.
    """
    if tree.plan is not None:
        return tree.change(**changes)
    values = Plan.of(changes)
    for name, value in changes.items():
        _check_by_hand(name, value)
    training = {name: getattr(values, name) for name in changes if name in _TRAINING}
    if isinstance(training.get("framework"), str):
        training["framework"] = framework_of(values)
    schedule = {_SCHEDULE[name]: getattr(values, name) for name in changes if name in _SCHEDULE}
    tree = tree.with_training(**training) if training else tree
    return tree.with_schedule(**schedule) if schedule else tree


def _check_by_hand(name: str, value: Any) -> None:
    if name not in _TRAINING and name not in _SCHEDULE:
        raise StrategyError(
            f"{name}: this tree was built by hand, not by parallelize(), so it has no {name} to change; "
            f"its nodes can be edited, and {', '.join((*_TRAINING, *_SCHEDULE))} be set"
        )
    defaults = {f.name: f.default for f in fields_of(ScheduleConfig)}
    if value is None and defaults.get(_SCHEDULE.get(name, ""), ...) is not None:
        raise StrategyError(f"{name}: a tree that was built by hand has no default to go back to; give a value")
    if is_word(BY_NAME[name], value):
        raise StrategyError(f"{name}={value!r} is for trees of parallelize(); give a number")


def edited(tree: StrategyTree, path: str, name: str, value: Any) -> StrategyTree:
    """The tree with another value of one field of one node; the rest of what is said there stays.

    Raises
    ------
    StrategyError
        No such node or field, a value that cannot be, or one that would change nothing.
    """
    before = own(tree, path)
    with context(path or "model"):
        rest, said = said_after(before, name, INHERIT), said_after(NodeConfig(), name, value)
    if tree.plan is not None:
        others = [item for item in tree.edits if item[0] != path]
        tree = tree.with_edits(others if rest == NodeConfig() else [*others, (path, rest)])
    else:
        tree = tree.unset(path) if path in dict(tree.configs) else tree
        tree = tree if rest == NodeConfig() else tree.edit(path, **words(rest))
    return tree if said == NodeConfig() else tree.set(path, **words(said))


def own(tree: StrategyTree, path: str) -> NodeConfig:
    """What the user said of the node at `path`; of a tree that was built by hand that is all it says."""
    return dict(tree.configs if tree.plan is None else tree.edits).get(path) or NodeConfig()


def words(config: NodeConfig) -> dict[str, Any]:
    """The arguments of :meth:`StrategyTree.set` that say `config`."""
    return {f.name: value for f in fields_of(NodeConfig) if (value := getattr(config, f.name)) is not None}


def check_fits(tree: StrategyTree, cluster: Cluster) -> None:
    """Raise unless the cluster has the devices that the tree needs, and its GPUs can run the kernels that it uses."""
    if tree.num_devices > cluster.num_devices:
        raise InputError(f"needs {tree.num_devices} GPUs, the cluster has {cluster.num_devices}")
    kinds = cluster.gpu_kinds
    used = set(cluster.gpu_kind()[: tree.num_devices].tolist()) if len(kinds) > 1 else {0}
    for gpu in (kinds[kind] for kind in sorted(used)):
        if gpu is not None:
            tree.training.framework.on(gpu)


def moved(
    tree: StrategyTree, changes: Mapping[str, Any], model: Model | None, cluster: Cluster
) -> tuple[StrategyTree, tuple[str, ...]]:
    """The tree with `changes` for another model (None: the same) or cluster, and a line for all that gave way.

    Degrees that do not fit give way to the largest that do and are not above
    them; edits that do not fit are dropped.  ``dp="fill"`` fills what is there.
    """
    if tree.plan is None:
        if model is not None and model != tree.model:
            raise StrategyError(
                f"this tree was built by hand for {tree.model.name}; build one for {model.name} and open it"
            )
        tree = changed(tree, changes)
        check_fits(tree, cluster)
        return tree, ()
    given, plan = model or tree.given_model, tree.plan.changed(**changes)

    def made(plan: Plan) -> StrategyTree:
        new = StrategyTree(given).parallelize(plan).on_devices(cluster.num_devices)
        check_fits(new, cluster)
        return new

    notes: list[str] = []
    try:
        new = made(plan)
    except ProteusError:
        new, notes = _repaired(plan, made, cluster.num_devices)
    if tree.schedule.grid is not None:
        new = new.with_schedule(grid=tree.schedule.grid)
    for edit in tree.edits:
        try:
            new = new.with_edits((*new.edits, edit))
        except StrategyError as error:
            notes.append(
                f"edit of {edit[0] or 'the model'} dropped: {str(error).removeprefix('an edit does not fit: ')}"
            )
    return new, tuple(notes)


def _repaired(plan: Plan, made: Callable[[Plan], StrategyTree], num_devices: int) -> tuple[StrategyTree, list[str]]:
    """The nearest plan that can be carried out: fields find their places one after another."""
    fitted, tree = Plan(), made(Plan())
    reasons: dict[str, str] = {}
    given = plan.said
    names = ["framework", *(name for name in specs() if name not in ("framework", *_STRUCTURE)), *_STRUCTURE]
    for name in names:
        if name not in given:
            continue
        for value in (given[name], *_smaller(tree, name, given[name], num_devices)):
            trial = fitted.changed(**{name: value})
            try:
                tree = made(trial)
            except ProteusError as error:
                reasons.setdefault(name, str(error).partition("; possible:")[0])
                continue
            fitted = trial
            break
    text = {name: BY_NAME[name].text(given[name]) for name in reasons}
    return tree, [f"{BY_NAME[n].label} {text[n]} → {shown(tree, n)}: {reason}" for n, reason in reasons.items()]


def _smaller(tree: StrategyTree, name: str, value: Any, num_devices: int) -> Iterator[int]:
    """Values that may stand in for one that does not fit, the nearest first."""
    if name == "dp" and value == FILL:
        value = num_devices // math.prod(tree.decided.value(degree) for degree in ("tp", "pp", "cp")) + 1
    if name in ("tp", "pp", "cp", "dp", "ep", "etp", "shard", "virtual_stages") and isinstance(value, int):
        yield from range(value - 1, 0, -1)
