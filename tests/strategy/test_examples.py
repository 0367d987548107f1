"""The example strategies of the paper's six models run on its three clusters (section VIII)."""

from __future__ import annotations

from pathlib import Path

import pytest

import proteus as pt
from proteus.strategy import StrategyTree

FILES = sorted((Path(__file__).parents[2] / "examples" / "strategies").glob("*.yaml"))
MODELS = {"resnet50", "inception-v3", "vgg19", "gpt2", "gpt-1.5b", "dlrm"}


def test_every_model_has_both_strategies() -> None:
    assert {path.stem for path in FILES} == {f"{model}-{kind}" for model in MODELS for kind in ("dp", "expert")}


@pytest.mark.parametrize("cluster", ["hc1", "hc2", "hc3"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_simulate(path: Path, cluster: str) -> None:
    tree = StrategyTree.from_yaml(path.read_text(encoding="utf-8"), source=path.name)
    result = pt.simulate(tree, pt.clusters.load(cluster))
    assert result.num_devices == 8
    # the paper's own verdict: GPT-1.5B does not fit a Titan Xp without cutting it
    assert result.fits == ((path.stem, cluster) != ("gpt-1.5b-dp", "hc1"))


def test_cutting_the_large_layers_beats_data_parallel_on_a_slow_network() -> None:
    """Why the paper calls these strategies expert: the gradients of the largest weights are never sent."""
    hc1 = pt.clusters.load("hc1")
    for model in ("vgg19", "dlrm"):
        plain, expert = (
            pt.simulate(StrategyTree.from_yaml(path.read_text(encoding="utf-8")), hc1).step_time_s
            for path in FILES
            if path.stem.startswith(f"{model}-")
        )
        assert expert < plain
