"""The files of chips, against each other and against the folders that read them."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import proteus as pt
from proteus.costs import attention, conv, curves, gemm, memory
from proteus.costs.links import families
from proteus.costs.overlap import CommClass, ComputeClass
from proteus.hardware import Chip, gpus
from proteus.hardware.chip import COMM_CLASSES, COMPUTE_CLASSES
from proteus.hardware.curves import FAMILIES
from proteus.hardware.gpu import DTYPES
from tests.hardware.test_document import CHIP

CHIPS = gpus.catalogue().chips


def test_a_new_generation_is_one_new_file(tmp_path: Path) -> None:
    """The catalogue of a folder with a file more knows its boards, and they simulate."""
    for file in (Path(gpus.__file__).parent / "chips").glob("*.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "gx100.yaml").write_text(CHIP, encoding="utf-8")
    gpu = gpus.Catalogue.of_folder(tmp_path).find("NVIDIA X100")
    assert gpu is not None and gpu.generation == "next"
    cluster = pt.clusters.load("dgx-b200", nodes=2, gpu=gpu)
    tree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize(dp=4, tp=4, global_batch=16, micro_batch=1)
    new, old = pt.simulate(tree, cluster), pt.simulate(tree, pt.clusters.load("dgx-b200", nodes=2))
    assert new.step_time_s < old.step_time_s and cluster.nvls
    assert cluster.link_capacity_Bps[0] == 1800e9
    assert any("x100" in note and "gb100" in note for note in new.assumptions)


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.name)
def test_a_chip_is_whole(chip: Chip) -> None:
    assert chip.nvlink is None or chip.nvlink in families()
    assert chip.clock.source or chip.clock == type(chip.clock)()
    assert (chip.compute_capability is not None) == (chip.vendor == "nvidia") != bool(chip.architecture)
    for family, keys in chip.curves.items():
        for key, curve in keys.items():
            assert type(curve.params) is FAMILIES[family] and curve.source and 0 < curve.sigma < 1, (family, key)


def test_the_curves_are_those_of_the_cost_models() -> None:
    times = {
        "gemm": gemm.gemm_time_s,
        "attention": attention.attention_time_s,
        "conv": conv.conv_time_s,
        "memory": memory.memory_time_s,
    }
    assert times.keys() == FAMILIES.keys()
    for family, function in times.items():
        names = FAMILIES[family]._fields
        arguments = tuple(inspect.signature(function).parameters)
        assert arguments[arguments.index("eff") :][: len(names)] == names


def test_the_classes_are_those_of_the_cost_models() -> None:
    assert tuple(kind.name.lower() for kind in ComputeClass) == COMPUTE_CLASSES
    assert tuple(kind.name.lower() for kind in CommClass) == COMM_CLASSES
    assert set(DTYPES) <= curves.STAND_INS.keys()


def test_an_unmeasured_device_borrows_from_its_generation() -> None:
    chip, lenders = gpus.unmeasured("h900", "hopper")
    assert not chip.curves and lenders[0].name == "gh100" and chip.overlap == lenders[0].overlap
    _, lenders = gpus.unmeasured("x", "cpu")
    assert lenders[0].name == gpus.DEFAULT_CHIP


def test_fitting_writes_the_files_as_they_are(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What benchmarks/fit_ops.py writes for the curves that ship is the text that ships."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    chipfiles = importlib.import_module("opfit.chipfiles")
    document = importlib.import_module("proteus.hardware.document")
    for chip in CHIPS.values():
        text = (chipfiles.FOLDER / f"{chip.name}.yaml").read_text("utf-8")
        assert chipfiles.with_curves(text, document.curves_values(chip.curves)) == text
