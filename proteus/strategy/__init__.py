"""The strategy tree: how a model is spread over devices, as a value."""

from proteus.strategy.config import Memory, NodeConfig, ScheduleConfig, Stage, Training
from proteus.strategy.tree import StrategyTree, TreeRow

__all__ = ["Memory", "NodeConfig", "ScheduleConfig", "Stage", "StrategyTree", "Training", "TreeRow"]
