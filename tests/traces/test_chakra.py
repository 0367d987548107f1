"""Chakra execution traces: Chakra's own files, round trips, damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proteus as pt
from proteus.traces.chakra import Node, NodeType, Value, read_chakra, write_chakra
from proteus.traces.kinds import KernelKind

#: all_reduce.1.et of ASTRA-sim's examples (MIT), written by Chakra 0.0.4 with Google's protobuf
ALL_REDUCE = bytes.fromhex(
    "070a05302e302e344a08011214616c6c5f7265647563655f346e7075735f314d42180752"
    "0e0a0969735f6370755f6f70d80100520d0a09636f6d6d5f747970654800520f0a09636f6d6d5f73697a6548808040"
)


def test_a_file_of_chakra(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.1.et"
    path.write_bytes(ALL_REDUCE)
    (node,) = read_chakra(path)
    assert node == Node(
        id=1,
        name="all_reduce_4npus_1MB",
        type=NodeType.COMM_COLL,
        attributes={"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20},
    )
    assert node.collective == KernelKind.ALL_REDUCE and not node.is_on_host
    write_chakra(tmp_path / "again.1.et", [node])
    assert (tmp_path / "again.1.et").read_bytes() == ALL_REDUCE  # byte for byte what protobuf writes


VALUES: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5).map(tuple),
    st.lists(st.text(max_size=5), min_size=1, max_size=5).map(tuple),
)
IDS = st.integers(0, 2**64 - 1)
NODES = st.builds(
    Node,
    id=IDS,
    name=st.text(max_size=50),
    type=st.sampled_from(NodeType),
    ctrl_deps=st.lists(IDS, max_size=4).map(tuple),
    data_deps=st.lists(IDS, max_size=4).map(tuple),
    start_us=IDS,
    duration_us=IDS,
    attributes=st.dictionaries(st.text(min_size=1, max_size=10), VALUES, max_size=4),
)


@given(st.lists(NODES, max_size=4))
def test_round_trip(nodes: list[Node]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_chakra(Path(folder, "a.et"), nodes)
        assert list(read_chakra(Path(folder, "a.et"))) == nodes


@given(st.binary(max_size=100))
def test_any_bytes_end_well(content: bytes) -> None:
    import tempfile

    for front in (b"", ALL_REDUCE[:8], ALL_REDUCE[:9]):
        with tempfile.NamedTemporaryFile(suffix=".et") as file:
            file.write(front + content)
            file.flush()
            try:
                read_chakra(file.name)
            except pt.InputError as error:
                assert str(error)


def test_a_measured_trace(tmp_path: Path) -> None:
    nodes = [
        Node(id=1, name="aten::mm", type=NodeType.COMP, start_us=5000, duration_us=30, attributes={"is_cpu_op": True}),
        Node(id=2, name="ampere_sgemm_128x64_nn", type=NodeType.COMP, start_us=5010, duration_us=40, data_deps=(1,),
             attributes={"is_cpu_op": False, "stream": 7}),
        Node(id=3, name="ncclDevKernel_Generic", type=NodeType.COMM_COLL, start_us=5030, duration_us=40,
             attributes={"is_cpu_op": False, "stream": 20, "comm_type": 2, "comm_size": 4096, "pg_name": "tp"}),
        Node(id=4, name="nothing", type=NodeType.COMP),
    ]  # fmt: skip
    write_chakra(tmp_path / "run.3.et", nodes)
    measured = pt.read_trace(tmp_path / "run.3.et")
    (times,) = measured.times
    assert (times.rank, times.exposed_s) == (3, pytest.approx({"all_gather": 20e-6}))
    assert (times.compute_s, times.comm_s) == pytest.approx((40e-6, 40e-6))
    columns = measured.to_columns()
    assert (columns["bytes"].tolist(), columns["group"].tolist()) == ([0.0, 4096.0], ["", "tp"])
    assert any("1 nodes have no duration" in warning for warning in measured.warnings)


def test_a_workload_is_no_measurement(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.1.et"
    path.write_bytes(ALL_REDUCE)
    with pytest.raises(pt.InputError, match=r"records no times \(1 all_reduce\)"):
        pt.read_trace(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (ALL_REDUCE[:-3], "is cut: the message at byte 8"),
        (ALL_REDUCE[:8] + b"\x80", "is cut in the length at byte 8"),
        (ALL_REDUCE[:8] + b"\xff\xff\xff\xff\x7f", "announces a message of"),
        (ALL_REDUCE[:8] + b"\x02\x18\x63", "node type 99 is unknown"),
        (b"hello world, this is no trace at all" * 10, "no Chakra trace|is cut"),
    ],
)
def test_damage(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.et"
    path.write_bytes(content)
    with pytest.raises(pt.InputError, match=says):
        read_chakra(path)


def test_the_collected_ones(shared: Path) -> None:
    for rank in range(4):
        (node,) = read_chakra(shared / "cases" / "traces" / f"E1_allreduce_4npus_1MB.{rank}.et")
        assert (node.id, node.collective, node.attributes["comm_size"]) == (rank, KernelKind.ALL_REDUCE, 1 << 20)
