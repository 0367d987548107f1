"""Carrying out a compiled strategy with real numbers, on the CPU and in float64.

::

    problem ──┬─► undivided model (reference) ──────────────┐
              └─► shards ─► executor: every task, in order ─┴─► verification

Every simulated rank holds its own shards.  Computations run on them locally,
collectives across the ranks of their group, sends between stages; nothing is
shared that the execution graph does not move.
"""
