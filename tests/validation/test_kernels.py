"""The table of kernels held out is whole, and every number that is not reached has a cause beside it."""

from __future__ import annotations

from proteus.hardware import gpus
from proteus.validation import kernels


def test_every_curve_that_ships_was_scored_or_had_no_other_source() -> None:
    scored = {(row["family"], row["chip"], row["key"]) for row in kernels.load()["scores"]}
    for chip in gpus.catalogue().chips.values():
        for family, keys in chip.curves.items():
            for key, curve in keys.items():
                measured = curve.rows > 1  # anchors and borrowed ratios are no tables
                assert not measured or (family, chip.name, key) in scored or family == "attention", (chip, family, key)


def test_families_add_up_to_their_sources() -> None:
    families, sources, agree = kernels.tables()
    for name, rows, *_ in families:
        assert int(rows) == sum(int(row[5]) for row in sources if row[0] == name)
    assert all(float(row[-1].rstrip("%")) > 0 for row in agree)


def test_a_family_above_its_number_is_named_in_the_notes() -> None:
    notes = kernels.notes()
    for name, _, same, _, every, by_source, wanted in kernels.tables()[0]:
        reached = all(float(cell.rstrip("%")) <= float(wanted.split()[0]) for cell in (every, by_source))
        family = name.split(",")[0]
        assert reached or f"**{family[0].upper()}{family[1:]}" in notes, (name, same, every, by_source)
