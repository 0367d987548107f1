"""Seconds of a kernel that only moves memory."""

from __future__ import annotations


def memory_time_s(
    moved_bytes: float,
    access_eff: float,
    access_sm_Bps: float,
    memory_Bps: float,
    num_sms: float,
    eff: float,
    floor_s: float,
    ramp_s: float,
) -> float:
    """Time to move `moved_bytes` [s].

    Parameters
    ----------
    access_eff
        Bandwidth of this access pattern over the elementwise one.
    access_sm_Bps
        What one SM gets through besides: reductions within a row wait for
        each other, so that SMs and not memory set the pace [B/s].

    Notes
    -----
    Not modelled: tensors that still lie in the L2 cache.

    >>> round(memory_time_s(2e9, 1.0, 1e15, 2e12, 108.0, 0.9, 2e-6, 1e-6) * 1e3, 3)
    1.114
    """
    stream_s = moved_bytes / (memory_Bps * eff * access_eff) + moved_bytes / (num_sms * access_sm_Bps)
    return floor_s + stream_s + ramp_s * stream_s / (stream_s + floor_s)
