"""The tree as lines: what people see, and the ids by which spans point at nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proteus.model.graph import Op
from proteus.strategy.config import FREEZING, NodeConfig
from proteus.strategy.select import match_block
from proteus.strategy.tree import BlockRun, StrategyTree, TreeRow


def number_rows(tree: StrategyTree) -> tuple[list[TreeRow], dict[tuple[str, str], int]]:
    """Rows for the model, every stage, run of equal blocks, module and op; and where each op stands."""
    rows: list[TreeRow] = []
    ids: dict[tuple[str, str], int] = {}

    def add(parent: int, path: str, label: str, kind: str, **more: object) -> int:
        rows.append(TreeRow(id=len(rows), parent=parent, path=path, label=label, kind=kind, **more))  # type: ignore[arg-type]
        return len(rows) - 1

    root_config = dict(tree.configs).get("", NodeConfig())
    badges = _badges(NodeConfig(frozen=root_config.frozen))
    says = {"partition": _partition(root_config), "memory": _memory(root_config), "badges": badges}
    root = ids[("", "")] = add(-1, "", tree.model.name, "model", **says)
    parent, stage = root, -1
    several = len(tree.stages) > 1
    for run in tree.runs():
        if several and run.chunk != stage:
            where = tree.stages[run.chunk]
            last = where.first_device + where.mesh.size - 1
            label = (
                f"stage {run.chunk}" if tree.schedule.virtual_stages == 1 else f"chunk {run.chunk} on rank {where.rank}"
            )
            parent = add(
                root,
                "",
                f"{label} · devices {where.first_device}-{last}",
                "stage",
                stage=run.chunk,
                partition=repr(where.mesh),
            )
        stage = run.chunk
        config = _said(run, ())
        block = add(
            parent,
            run.path,
            run.path,
            "block",
            count=len(run.copies),
            stage=run.chunk,
            badges=_badges(config),
            partition=_partition(config),
            memory=_memory(config),
        )
        ids[(run.path, "")] = block
        placed = {"": block}
        ops = {op.name: op for op in run.block.ops}
        for name in ops:
            ids[(run.path, name)] = _place(name, ops, run, placed, add)
    return rows, ids


def _place(
    name: str,
    ops: Mapping[str, Op],
    run: BlockRun,
    placed: dict[str, int],
    add: Callable[..., int],
) -> int:
    """The row of a module or an op, after those above it; an op with others below it is one row for both."""
    if name in placed:
        return placed[name]
    above, _, label = name.rpartition(".")
    parent = _place(above, ops, run, placed, add)
    path, op = f"{run.path}.{name}", ops.get(name)
    config = run.config(op) if op else _said(run, tuple(name.split(".")))
    placed[name] = add(
        parent,
        path,
        label,
        "op" if op else "module",
        stage=run.chunk,
        badges=_badges(_op_config(run, op, config) if op else config),
        partition=_op_partition(op, config) if op else _partition(config),
        memory=_memory(config),
    )
    return placed[name]


def _op_config(run: BlockRun, op: Op, config: NodeConfig) -> NodeConfig:
    """The settings of an op besides partition and memory; `frozen` only if it has a parameter."""
    has_parameter = any(run.block.tensors[operand.tensor].kind == "parameter" for operand in op.inputs)
    return NodeConfig(recompute=config.recompute, frozen=config.frozen if has_parameter else None)


def _said(run: BlockRun, node: tuple[str, ...]) -> NodeConfig:
    """What was said of this very node of the block, by whatever selector; what its parents say is shown there."""
    node_config = NodeConfig()
    for selector, config in run.entries:
        match = match_block(selector, run.block) if selector else None
        if match and len(match.tail) == len(node) and all(w in ("*", h) for w, h in zip(match.tail, node)):
            node_config = config.over(node_config)
    return node_config


def _badges(config: NodeConfig) -> tuple[str, ...]:
    badges = []
    if config.recompute and config.recompute != "none":
        badges.append(f"recompute {config.recompute}")
    if config.exchange:
        badges.append(config.exchange)
    if config.frozen is not None:
        badges.append(FREEZING[config.frozen])
    return tuple(badges)


def _partition(config: NodeConfig) -> str:
    return " ".join(f"{dim}:{'×'.join(axes) or 'whole'}" for dim, axes in (config.partition or {}).items())


def _op_partition(op: Op, config: NodeConfig) -> str:
    cut = {dim: axes for dim, axes in (config.partition or {}).items() if dim in op.dims and axes}
    return " ".join(f"{dim}:{'×'.join(axes)}" for dim, axes in cut.items())


def _memory(config: NodeConfig) -> str:
    return " ".join(
        f"{role}={memory!r}" for role, memory in (config.memory or {}).items() if memory.axes or memory.offload
    )
