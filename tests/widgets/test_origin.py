"""Models and clusters say how to load them again, and never pretend to be built in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import proteus as pt
from proteus_widgets import Session
from proteus_widgets.origin import cluster_source, is_built_in, model_source, preset_of

GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100}


def test_a_model_from_a_file_is_not_the_built_in_one_of_its_name() -> None:
    own = pt.from_hf(GPT2)
    assert own.name == "gpt2" and not is_built_in(own)
    assert "pt.from_hf" in model_source(own) and "models.load" not in model_source(own)
    assert model_source(pt.models.load("gpt2")) == "model = pt.models.load('gpt2')"


def test_adapters_are_written_out() -> None:
    model = pt.with_lora(pt.models.load("gpt2"), pt.Lora(rank=4, targets=("mlp",)))
    found: dict[str, object] = {"pt": pt}
    exec(model_source(model), found)
    assert found["model"] == model


def test_an_untrusted_name_stays_in_the_comment() -> None:
    source = model_source(replace(pt.from_hf(GPT2), name="x\nimport os"))
    assert "\n" not in source and source.startswith("model = ...  #")


@pytest.mark.parametrize(
    "cluster", [pt.clusters.load("dgx-a100", nodes=2), pt.clusters.load("hc1").with_gpu("v100-sxm2-32gb")]
)
def test_a_preset_loads_the_same_cluster(cluster: pt.Cluster) -> None:
    preset = preset_of(cluster)
    assert preset is not None and preset.load() == cluster
    names: dict[str, object] = {}
    exec(f"import proteus as pt\n{cluster_source(cluster)}", names)
    assert names["cluster"] == cluster


@pytest.mark.parametrize("how", ["changed", "calibrated"])
def test_a_changed_cluster_is_no_preset(how: str) -> None:
    changed = pt.clusters.load("dgx-a100", nodes=2)
    if how == "changed":
        changed = changed.without_nic(0, 0)
    else:
        tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=16, global_batch=16)
        changed = changed.calibrate([(tree, 1.0)])
    assert preset_of(changed) is None and cluster_source(changed).startswith("cluster = ...  #")


@pytest.mark.parametrize(
    ("name", "reader", "gpu"),
    [("system_nvswitch.xml", "from_nccl_xml", None), ("smi_4gpu_nvswitch.txt", "from_smi_topo", "a100-80gb")],
)
def test_a_cluster_of_a_file_names_its_reader(root: Path, name: str, reader: str, gpu: str | None) -> None:
    path = root / "tests" / "data" / "topology" / name
    cluster = pt.Cluster.load_file(path, gpu=gpu)
    assert preset_of(cluster) is None
    told = f", gpu={gpu!r}" if gpu else ""
    assert cluster_source(cluster).startswith(f"cluster = pt.Cluster.{reader}({name!r}, nodes=1{told})")
    names: dict[str, object] = {}
    exec("import proteus as pt\n" + cluster_source(cluster).replace(repr(name), repr(str(path))), names)
    assert names["cluster"] == cluster


def test_a_saved_session_asks_for_what_is_not_built_in(tmp_path: Path) -> None:
    model, cluster = replace(pt.from_hf(GPT2), origin=None), pt.clusters.load("dgx-a100").with_gpu("h100-sxm")
    session = Session(pt.StrategyTree(model).parallelize(dp=2, tp=2, global_batch=4), cluster)
    path = tmp_path / "own.proteus.yaml"
    session.save(path)
    with pytest.raises(pt.InputError, match="'gpt2' is not built in; load it and pass model="):
        Session.load(path)
    again = Session.load(path, model=model)
    assert again.model == model and again.cluster == cluster and again.tree == session.tree
    Session(session.tree, cluster.without_nic(0, 0)).save(path)
    with pytest.raises(pt.InputError, match="'dgx-a100' is not built in, or was changed; load it and pass cluster="):
        Session.load(path, model=model)
