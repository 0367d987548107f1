"""GPUs: one file per chip with its boards' sheets, fitted curves, overlap and library constants, each with its source.

>>> from proteus import hardware
>>> hardware.load("h100").chip.name, hardware.find("no such GPU")
('gh100', None)
"""

from proteus.hardware.chip import Chip
from proteus.hardware.gpu import Gpu
from proteus.hardware.gpus import find, load, names, read, resolve

__all__ = ["Chip", "Gpu", "find", "load", "names", "read", "resolve"]
