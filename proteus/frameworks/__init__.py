"""What training frameworks do: their kernels, runtime, memory, host times and defaults, by version.

One file per framework in ``data/``, each value with its source; a user's own
file has the same form (:meth:`Framework.read`).  ``kernels.yaml`` says which
GPUs a fused attention kernel runs on.

>>> load("nemo@24.05").attention, load("nemo@25.02").defaults["pipeline_cut"]
('flash2', 'filled')
"""

from proteus.frameworks.catalogue import DEFAULT, find, load, names
from proteus.frameworks.framework import KINDS as FIELDS
from proteus.frameworks.framework import Framework, OnGpu
from proteus.frameworks.rules import FACTS

__all__ = ["DEFAULT", "FACTS", "FIELDS", "Framework", "OnGpu", "find", "load", "names"]
