"""Measured runs: traces of profilers, read into the same columns and words as a prediction.

::

    files ─► kineto / nsys / chakra ─► FileEvents ─► read_trace ─► Measured ─► times, steps, table, JSON
              (one reader per format)        (ranks, clocks, links)
"""

from proteus.traces.chakra import read_chakra, write_chakra
from proteus.traces.kinds import KernelKind
from proteus.traces.measured import Measured
from proteus.traces.read import read_trace

__all__ = ["KernelKind", "Measured", "read_chakra", "read_trace", "write_chakra"]
