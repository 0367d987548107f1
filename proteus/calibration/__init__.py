"""From measured steps to a cluster's own constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proteus.calibration.constants import Constants, calibrate
from proteus.cluster import Cluster
from proteus.strategy import StrategyTree


def calibrated(cluster: Cluster, runs: Sequence[tuple[StrategyTree, float]]) -> Cluster:
    """`cluster` with constants fitted to measured runs.

    Parameters
    ----------
    runs
        ``(strategy tree, measured step time [s])`` of each.
    """
    return replace(cluster, calibration=calibrate(cluster, runs).calibration())


__all__ = ["Constants", "calibrate", "calibrated"]
