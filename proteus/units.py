"""Units: SI inside, human units only in data files and on screen.

Core numbers carry their unit as a suffix: ``_s``, ``_bytes``, ``_Bps``,
``_flop``, ``_flops``.  GB is 1e9 bytes, GiB is 2**30.
"""

from __future__ import annotations

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12
KiB, MiB, GiB = 2**10, 2**20, 2**30
US, MS = 1e-6, 1e-3
TFLOP = 1e12
#: bytes per second of one gigabit per second
GBIT_PER_S = 1e9 / 8

#: bytes per element of the dtypes that Proteus knows
DTYPE_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int64": 8, "int32": 4, "bool": 1}


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    for size, unit in steps:
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    size, unit = steps[-1]
    return f"{value / size:.4g} {unit}"


def format_bytes(value: float) -> str:
    """Bytes for people, in binary units.

    >>> format_bytes(3 * 2**30)
    '3 GiB'
    """
    return _scaled(value, [(2**40, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB"), (1, "B")])


def format_seconds(value: float) -> str:
    """Seconds for people.

    >>> format_seconds(0.0123)
    '12.3 ms'
    """
    return _scaled(value, [(1, "s"), (MS, "ms"), (US, "µs"), (1e-9, "ns")])


def format_count(value: float) -> str:
    """A count for people.

    >>> format_count(8_030_261_248)
    '8.03 B'
    """
    return _scaled(value, [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1, "")]).strip()
