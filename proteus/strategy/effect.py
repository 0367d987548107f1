"""What a config does to an op: two configs with equal effects compile alike.

A config may say what an op cannot follow: a dim that it does not have, an axis
that another dim takes first, memory of parameters where there are none.
:func:`ineffective` finds settings of a node that have no effect, so that it can be
refused instead of standing there without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proteus.model.graph import Block, Op, Operand, OpKind, Role
from proteus.strategy.config import Memory, NodeConfig
from proteus.strategy.select import match_block

if TYPE_CHECKING:
    from proteus.strategy.tree import BlockRun, StrategyTree

#: words that say what holds where nothing is said
_PLAIN = (None, False, "none", "all_gather")
#: tensor roles that an op has where it has parameters
_OF_PARAMETERS = ("parameter", "gradient", "optimizer")


def cut_of(block: Block, op: Op, config: NodeConfig) -> dict[str, str]:
    """Mesh axis → dim that it cuts: of several dims that name an axis the first that the op has."""
    cut: dict[str, str] = {}
    for dim, axes in (config.partition or {}).items():
        if dim in op.dims and op.dims[dim].role is not Role.INDIVISIBLE and dim not in block.derived_of(op):
            for axis in axes:
                cut.setdefault(axis, dim)
    return cut


def effect(block: Block, op: Op, config: NodeConfig) -> tuple[Any, ...]:
    """What a config does to an op, as a value to compare."""
    cut = cut_of(block, op, config)
    parameters = [operand for operand in op.inputs if block.tensors[operand.tensor].kind == "parameter"]
    memory: Mapping[Any, Memory] = config.memory or {}
    kept = {
        role: (_axes_kept(parameters, cut, memory[role]), memory[role].offload)
        for role in _OF_PARAMETERS
        if parameters and role in memory
    }
    offloads = bool(op.saves) and "activation" in memory and memory["activation"].offload
    recompute = config.recompute == "full" or (config.recompute == "selective" and op.selective)
    # nothing flows in along the data where a dim of the op is said to stay whole
    is_left_whole = any(dim in op.dims and axes == () for dim, axes in (config.partition or {}).items())
    goes_round = op.kind is OpKind.ATTENTION and "seq" in cut.values() and config.exchange == "ring"
    frozen = _frozen(op, bool(parameters), config)
    placements = {role: value for role, value in kept.items() if value != ((), False)}
    flags = (offloads, recompute, is_left_whole, goes_round, frozen)
    return tuple(sorted(cut.items())), tuple(sorted(placements.items())), flags


def _axes_kept(parameters: list[Operand], cut: Mapping[str, str], memory: Memory) -> tuple[str, ...]:
    """Those axes of a memory config that do not cut every parameter anyway."""
    return tuple(
        sorted(axis for axis in memory.axes if any(cut.get(axis) not in operand.dims for operand in parameters))
    )


def _frozen(op: Op, has_parameters: bool, config: NodeConfig) -> object:
    if not has_parameters or not config.frozen:
        return False
    return config.frozen if op.kind is OpKind.LINEAR else True


def ineffective(before: StrategyTree, after: StrategyTree, selector: str, config: NodeConfig) -> Iterator[str]:
    """Settings of `config` that no op below `selector` uses, or that do not change what any op does."""
    for word, without in _left_out(config):
        view, tree_without = told_of(word), before.told(selector, without)
        if not any(heeds(word, block, op, config) for block, op in _below(after, selector)):
            in_vain = _differs(after, tree_without, view)
        else:
            in_vain = _differs(after, tree_without, _where_heeded(word, view, config)) and (
                not _differs(after, tree_without, effect) or _axis_in_vain(after, selector, word, config)
            )
        if in_vain:
            yield word


def _below(tree: StrategyTree, selector: str) -> Iterator[tuple[Block, Op]]:
    """The ops that a selector names."""
    for block in tree.model.blocks:
        where = match_block(selector, block)
        if where is not None:
            yield from ((block, op) for op in block.ops if where.covers_op(op.name))


def heeds(word: str, block: Block, op: Op, config: NodeConfig) -> bool:
    """Whether a word can mean anything to an op."""
    name, _, key = word.partition(".")
    if name == "partition":
        return key in op.dims and op.dims[key].role is not Role.INDIVISIBLE
    if name == "exchange":
        return op.kind is OpKind.ATTENTION
    if name == "recompute":
        return config.recompute != "selective" or op.selective
    if key == "activation":
        return bool(op.saves)
    return any(block.tensors[operand.tensor].kind == "parameter" for operand in op.inputs)


def _where_heeded(
    word: str, view: Callable[[Block, Op, NodeConfig], Any], said: NodeConfig
) -> Callable[[Block, Op, NodeConfig], Any]:
    """`view` of the ops to which the word, as it is said, can mean anything."""
    return lambda block, op, config: view(block, op, config) if heeds(word, block, op, said) else None


def _axis_in_vain(tree: StrategyTree, selector: str, word: str, config: NodeConfig) -> bool:
    """Whether a partition names an axis that cuts its dim in no op below `selector`."""
    name, _, dim = word.partition(".")
    if name != "partition":
        return False
    left = set((config.partition or {})[dim])
    for run in tree.runs():
        where = match_block(selector, run.block)
        for op in run.block.ops if where else ():
            if where is not None and where.covers_op(op.name):
                left -= {axis for axis, by in cut_of(run.block, op, run.configs[op.name]).items() if by == dim}
    return bool(left)


def _left_out(config: NodeConfig) -> Iterator[tuple[str, NodeConfig]]:
    """(setting, the config without it) for every setting of a config."""
    for dim in config.partition or {}:
        rest = {d: axes for d, axes in (config.partition or {}).items() if d != dim}
        yield f"partition.{dim}", replace(config, partition=rest or None)
    for role in config.memory or {}:
        kept = {r: memory for r, memory in (config.memory or {}).items() if r != role}
        yield f"memory.{role}", replace(config, memory=kept or None)
    for name in ("recompute", "exchange", "frozen"):
        if getattr(config, name) is not None:
            yield name, replace(config, **{name: None})


def told_of(word: str) -> Callable[[Block, Op, NodeConfig], Any]:
    """What an op gets from one setting."""
    name, _, key = word.partition(".")

    def told(block: Block, op: Op, config: NodeConfig) -> Any:
        value = getattr(config, name)
        if not key:
            return None if value in _PLAIN else value
        part = (value or {}).get(key)
        if name == "partition":  # a dim that is said to stay whole is told nothing new where no axis cuts it
            return part or None if key in op.dims else None
        return None if part == Memory() else part

    return told


def _differs(one: StrategyTree, peer_tree: StrategyTree, view: Callable[[Block, Op, NodeConfig], Any]) -> bool:
    """Whether `view` is not the same for some op of some copy of a block."""
    there: dict[str, list[BlockRun]] = {}
    for run in peer_tree.runs():
        there.setdefault(run.block.name, []).append(run)
    for run in one.runs():
        for peer in there[run.block.name]:
            shares = run.copies.start < peer.copies.stop and peer.copies.start < run.copies.stop
            if not shares or run.configs is peer.configs:
                continue
            for op in run.block.ops:
                if view(run.block, op, run.configs[op.name]) != view(peer.block, op, peer.configs[op.name]):
                    return True
    return False


def why_not(tree: StrategyTree, selector: str, word: str, node_config: NodeConfig) -> str:
    """Why a word changes nothing, with what to do."""
    name, _, key = word.partition(".")
    if name == "partition":
        for run in tree.runs():
            for op in run.block.ops:
                config = run.configs[op.name]
                if key not in op.dims or (config.partition or {}).get(key) != (node_config.partition or {})[key]:
                    continue
                cut = cut_of(run.block, op, config)
                taken = [
                    (axis, cut[axis]) for axis in (node_config.partition or {})[key] if cut.get(axis) not in (None, key)
                ]
                if taken:
                    axis, dim = taken[0]
                    return (
                        f"axis {axis!r} cuts {dim} of {op.name} already, and cuts one dim of an op; "
                        f"set {dim} to () in the same call"
                    )
        return f"no op here follows {key}: it has no such dim, or one that follows others"
    if name == "memory":
        return (
            "no op here saves an activation"
            if key == "activation"
            else "no op here has a parameter that the axes do not shard already"
        )
    return {
        "recompute": "selective recomputes the core of attention, and there is none here",
        "exchange": "no attention here has its sequence cut by context parallelism",
        "frozen": "no op here has a parameter",
    }[name]
