"""How far a simulation is, and the wish to end it: said by one thread, seen by another."""

from __future__ import annotations

import numpy as np

from proteus.errors import Stopped

#: places of the signal: the wish to stop, and the tasks that have ended
STOP, ENDED = 0, 1


class Progress:
    """Progress of a running simulation, and a way to stop it.

    Hand it to :func:`proteus.simulate` in one thread and look at it in
    another.  The engine reads and writes two numbers in place, so neither
    waits for the other.

    Examples
    --------
    >>> import proteus as pt
    >>> progress = pt.Progress()
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    >>> _ = pt.simulate(tree, pt.clusters.load("dgx-a100"), progress=progress)
    >>> progress.fraction
    1.0
    >>> progress.stop()
    >>> pt.simulate(tree, pt.clusters.load("dgx-a100"), progress=progress)
    Traceback (most recent call last):
    ...
    proteus.errors.Stopped: the simulation was stopped
    """

    def __init__(self) -> None:
        self.signal = np.zeros(2, np.int64)
        self._num_tasks = 0

    def begin(self, num_tasks: int) -> None:
        """The engine begins to play so many tasks."""
        self.signal[ENDED], self._num_tasks = 0, num_tasks

    @property
    def fraction(self) -> float:
        """Share of the tasks that have ended; 0 while the strategy is compiled."""
        return float(self.signal[ENDED]) / self._num_tasks if self._num_tasks else 0.0

    def stop(self) -> None:
        """Have the simulation end with :class:`proteus.errors.Stopped`, soon."""
        self.signal[STOP] = 1

    def check(self) -> None:
        """Raise :class:`proteus.errors.Stopped` when that is wished."""
        if self.signal[STOP]:
            raise Stopped("the simulation was stopped")
