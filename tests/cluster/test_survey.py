"""From a survey to a host: what is assumed where the file leaves it open."""

from __future__ import annotations

from typing import Any

import pytest

from proteus.cluster import LinkKind
from proteus.cluster.survey import SeenGpu, SeenNic, Survey, host_of_survey, network_of_survey
from proteus.hardware import gpus


def survey(num_gpus: int = 8, **changes: Any) -> Survey:
    parts: dict[str, Any] = {
        "kind": "smi-topo",
        "name": "x",
        "cpus": ("cpu0", "cpu1"),
        "gpus": tuple(SeenGpu(label=str(i), parent=f"cpu{2 * i // num_gpus}") for i in range(num_gpus)),
    }
    return Survey(**(parts | changes))


@pytest.mark.parametrize(
    ("gpu", "kind", "note"),
    [
        ("h100-sxm", LinkKind.NVSWITCH, "joined by NVSwitch"),
        ("v100-sxm2-32gb", LinkKind.NVLINK, "cube mesh of a DGX-1"),
        ("mi300x", LinkKind.XGMI, "joined directly"),
    ],
)
def test_usual_links_where_the_file_tells_none(gpu: str, kind: LinkKind, note: str) -> None:
    host = host_of_survey(survey(tells_nvlink=False), gpus.load(gpu))
    assert kind in {link.kind for link in host.links} and note in host.notes[0]
    # A file that could tell and does not is believed.
    assert kind not in {link.kind for link in host_of_survey(survey(), gpus.load(gpu)).links}


def test_no_links_are_assumed_for_gpus_that_have_none() -> None:
    host = host_of_survey(survey(tells_nvlink=False), gpus.load("l40s"))
    assert host.notes == () and LinkKind.NVLINK not in {link.kind for link in host.links}


def test_a_nic_is_assumed_by_the_generation() -> None:
    rates = {}
    for gpu in ("titan-xp", "a100", "h100"):
        host = host_of_survey(survey(), gpus.load(gpu))
        assert "the file shows no NIC" in host.network_notes[0]
        rates[gpu] = next(link.capacity_Bps for link in host.links if link.kind == LinkKind.NIC)
    assert rates == {"titan-xp": 12.5e9, "a100": 25e9, "h100": 50e9}


def test_ports_that_are_not_counted_share_what_the_gpu_has() -> None:
    pairs = tuple((a, b, 0) for a in range(4) for b in range(a + 1, 4))
    host = host_of_survey(survey(4, direct=pairs, is_xgmi=True), gpus.load("mi100"))
    assert {link.capacity_Bps for link in host.links if link.kind == LinkKind.XGMI} == {138e9 / 3}


def test_nics_beside_grace_hang_from_the_cpus_of_the_gpus() -> None:
    nics = tuple(SeenNic(name=f"NIC{i}", parent="cpu2", rate_Bps=50e9) for i in range(4))
    host = host_of_survey(survey(4, cpus=("cpu0", "cpu1", "cpu2"), nics=nics), gpus.load("gb200"))
    parents = {nic.name: nic.parent for nic in host.layout.nics}
    assert sorted(parents.values()) == ["cpu0", "cpu0", "cpu1", "cpu1"]
    assert "dealt to the CPUs of the GPUs" in host.network_notes[-1]


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (["mlx5_0"], "ib"),
        (["rocep49s0"], "roce"),
        (["bnxt_re0", "bnxt_re1"], "roce"),
        (["rdmap16s27"], "efa"),
        (["eth0"], "ethernet"),
        (["ens3f0"], "ethernet"),
        (["eth0", "mlx5_0"], "ib"),
        ([], "ib"),
    ],
)
def test_what_the_nics_speak(names: list[str], family: str) -> None:
    nics = tuple(SeenNic(name=name, parent="cpu0") for name in names)
    assert network_of_survey(survey(nics=nics)) == family
    behind = tuple(SeenNic(name=f"NIC{i}", parent="cpu0", device=name) for i, name in enumerate(names))
    assert network_of_survey(survey(nics=behind)) == family
