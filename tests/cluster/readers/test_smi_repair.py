"""Damaged matrices are repaired with a warning or refused; the columns never shift silently."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proteus.cluster.readers.smi_topo import read_smi_topo
from proteus.errors import TopologyError
from tests.cluster.readers.samples import Sample

SAMPLE = Sample(num_gpus=4, num_nics=4, nvlink="NV12")


def wrong_answers(text: str, sample: Sample) -> tuple[list[object], tuple[str, ...]]:
    """What the reader tells that is not so, and its warnings."""
    survey = read_smi_topo(text, "x")
    names = [f"GPU{gpu.label}" for gpu in survey.gpus]
    wrong: list[object] = [
        (names[a], names[b], word) for a, b, word in survey.pairs if word != sample.word(names[a], names[b])
    ]
    wrong += [name for name, gpu in zip(names, survey.gpus, strict=True) if gpu.numa not in (None, sample.numa(name))]
    wrong += [
        (name, gpu.nearest)
        for name, gpu in zip(names, survey.gpus, strict=True)
        if gpu.nearest is not None and gpu.nearest != sample.nearest(name)
    ]
    if names != sample.gpus or [nic.name for nic in survey.nics] != sample.nics:
        wrong.append((names, [nic.name for nic in survey.nics]))
    return wrong, survey.warnings


def test_a_lost_separator() -> None:
    lines = SAMPLE.lines()
    lines[2] = lines[2].replace("NODE\tPIX", "NODEPIX")
    wrong, warnings = wrong_answers("\n".join(lines), SAMPLE)
    assert not wrong and warnings == ("line 3: 'NODEPIX' read as NODE PIX (a separator was lost)",)


def test_a_lost_cell_comes_back_from_the_other_rows() -> None:
    lines = SAMPLE.lines("  ")
    words = lines[1].split()
    lines[1] = "  ".join([*words[:6], *words[7:]])
    wrong, warnings = wrong_answers("\n".join(lines), SAMPLE)
    assert not wrong and warnings[0].startswith(
        "line 2: row GPU0 has 7 cells for 8 columns; the missing ones are taken"
    )


def test_a_lost_cell_that_nothing_tells_is_refused() -> None:
    lines = SAMPLE.lines("  ")[:5]  # no rows of NICs
    words = lines[1].split()
    lines[1] = "  ".join([*words[:6], *words[7:]])
    with pytest.raises(
        TopologyError, match=r"line 2: row GPU0 has 7 cells for 8 columns, and the other rows leave more"
    ):
        read_smi_topo("\n".join(lines), "x")


def test_an_empty_tab_field_is_one_cell() -> None:
    lines = SAMPLE.lines()[:5]
    lines[1] = lines[1].replace("\tNODE\t", "\t\t", 1)
    survey = read_smi_topo("\n".join(lines), "x")
    assert [gpu.nearest for gpu in survey.gpus] == [None, *(SAMPLE.nearest(gpu) for gpu in SAMPLE.gpus[1:])]


def test_an_added_cell_is_refused() -> None:
    lines = SAMPLE.lines()
    lines[3] = lines[3].replace("\tSYS\t", "\tSYS\tSYS\t", 1)
    with pytest.raises(TopologyError, match=r"line 4: row GPU2 has 9 cells for 8 columns; a column is missing"):
        read_smi_topo("\n".join(lines), "x")


def test_a_cut_last_row_keeps_what_it_has() -> None:
    text = "\n".join([*SAMPLE.lines()[:4], "GPU3\tNV12\tNV1"])
    wrong, warnings = wrong_answers(text, SAMPLE)
    assert not wrong and any("row GPU3 ends after 2 of 8 cells" in warning for warning in warnings)
    assert read_smi_topo(text, "x").gpus[3].nearest is None


def test_missing_rows_are_named() -> None:
    survey = read_smi_topo("\n".join(SAMPLE.lines()[:3]), "x")
    assert any("the rows of GPU2, GPU3 are missing" in warning for warning in survey.warnings)
    assert any("not told: GPU2-GPU3" in warning for warning in survey.warnings)
    assert len(survey.pairs) == 5


def test_a_header_that_lacks_a_gpu() -> None:
    lines = SAMPLE.lines()
    lines[0] = lines[0].replace("\tGPU2", "")
    wrong, warnings = wrong_answers("\n".join(lines), SAMPLE)
    assert not wrong and warnings[0] == "line 1: the header lacks GPU2, which has a row; the column is added"


def test_a_missing_header() -> None:
    wrong, warnings = wrong_answers("\n".join(SAMPLE.lines()[1:]), SAMPLE)
    assert not wrong and warnings[0].startswith("line 1: the header line is missing")
    with pytest.raises(
        TopologyError, match="line 1: the header line is missing, and row GPU0 with 8 cells does not fit 4"
    ):
        read_smi_topo("\n".join(SAMPLE.lines()[1:5]), "x")


def test_wrapped_rows_and_header() -> None:
    lines = SAMPLE.lines(" ")
    wrapped = [part for line in lines for part in (" ".join(line.split()[:7]), " ".join(line.split()[7:]))]
    wrong, warnings = wrong_answers("\n".join(wrapped), SAMPLE)
    assert not wrong and sum("wrapped" in warning for warning in warnings) == len(lines)


def test_two_rows_that_disagree() -> None:
    lines = SAMPLE.lines()
    lines[2] = lines[2].replace("GPU1\tNV12", "GPU1\tNV2")
    wrong, warnings = wrong_answers("\n".join(lines), SAMPLE)
    assert not wrong and warnings == ("line 3: GPU1-GPU0 is NV2, but line 2 has NV12, which is taken",)


def test_gpus_named_before_the_matrix_are_no_header() -> None:
    wrong, warnings = wrong_answers("\n".join(["using GPU0 GPU1", "", *SAMPLE.lines()]), SAMPLE)
    assert not wrong and warnings == ()


def test_a_second_matrix_is_not_mixed_in() -> None:
    second = Sample(num_gpus=4, num_nics=4, nvlink="NV4").lines()
    wrong, warnings = wrong_answers("\n".join([*SAMPLE.lines(), "", "second host:", *second]), SAMPLE)
    assert not wrong and warnings[-1].endswith("a second matrix begins here; only the first is read")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\tGPU0\tGPU1\tCPU Affinity\n\n", "line 1: a header of GPUs without any row"),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "line 2: "),
        ("\tGPU0\tGPU1\tGPU1\nGPU0\tX\tPIX\tPIX\n", "line 1: the columns GPU1 stand there more than once"),
        ("\tGPU0\tGPU1\nGPU5\tX\tPIX\n", "line 2: row GPU5 has no column in the header of line 1"),
    ],
)
def test_refusals_have_line_and_reason(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        read_smi_topo(text, "x")


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Sample, str]:
    """A sample, and its text with one to three separators, cells, rows or endings lost."""
    sample = Sample(
        num_gpus=draw(st.sampled_from([2, 4, 8])),
        num_nics=draw(st.sampled_from([0, 1, 2, 4])),
        nvlink=draw(st.sampled_from(["", "NV4", "NV18"])),
    )
    lines = sample.lines(draw(st.sampled_from(["\t", " ", "    "])))
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(1, len(lines) - 1))
        words = lines[number].split()
        if len(words) < 3:
            continue
        place = draw(st.integers(1, len(words) - 1))
        match draw(st.sampled_from(["fuse", "drop", "row", "end", "wrap", "double"])):
            case "fuse" if place > 1:
                words[place - 1 : place + 1] = [words[place - 1] + words[place]]
            case "drop":
                del words[place]
            case "double" if place <= sample.num_gpus + sample.num_nics:
                words.insert(place, words[place])
            case "row" if len(lines) > 3:
                del lines[number]
                continue
            case "end":
                lines = lines[: number + 1]
                words = [*words[:place], words[place][: draw(st.integers(0, len(words[place])))]]
            case "wrap":
                words.insert(place, "\n")
        lines[number] = "  ".join(words)
    return sample, "\n".join(lines)


@given(damaged())
@settings(max_examples=400)
def test_no_damage_shifts_the_columns_silently(case: tuple[Sample, str]) -> None:
    sample, text = case
    try:
        wrong, warnings = wrong_answers(text, sample)
    except TopologyError as error:
        assert "line " in str(error)
    else:
        assert not wrong or warnings, wrong
