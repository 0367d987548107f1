"""The tree as lines: what people see, and the ids by which spans point at nodes."""

from __future__ import annotations

from proteus.model.graph import Op
from proteus.strategy.config import NodeConfig
from proteus.strategy.tree import BlockRun, StrategyTree, TreeRow


def number_rows(tree: StrategyTree) -> tuple[list[TreeRow], dict[tuple[str, str], int]]:
    """Rows for the model, every stage, run of equal blocks, module and op; and where each op stands."""
    rows: list[TreeRow] = []
    ids: dict[tuple[str, str], int] = {}
    own = dict(tree.configs)

    def add(parent: int, path: str, label: str, kind: str, **more: object) -> int:
        rows.append(TreeRow(id=len(rows), parent=parent, path=path, label=label, kind=kind, **more))  # type: ignore[arg-type]
        return len(rows) - 1

    root_config = own.get("", NodeConfig())
    says = {"partition": _partition(root_config), "memory": _memory(root_config)}
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
        config = own.get(run.path, NodeConfig())
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
        modules: dict[str, int] = {"": block}
        for op in run.block.ops:
            steps = op.name.split(".")
            for depth in range(1, len(steps)):
                name = ".".join(steps[:depth])
                if name not in modules:
                    path = f"{run.path}.{name}"
                    config = own.get(path, NodeConfig())
                    modules[name] = add(
                        modules[".".join(steps[: depth - 1])],
                        path,
                        steps[depth - 1],
                        "module",
                        stage=run.chunk,
                        badges=_badges(config),
                        partition=_partition(config),
                        memory=_memory(config),
                    )
            resolved = run.config(op)
            ids[(run.path, op.name)] = add(
                modules[".".join(steps[:-1])],
                f"{run.path}.{op.name}",
                steps[-1],
                "op",
                stage=run.chunk,
                badges=_badges(resolved) if resolved.recompute not in (None, "none") else (),
                partition=_op_partition(run, op, resolved),
                memory=_memory(resolved),
            )
    return rows, ids


def _badges(config: NodeConfig) -> tuple[str, ...]:
    found = []
    if config.recompute and config.recompute != "none":
        found.append(f"recompute {config.recompute}")
    if config.exchange:
        found.append(config.exchange)
    return tuple(found)


def _partition(config: NodeConfig) -> str:
    return " ".join(f"{dim}:{'×'.join(axes) or 'whole'}" for dim, axes in (config.partition or {}).items())


def _op_partition(run: BlockRun, op: Op, config: NodeConfig) -> str:
    cut = {dim: axes for dim, axes in (config.partition or {}).items() if dim in op.dims and axes}
    return " ".join(f"{dim}:{'×'.join(axes)}" for dim, axes in cut.items())


def _memory(config: NodeConfig) -> str:
    return " ".join(
        f"{role}={memory!r}" for role, memory in (config.memory or {}).items() if memory.axes or memory.offload
    )
