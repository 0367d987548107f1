"""Three constants of a cluster from a few measured runs.

A run says one number, its step time; what it says about computation, network
and host depends on how much of the step each of them is.  The fit is the most
likely one when every constant is known beforehand to within its prior
spread: with one run the surprise is shared by what could have caused it, with
more runs they part.

    log(measured / predicted) = sum over constants of elasticity x log(constant)

The elasticities are differences of simulations; the fit is repeated because
they change as the constants do.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from proteus.arguments import A, Each, Real, takes
from proteus.cluster import Cluster
from proteus.costs.ops import Calibration
from proteus.costs.work import Family
from proteus.errors import InputError
from proteus.files import atomic_write
from proteus.simulate import simulate
from proteus.strategy import StrategyTree

#: What a constant may be off by before any run is seen, as a log: the mean errors of kernels, of collectives
#: and of launch-bound steps on held-out sources (docs/accuracy.md).
PRIOR = {"compute": 0.10, "network": 0.25, "host": 0.40}
#: what a step time is off by that no constant explains, as a log: the spread between repetitions of a run
NOISE = 0.02
#: relative step of the difference quotients
STEP = 0.05
#: repetitions of the fit; it settles in two or three
ROUNDS = 3
#: no constant is believed beyond this factor
LARGEST = 4.0


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A strategy tree and its measured step time."""

    rule: ClassVar[str] = "(strategy tree, measured step time in seconds, above 0)"

    def check(self, value: object) -> tuple[StrategyTree, float]:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ValueError(self.rule)
        tree, measured_s = value
        return A(StrategyTree, self.rule).check(tree), Real(above=0.0).check(measured_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Factors on times: of kernels, of collectives, of the host.

    >>> Constants(compute=1.1).calibration().scale[Family.GEMM]
    1.1
    """

    compute: float = 1.0
    network: float = 1.0
    host: float = 1.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in PRIOR:
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 1.0 / LARGEST <= value <= LARGEST:
                raise InputError(f"{name}={value!r}; a factor lies between {1.0 / LARGEST:g} and {LARGEST:g}")

    def calibration(self) -> Calibration:
        """As the simulator takes it; the same object for the same constants, so that prices are remembered."""
        return _calibration(self)

    def believed(self, share: float) -> Constants:
        """The constants where only a part of their logarithms is believed.

        >>> Constants(compute=1.21).believed(0.5).compute
        1.1
        """
        assert 0.0 <= share <= 1.0, share
        return replace(self, **{name: getattr(self, name) ** share for name in PRIOR})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the constants, for example beside the file of the cluster."""
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Constants:
        """Read what :meth:`save` wrote."""
        try:
            row = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not a file of constants ({error})") from error
        known = {field.name for field in fields(Constants)}
        if not isinstance(row, dict) or not set(row) <= known:
            raise InputError(f"{path}: not a file of constants; it has {', '.join(sorted(known))}")
        return Constants(**row)


@lru_cache(maxsize=256)
def _calibration(constants: Constants) -> Calibration:
    scale = dict.fromkeys(Family, constants.compute)
    source = constants.source or "calibration"
    return Calibration(scale=scale, network=constants.network, host=constants.host, source=source)


@takes(InputError, cluster=A(Cluster), runs=Each(MeasuredRun()))
def calibrate(cluster: Cluster, runs: Sequence[tuple[StrategyTree, float]]) -> Constants:
    """The constants fitted to `runs`.

    Parameters
    ----------
    runs
        ``(tree, measured step time [s])`` of each; one is enough.

    Examples
    --------
    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    >>> cluster = pt.clusters.load("dgx-a100")
    >>> slow = pt.simulate(tree, cluster).step_time_s * 1.2
    >>> abs(pt.simulate(tree, cluster.calibrate([(tree, slow)])).step_time_s / slow - 1) < 0.03
    True
    """
    if not runs:
        raise InputError("no measured runs; one is enough")
    names = tuple(PRIOR)
    bare = replace(cluster, calibration=None)
    constants = np.zeros(len(names))
    measured = np.log([measured_s for _, measured_s in runs])
    for _ in range(ROUNDS):
        base = _log_times(bare, runs, constants)
        slopes = np.stack(
            [(_log_times(bare, runs, constants + STEP * unit) - base) / STEP for unit in np.eye(len(names))]
        )
        constants = _most_likely(slopes.T, measured - base + slopes.T @ constants)
    factors = np.exp(np.clip(constants, -math.log(LARGEST), math.log(LARGEST)))
    return Constants(
        **dict(zip(names, factors.tolist(), strict=True)), source=f"{len(runs)} measured runs on {cluster.name}"
    )


def _log_times(cluster: Cluster, runs: Sequence[tuple[StrategyTree, float]], logs: np.ndarray) -> np.ndarray:
    factors = np.exp(np.clip(logs, -math.log(LARGEST), math.log(LARGEST))).tolist()
    calibration = Constants(**dict(zip(PRIOR, factors, strict=True))).calibration()
    return np.log([simulate(tree, cluster, calibration=calibration).step_time_s for tree, _ in runs])


def _most_likely(slopes: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Least squares of ``slopes @ x = target`` within the noise and ``x = 0`` within the priors."""
    prior = np.diag([1.0 / spread for spread in PRIOR.values()])
    rows = np.concatenate([slopes / NOISE, prior])
    right = np.concatenate([target / NOISE, np.zeros(len(PRIOR))])
    solution: np.ndarray = np.linalg.lstsq(rows, right, rcond=None)[0]
    return solution
