"""GPUs of YAML files: what is read is what was written, and what cannot be is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import proteus as pt
from proteus import hardware
from proteus.hardware import Gpu
from proteus.hardware.yamlfile import MAX_CHARACTERS

LIKE = """\
gpu: my-h100
like: h100-sxm
memory_MiB: 65536
TFLOPS: {bf16: 900}
"""

CHIP = """\
chip: gx100
generation: next
compute_capability: "11.0"
fallback: [gb100]
nvlink: nvlink5
has_nvls: true
boards:
  x100:
    memory_MiB: 262144
    memory_GBps: 12000
    TFLOPS: {fp32: 120, bf16: 4000, fp8: 8000}
    nvlink_GBps: 1800
    nvlink_links: 36
    wiring: nvswitch
    pcie_gen: 6
    tdp_W: 1800
    num_sms: 200
    source: made up
curves:
  memory:
    stream:
      params: {eff: 0.9, floor_s: 2e-06, ramp_s: 1e-6}
      sigma: 0.1
      rows: 10
      source: made up
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "gpu.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", hardware.names())
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    gpu = hardware.load(name)
    assert Gpu.read(write(tmp_path, gpu.to_yaml())) == gpu


def test_a_board_like_another(tmp_path: Path) -> None:
    known, gpu = hardware.load("h100-sxm"), Gpu.read(write(tmp_path, LIKE))
    assert gpu.name == "my-h100" and gpu.memory_bytes == 2**36 and gpu.chip is known.chip
    assert gpu.peak_flops == {**known.peak_flops, "bf16": 900e12}
    assert gpu == replace(
        known, name=gpu.name, memory_bytes=gpu.memory_bytes, peak_flops=gpu.peak_flops, source=gpu.source
    )
    assert gpu.source.startswith("stated by the user; otherwise as h100-sxm: ")


def test_a_whole_chip(tmp_path: Path) -> None:
    gpu = hardware.read(write(tmp_path, CHIP))
    assert gpu.generation == "next" and gpu.compute_capability == (11, 0) and gpu.chip.has_nvls
    assert [chip.name for chip in gpu.lenders] == ["gb100", "gh100", "ga100", "gv100"]
    curve = gpu.curve("memory", "stream")
    assert curve is not None and tuple(curve.params) == (0.9, 2e-6, 1e-6)


def test_several_boards_need_a_name(tmp_path: Path) -> None:
    board = "{memory_MiB: 1024, memory_GBps: 500, TFLOPS: {fp32: 10}, pcie_gen: 5, source: made up}"
    path = write(tmp_path, CHIP.replace("curves:", f"  x50: {board}\ncurves:"))
    with pytest.raises(pt.InputError, match=r"2 boards; say which: .* x100, x50"):
        hardware.read(path)
    assert hardware.read(path, "x50").memory_bytes == 2**30
    with pytest.raises(pt.InputError, match="unknown board 'x500'; nearest: x50"):
        hardware.read(path, "x500")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory_MiB: 262144", "memory_MB: 262144", "boards: x100: unknown key 'memory_MB'; nearest: memory_MiB"),
        ("memory_MiB: 262144", "tdp_w: 3", "boards: x100: unknown key 'tdp_w'; nearest: tdp_W"),
        ("    memory_MiB: 262144\n", "", "boards: x100: memory_MiB is missing"),
        ("memory_MiB: 262144", "memory_MiB: many", "memory_MiB: 'many' is not a number"),
        ("memory_MiB: 262144", "memory_MiB: .inf", "memory_MiB: inf; it must be from 1 to 1e[+]08"),
        ("memory_MiB: 262144", "memory_MiB: -1", "memory_MiB: -1; it must be from 1"),
        ("memory_MiB: 262144", "memory_MiB: true", "memory_MiB: True is not a number"),
        ("pcie_gen: 6", "pcie_gen: 9", "pcie_gen: 9 is not a whole number from 1 to 6"),
        ("nvlink_links: 36", "nvlink_links: 3.5", "nvlink_links: 3.5 is not a whole number"),
        ("nvlink_links: 36", "nvlink_links: 0", "0 links of 1.8e[+]12 B/s together; give both or neither"),
        ("wiring: nvswitch", "wiring: nvswich", "wiring: unknown word 'nvswich'; nearest: nvswitch"),
        ("bf16: 4000", "bf61: 4000", "TFLOPS: unknown key 'bf61'; nearest: "),
        ('"11.0"', "11.0", 'write it in quotes, as "9.0"'),
        ("nvlink: nvlink5\n", "", "nvlink is missing; x100 has NVLink"),
        ("nvlink: nvlink5", "nvlink: fast", "'fast' is not a family of links"),
        ("[gb100]", "[gb1000]", "fallback: unknown chip 'gb1000'; nearest: gb100"),
        ("[gb100]", "[]", "neither it nor a fallback has a gemm curve"),
        ("nvlink: nvlink5", "nvlink: nvlink5\narchitecture: sm_90", "architecture: 'sm_90' is none of AMD's"),
        ("eff: 0.9, ", "", "curves: memory: stream: params: eff is missing"),
        ("eff: 0.9", "eff: 0.9, efff: 1", "params: unknown key 'efff'; nearest: eff"),
        ("  memory:\n", "  memoir:\n", "unknown family of kernels 'memoir'; nearest: memory"),
        ("chip: gx100", "chip: gx100\nchip: gx101", "line 2: 'chip' stands twice"),
        ("chip: gx100", "chip: [gx100]", r"chip: \['gx100'\] is not text"),
        ("made up", "[made, up]", "is not text"),
        ("made up", "&a made up\n    generation: *a", "an alias"),
        ("  x100:", "  1: &x", "alias|no word"),
        ("boards:", "boards: {}\nboard:", "unknown key 'board'; nearest: boards"),
        ("chip: gx100", "chip: [", r"line .*: no YAML"),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in CHIP
    path = write(tmp_path, CHIP.replace(old, new, 1))
    with pytest.raises(pt.ProteusError, match=message) as found:
        hardware.read(path)
    assert str(found.value).startswith(str(path)) and "\n" not in str(found.value)


@pytest.mark.parametrize(
    "text", ["", "- a\n", "hello", "gpu: x\n", "a: b\n", "chip: {}\n", "gpu: x\nlike: h100\n1: 2\n"]
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match=r"gpu\.yaml"):
        hardware.read(write(tmp_path, text))


def test_an_unknown_board_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(pt.TopologyError, match=r"gpu\.yaml: unknown GPU 'h100-sxn'; nearest: h100-sxm"):
        hardware.read(write(tmp_path, "gpu: x\nlike: h100-sxn\n"))


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 5000, "- " * 20_000, "a: &a [1]\nb: [*a, *a]"])
def test_a_hostile_file_is_refused_at_once(text: str, tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match=r"deep|alias|no YAML"):
        hardware.read(write(tmp_path, text))


def test_a_file_is_small_and_text(tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="at most 1,000,000"):
        hardware.read(write(tmp_path, "#" * (MAX_CHARACTERS + 1)))
    path = tmp_path / "gpu.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(pt.InputError, match="not a text file in UTF-8"):
        hardware.read(path)
    with pytest.raises(pt.InputError, match="cannot be read"):
        hardware.read(tmp_path / "none.yaml")
