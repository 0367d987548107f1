"""Exports of Nsight Systems, written here with the tables that it writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import proteus as pt
from tests.traces.samples import ALL_REDUCE, GEMM


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "report_rank4.sqlite"
    base = sqlite3.connect(path)
    base.executescript(
        f"""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, '{GEMM}'), (2, '{ALL_REDUCE}'), (3, 'layer 1');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
            (start INT, "end" INT, deviceId INT, streamId INT, correlationId INT, demangledName INT, shortName INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
            (5000010000, 5000030000, 4, 7, 11, 1, 1), (5000020000, 5000050000, 4, 20, 12, 2, 2),
            (5000090000, 5000080000, 4, 7, 13, 1, 1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
            (start INT, "end" INT, deviceId INT, streamId INT, correlationId INT, bytes INT, copyKind INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000060000, 5000062000, 4, 7, 14, 4096, 1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, "end" INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
            (5000001000, 5000002000, 77, 11, 1), (5000055000, 5000056000, 77, 14, 1);
        CREATE TABLE NVTX_EVENTS (start INT, "end" INT, globalTid INT, text TEXT, textId INT);
        INSERT INTO NVTX_EVENTS VALUES (5000000000, 5000003000, 77, NULL, 3), (5000054000, NULL, 77, 'mark', NULL);
        CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT);
        INSERT INTO TARGET_INFO_GPU VALUES (4, 'NVIDIA H100 80GB HBM3');
        """
    )
    base.commit()
    base.close()
    return path


def test_kernels_copies_ranges(export: Path) -> None:
    measured = pt.read_trace(export)
    columns = measured.to_columns()
    assert columns["kind"].tolist() == ["gemm", "copy", "all_reduce"]
    assert columns["operator"].tolist() == ["layer 1", "", ""]
    assert columns["bytes"].tolist() == [0, 4096, 0]
    assert (measured.ranks[0].rank, measured.ranks[0].gpu) == (4, "NVIDIA H100 80GB HBM3")
    times = measured.times[0]
    assert (times.compute_s, times.comm_s, times.overlapped_s) == pytest.approx((20e-6, 30e-6, 10e-6))
    assert (times.idle_s, times.host_bound_s) == pytest.approx((10e-6, 10e-6))
    assert any("1 events lack a time" in warning for warning in measured.warnings)


def test_tables_of_other_versions(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, "end" INT, deviceId INT, streamId INT)')
    base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 7)")
    base.commit()
    base.close()
    with pytest.raises(pt.InputError, match="holds no events of a GPU"):
        pt.read_trace(path)


def test_other_databases_and_damage(export: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    base = sqlite3.connect(other)
    base.execute("CREATE TABLE x (y INT)")
    base.commit()
    base.close()
    with pytest.raises(pt.InputError, match="holds no tables of Nsight Systems"):
        pt.read_trace(other)
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(export.read_bytes()[:5000])
    with pytest.raises(pt.InputError, match="damaged SQLite file"):
        pt.read_trace(cut)
