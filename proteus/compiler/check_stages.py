"""Stages against the schedule and the devices: each chunk where its schedule runs it, no device twice or left out."""

from __future__ import annotations

from proteus.errors import StrategyError
from proteus.strategy.config import Stage
from proteus.strategy.schedules.pipeline_plan import PipelinePlan
from proteus.strategy.tree import StrategyTree


def check_stages(tree: StrategyTree, schedule: PipelinePlan) -> None:
    """Raise unless the stages of a tree are those of its schedule, on devices of their own, without gaps.

    Raises
    ------
    StrategyError
        A stage is on another pipeline rank than its schedule has it on, or
        two pipeline ranks share a device, or leave one out between them.
    """
    ranks = tuple(stage.rank for stage in tree.stages)
    if len(ranks) != len(schedule.chunk_rank):
        raise StrategyError(
            f"schedule {schedule.name} of {schedule.num_ranks} pipeline ranks has {len(schedule.chunk_rank)} chunks, "
            f"the strategy {len(ranks)} stages; give as many stages as chunks"
        )
    for number, (here, there) in enumerate(zip(ranks, schedule.chunk_rank, strict=True)):
        if here != there:
            raise StrategyError(
                f"stage {number} is on pipeline rank {here}, schedule {schedule.name} runs it on rank {there}; "
                f"the ranks of the stages must be {', '.join(map(str, schedule.chunk_rank))}"
            )
    first: dict[int, tuple[int, Stage]] = {}
    for number, stage in enumerate(tree.stages):
        first.setdefault(stage.rank, (number, stage))
    end, before = 0, None
    for number, stage in sorted(first.values(), key=lambda item: item[1].first_device):
        if stage.first_device < end:
            raise StrategyError(
                f"stage {number} begins at device {stage.first_device}, which stage {before} has; "
                f"a device runs one stage, so let stage {number} begin at device {end}"
            )
        if stage.first_device > end:
            raise StrategyError(
                f"stage {number} begins at device {stage.first_device} and leaves devices {end} to "
                f"{stage.first_device - 1} without a stage; let it begin at device {end}"
            )
        end, before = stage.first_device + stage.mesh.size, number
