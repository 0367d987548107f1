"""Arrays of records: what is touched together lies together."""

from __future__ import annotations

import numpy as np


def record(**names: str) -> np.dtype[np.void]:
    """A record type: names of fields by their type; give the largest types first, so that there are no holes.

    >>> record(f8="left_s", i4="run op_class").itemsize
    16
    """
    return np.dtype([(name, kind) for kind, row in names.items() for name in row.split()], align=True)
