"""PCIe trees from distances."""

from __future__ import annotations

from proteus.cluster.readers.smi_tree import place


def cells(words: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return words | {(b, a): word for (a, b), word in words.items()}


def test_switches_below_switches() -> None:
    tree = place(
        ["GPU0", "GPU1", "GPU2", "GPU3"],
        [],
        cells({
            ("GPU0", "GPU1"): "PIX", ("GPU2", "GPU3"): "PIX", ("GPU0", "GPU2"): "PXB", ("GPU0", "GPU3"): "PXB",
            ("GPU1", "GPU2"): "PXB", ("GPU1", "GPU3"): "PXB",
        }),
        [None] * 4,
    )  # fmt: skip
    assert tree.cpus == ("cpu0",)
    assert [(b.name, b.parent) for b in tree.switches] == [("pcie0", "cpu0"), ("pcie1", "pcie0"), ("pcie2", "pcie0")]
    assert tree.parents == {"GPU0": "pcie1", "GPU1": "pcie1", "GPU2": "pcie2", "GPU3": "pcie2"}


def test_a_pair_that_shows_nvlink_is_placed_by_its_nic_or_its_home() -> None:
    matrix = cells({("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "PIX"})
    assert set(place(["GPU0", "GPU1"], ["NIC0"], matrix, [None, None]).parents.values()) == {"pcie0"}
    apart = cells({("GPU0", "GPU1"): "NV4"})
    assert place(["GPU0", "GPU1"], [], apart, ["0", "0"]).parents == {"GPU0": "cpu0", "GPU1": "cpu0"}
    assert place(["GPU0", "GPU1"], [], apart, ["0", "1"]).parents == {"GPU0": "cpu0", "GPU1": "cpu1"}


def test_sys_in_one_numa_node_is_still_far() -> None:
    matrix = cells({("GPU0", "GPU1"): "SYS"})
    assert place(["GPU0", "GPU1"], [], matrix, ["0", "0"]).cpus == ("cpu0", "cpu1")


def test_far_nics_share_a_cpu_of_their_own() -> None:
    matrix = cells({("GPU0", "NIC0"): "SYS", ("GPU0", "NIC1"): "SYS", ("NIC0", "NIC1"): "SYS"})
    tree = place(["GPU0"], ["NIC0", "NIC1"], matrix, ["0"])
    assert tree.parents == {"GPU0": "cpu0", "NIC0": "cpu1", "NIC1": "cpu1"}
