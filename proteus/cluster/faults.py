"""What is wrong with a cluster: slow devices and slow links.

A missing NIC is not here: the host without it is another host.
"""

from __future__ import annotations

from dataclasses import dataclass

from proteus.errors import TopologyError

#: what is slower than this is broken, and takes the job down
MAX_SLOWER = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Slow devices and links.

    Parameters
    ----------
    slow_devices
        ``(device, factor)``: its compute takes `factor` times as long.
    slow_links
        ``(name pattern, fraction)``: the matching links have that fraction of
        their capacity.  Patterns are those of :mod:`fnmatch`; several that
        match one link multiply.
    """

    slow_devices: tuple[tuple[int, float], ...] = ()
    slow_links: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for device, factor in self.slow_devices:
            if not 1 / MAX_SLOWER <= factor <= MAX_SLOWER:
                raise TopologyError(
                    f"device {device} slower by the factor {factor:g}; "
                    f"it must be from {1 / MAX_SLOWER:g} to {MAX_SLOWER:g}"
                )
        for pattern, fraction in self.slow_links:
            if not 1 / MAX_SLOWER <= fraction <= 1:
                raise TopologyError(
                    f"link {pattern!r} at the fraction {fraction:g}; it must be from {1 / MAX_SLOWER:g} to 1 "
                    "(a NIC that is gone is without_nic)"
                )

    def __bool__(self) -> bool:
        return bool(self.slow_devices or self.slow_links)
