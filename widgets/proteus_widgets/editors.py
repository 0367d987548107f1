"""What the inspector offers for one node of the strategy tree.

Fields are named ``recompute``, ``partition.<dim>`` and ``memory.<role>``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proteus.errors import StrategyError
from proteus.model.graph import Op, Role
from proteus.strategy import Memory, NodeConfig, StrategyTree, TreeRow
from proteus.strategy.axes import copy_axes
from proteus.strategy.config import FREEZING, RECOMPUTES, TENSOR_ROLES
from proteus.strategy.select import match_block

INHERIT = ""
#: value of a field on which several nodes differ
DIFFER = "~"


def ops_at(tree: StrategyTree, path: str) -> list[Op]:
    """The ops that the node covers, one per block."""
    return [
        op
        for block in tree.model.blocks
        if (match := match_block(path, block))
        for op in block.ops
        if match.covers_op(op.name)
    ]


def _axes(tree: StrategyTree) -> list[str]:
    return [name for name, size in tree.stages[0].mesh.axes if size > 1]


def _join(axes: tuple[str, ...]) -> str:
    return "×".join(axes)


def _partition_editor(
    tree: StrategyTree, dim: str, op: Op, node_config: NodeConfig, effective: NodeConfig
) -> dict[str, Any]:
    says = (node_config.partition or {}).get(dim)
    inherited = _join((effective.partition or {}).get(dim, ())) or "whole"
    choices = {"-": "whole", **{axis: axis for axis in _axes(tree)}}
    value = INHERIT if says is None else _join(says) or "-"
    if value not in choices and value != INHERIT:
        choices[value] = value
    options = [{"value": INHERIT, "label": f"as inherited ({inherited})"}]
    size = op.dims[dim].size
    for name, label in choices.items():
        parts = 1
        for axis in [] if name == "-" else name.split("×"):
            parts *= tree.stages[0].mesh.degree(axis)
        reason = f"{dim} has {size}" if dim != "batch" and parts > size else ""
        options.append({"value": name, "label": label, "reason": reason})
    return {"field": f"partition.{dim}", "label": dim, "value": value, "options": options}


def _memory_editor(tree: StrategyTree, role: str, node_config: NodeConfig, effective: NodeConfig) -> dict[str, Any]:
    says = (node_config.memory or {}).get(role)  # type: ignore[call-overload]
    inherited = (effective.memory or {}).get(role, Memory())  # type: ignore[call-overload]
    state = copy_axes(tree.stages[0].mesh)
    kept = [Memory(), *([Memory(axes=state)] if state else []), Memory(offload=True)]
    if says is not None and says not in kept:
        kept.append(says)
    options = [{"value": INHERIT, "label": f"as inherited ({inherited!r})"}]
    options += [{"value": repr(memory), "label": repr(memory)} for memory in kept]
    return {
        "field": f"memory.{role}",
        "label": f"{role} memory",
        "value": INHERIT if says is None else repr(says),
        "options": options,
    }


def editors(tree: StrategyTree, row: TreeRow, node_config: NodeConfig) -> list[dict[str, Any]]:
    """Editors of the node that `row` shows, for the browser; `node_config` is what the user said there."""
    if row.kind == "stage":
        return []
    effective = next(iter(tree[row.path].config().values()), NodeConfig())
    rows: list[dict[str, Any]] = []
    if row.kind == "op":
        op = ops_at(tree, row.path)[0]
        rows += [
            _partition_editor(tree, dim, op, node_config, effective)
            for dim, it in op.dims.items()
            if it.role is not Role.INDIVISIBLE
        ]
    recompute = [{"value": INHERIT, "label": f"as inherited ({effective.recompute or 'none'})"}]
    recompute += [{"value": name, "label": name} for name in RECOMPUTES]
    rows.append(
        {"field": "recompute", "label": "recompute", "value": node_config.recompute or INHERIT, "options": recompute}
    )
    if any(op.kind.value in ("linear", "embedding", "conv2d", "embedding_bag") for op in ops_at(tree, row.path)):
        rows += [_memory_editor(tree, role, node_config, effective) for role in TENSOR_ROLES if role != "activation"]
        says = INHERIT if node_config.frozen is None else FREEZING[node_config.frozen]
        options = [{"value": INHERIT, "label": f"as inherited ({FREEZING[effective.frozen or False]})"}]
        options += [{"value": name, "label": name} for name in FREEZING.values()]
        rows.append({"field": "frozen", "label": "weights", "value": says, "options": options})
    return rows


def common(each: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Editors of several nodes at once: the fields that all have, with what is possible for all.

    A field on which they differ begins with a value that says so and cannot be picked.
    """
    if len(each) < 2:
        return each[0] if each else []
    shared = []
    for editor in each[0]:
        same = [next((peer for peer in one if peer["field"] == editor["field"]), None) for one in each]
        if any(peer is None for peer in same):
            continue
        options = []
        for option in editor["options"]:
            twins = [{o["value"]: o for o in peer["options"]}.get(option["value"]) for peer in same if peer]
            if all(twins):
                reason = next((twin["reason"] for twin in twins if twin and twin.get("reason")), "")
                label = "as inherited" if option["value"] == INHERIT else option["label"]
                options.append({**option, "label": label, "reason": reason})
        value = editor["value"]
        if any(peer and peer["value"] != value for peer in same):
            value = DIFFER
            options.insert(0, {"value": DIFFER, "label": "several", "reason": "they differ"})
        shared.append({**editor, "value": value, "options": options})
    return shared


def _memory_of(text: str) -> Memory:
    offload = text.endswith("@host")
    layout = text.removesuffix("@host")
    axes = tuple(layout.removeprefix("S(").removesuffix(")").split("×")) if layout.startswith("S(") else ()
    return Memory(axes=axes, offload=offload)


def said_after(node_config: NodeConfig, field: str, value: Any) -> NodeConfig:
    """What a node says after an edit, where it said `node_config` before.

    >>> said_after(NodeConfig(), "partition.heads", "tp")
    {heads: tp}

    Raises
    ------
    StrategyError
        A field that does not exist.
    """
    text = str(value)
    name, _, part = field.partition(".")
    match name:
        case "recompute":
            return replace(node_config, recompute=None if text == INHERIT else text)  # type: ignore[arg-type]
        case "partition" if part:
            kept = {dim: axes for dim, axes in (node_config.partition or {}).items() if dim != part}
            if text != INHERIT:
                kept[part] = () if text == "-" else tuple(text.split("×"))
            return replace(node_config, partition=kept or None)
        case "memory" if part:
            memory = {role: kept for role, kept in (node_config.memory or {}).items() if role != part}
            if text != INHERIT:
                memory[part] = _memory_of(text)  # type: ignore[index]
            return replace(node_config, memory=memory or None)
        case "frozen":
            return replace(node_config, frozen={name: state for state, name in FREEZING.items()}.get(text))
        case _:
            raise StrategyError(f"a node has no field {field!r}; fields: recompute, frozen, partition.DIM, memory.ROLE")
