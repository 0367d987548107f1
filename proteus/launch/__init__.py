"""Launch files of training frameworks: read into a model and a plan.

>>> launch = read(["--tensor-model-parallel-size", "2", "--micro-batch-size", "1"], world_size=4)
>>> launch.plan.dp, [need.name for need in launch.needs]
(2, ['model'])
"""

from proteus.launch.keys import Unused
from proteus.launch.launch import Hints, Launch, Need
from proteus.launch.reading import read

__all__ = ["Hints", "Launch", "Need", "Unused", "read"]
