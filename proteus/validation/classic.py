"""Benchmarks of named models: images, BERT, recommendation; data parallel, one batch per GPU."""

from __future__ import annotations

from proteus.errors import ModelError
from proteus.strategy import StrategyTree
from proteus.validation.frameworks import Framework
from proteus.validation.runs import Run


def classic_case(run: Run, framework: Framework, assumed: list[str]) -> StrategyTree:
    """The strategy tree of a benchmark."""
    raise ModelError(f"model {run.model!r} is not in the zoo")
