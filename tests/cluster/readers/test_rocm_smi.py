"""``rocm-smi --showtopo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus.cluster import Cluster, LinkKind
from proteus.cluster.readers.rocm_smi import read_rocm_smi
from proteus.errors import TopologyError


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "tests/data/topology/rocm_3gpu.txt").read_text()


def test_a_whole_file(root: Path) -> None:
    cluster = Cluster.from_rocm_smi(root / "tests/data/topology/rocm_3gpu.txt", gpu="mi250")
    facts = cluster.report()
    assert facts["pairs"] == {"0-1": "XGMI", "0-2": "PCIE", "1-2": "XGMI"}
    assert facts["nics"] == [] and facts["nearest_nic"] == {} and facts["numa"] == {"0": 0, "1": 0, "2": 1}
    # xGMI in two hops is not a link of its own.
    direct = [link for link in cluster.host.links if link.kind == LinkKind.XGMI]
    assert {(link.src, link.dst) for link in direct} == {(0, 1), (1, 0)}


def test_one_table_with_collapsed_blanks(text: str) -> None:
    table = text.split("Link Type between two GPUs")[1].split("=====\n")[1].split("\n\n")[0]
    lines = ["== Link Type between two GPUs ==", *(" ".join(line.split()) for line in table.split("\n"))]
    survey = read_rocm_smi("\n".join(lines), "x")
    assert survey.pairs == ((0, 1, "XGMI"), (0, 2, "PCIE"), (1, 2, "XGMI"))
    assert [gpu.numa for gpu in survey.gpus] == [None] * 3


def test_a_cut_last_row(text: str) -> None:
    cut = text.split("GPU2   PCIE")[0] + "GPU2   PCIE"
    survey = read_rocm_smi(cut, "x")
    assert survey.pairs == ((0, 1, "XGMI"), (0, 2, "PCIE"), (1, 2, "XGMI"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Link Type between", "Something between", "line 1: no table 'Link Type between two GPUs'"),
        (
            "GPU1   XGMI         0            XGMI",
            "GPU1   XGMI         XGMI",
            "line 17: row GPU1 .* where it meets itself",
        ),
        ("GPU0   0            XGMI         PCIE", "GPU0   0            PCIE", "line 16: a row .* has fewer cells"),
        (
            "GPU1   XGMI         0            XGMI",
            "GPU1   XGMI   0   XGMI   XGMI",
            "line 17: row GPU1 .* has 4 cells for 3",
        ),
        ("GPU2   PCIE         XGMI", "GPU2   PCIE         XGMY", "line 18: link type 'XGMY' between GPU2 and GPU1"),
        ("GPU2   PCIE", "GPU7   PCIE", "line 18: row GPU7 has no column"),
    ],
)
def test_refusals_have_line_and_reason(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(TopologyError, match=message):
        read_rocm_smi(text.replace(old, new), "x")


def test_two_directions_that_disagree(text: str) -> None:
    survey = read_rocm_smi(text.replace("GPU2   PCIE         XGMI", "GPU2   XGMI         XGMI"), "x")
    assert survey.pairs[1] == (0, 2, "PCIE") and survey.warnings == (
        "GPU0 to GPU2 is PCIE but XGMI on the way back; PCIE is taken",
    )
