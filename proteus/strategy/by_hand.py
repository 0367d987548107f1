"""What the configs of a tree that was built by hand show, in terms of a plan."""

from __future__ import annotations

from proteus.strategy.axes import degrees, named
from proteus.strategy.config import NodeConfig, TensorRole
from proteus.strategy.plan import DecidedPlan, Decision, Plan, decide
from proteus.strategy.tree import StrategyTree

#: what ZeRO shards, stage by stage
ZERO_ORDER: tuple[TensorRole, ...] = ("optimizer", "gradient", "parameter")


def shown(tree: StrategyTree) -> DecidedPlan:
    """The plan that comes nearest to what the tree says; what no recipe can say stays in its configs."""
    root = dict(tree.configs).get("", NodeConfig())
    memory = dict(root.memory or {})
    blocks = {"", *(block.name for block in tree.model.blocks)}
    recompute = [c.recompute for path, c in tree.configs if path in blocks and c.recompute not in (None, "none")]
    sizes = degrees(tree.stages[0].mesh)
    training = tree.training
    plan = Plan(
        dp=sizes["dp"],
        tp=sizes["tp"],
        pp=tree.num_pipeline_ranks,
        cp=sizes["cp"],
        ep=sizes["ep"],
        seq=tree.model.seq if tree.model.seq > 1 else None,
        micro_batch=training.micro_batch,
        global_batch=training.global_batch,
        schedule=tree.schedule.name,
        virtual_stages=tree.schedule.virtual_stages,
        max_in_flight=tree.schedule.max_in_flight,
        zero=sum(1 for role in ZERO_ORDER if role in memory and memory[role].axes),
        sequence_parallel=any(named((c.partition or {}).get("seq", ()), "tp") for path, c in tree.configs if path),
        recompute=recompute[-1] if recompute else "none",
        bucket_bytes=training.bucket_bytes,
        overlap_gradients=training.overlap_gradients,
        overlap_parameters=training.overlap_parameters,
        overlap_steps=training.overlap_steps,
        precision=training.precision,
        optimizer=training.optimizer,
        framework=training.framework,
    )
    decided = decide(plan, training.framework)
    # nothing of a tree built by hand was filled in from the framework's defaults
    rows = {name: Decision(value=d.value, who="proteus") if d.who == "framework" else d for name, d in decided.items()}
    return DecidedPlan(rows, training.framework)
