"""Training steps of a trace that has no ``ProfilerStep``: the kernels repeat.

The names of a device's compute kernels, in order, are a text; a step is the
lag at which the text equals itself best::

    a b b c  a b b c  a b b c        lag 4: all equal; lag 1: one in four
"""

from __future__ import annotations

import numpy as np

#: share of kernels that must have the same name one step later
_MIN_EQUAL = 0.9
#: lags whose shares differ by less are equally good: the shorter one is the step, the longer a multiple
_SAME = 0.01
#: kernels; fewer in a step are no training step
_MIN_KERNELS = 4
#: kernels that are looked at; a step of the largest models launches some ten thousand
_MAX_KERNELS = 2_000_000


def find_steps(name: np.ndarray, is_optimizer: np.ndarray) -> np.ndarray:
    """Rows at which the steps of a sequence of kernels begin, and the end of the last; empty where it has no period.

    Parameters
    ----------
    name
        int[n]: number of each kernel's name, in order of their starts.
    is_optimizer
        bool[n]: kernels that update parameters.  A period without one,
        where the sequence has some, is a micro-batch and no step.  Steps
        end after their last update.

    Examples
    --------
    >>> names = np.array([9] + [1, 2, 2, 3, 4] * 3 + [1, 2])
    >>> find_steps(names, names == 4)
    array([ 1,  6, 11, 16])
    """
    name, is_optimizer = name[:_MAX_KERNELS], is_optimizer[:_MAX_KERNELS]
    lag = _period(name, is_optimizer)
    if not lag:
        return np.empty(0, np.int64)
    n = len(name)
    equal = name[:-lag] == name[lag:]
    # the first row from which on one period repeats, so that a warm-up in front is left out
    run = np.concatenate([[0], np.cumsum(equal)])
    good = np.flatnonzero(run[lag:] - run[:-lag] >= _MIN_EQUAL * lag) if n >= 2 * lag else np.empty(0, np.int64)
    if not len(good):
        return np.empty(0, np.int64)
    first = int(good[0])
    updates = np.flatnonzero(is_optimizer[first : first + 2 * lag])
    if len(updates):
        # the longest way from one update to the next is a forward and a backward pass: a step begins there
        row = int(np.diff(updates).argmax()) if len(updates) > 1 else 0
        first += (int(updates[row]) + 1) % lag
    starts = np.arange(first, n + 1, lag)
    return starts if len(starts) > 1 else np.empty(0, np.int64)


def _period(name: np.ndarray, is_optimizer: np.ndarray) -> int:
    """The lag of the best self-likeness; 0 where none is good."""
    n = len(name)
    if n < 2 * _MIN_KERNELS:
        return 0
    # a random sign per name makes the correlation count equal names; the exact count follows for the best lags
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(int(name.max()) + 1,))
    signal = signs[name]
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(signal, size)
    likeness = np.fft.irfft(spectrum * spectrum.conj(), size)[: n // 2 + 1]
    likeness = likeness / (n - np.arange(len(likeness)))
    likeness[:_MIN_KERNELS] = -1.0
    candidates = np.flatnonzero(likeness >= likeness.max() - 0.2)
    candidates = candidates[np.argsort(-likeness[candidates], kind="stable")][:64]
    shares = {}
    for lag in sorted(candidates.tolist()):
        share = float((name[:-lag] == name[lag:]).mean())
        if share >= _MIN_EQUAL and _has_updates(is_optimizer, lag):
            shares[lag] = share
    if not shares:
        return 0
    best = max(shares.values())
    return min(lag for lag, share in shares.items() if share >= best - _SAME)


def _has_updates(is_optimizer: np.ndarray, lag: int) -> bool:
    """Whether updates, where there are any, come again `lag` kernels later."""
    if not is_optimizer.any():
        return True
    again = is_optimizer[lag:][is_optimizer[:-lag]]
    return bool(len(again)) and float(again.mean()) >= _MIN_EQUAL
