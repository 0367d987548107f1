"""A file is written whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from proteus.errors import InputError
from proteus.files import atomic_write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["out.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(error), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.json"]


def test_temporary_name_ends_alike(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "trace.json.gz") as temporary:
        assert temporary.name.endswith("trace.json.gz")


def test_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "out"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "out")}
    assert len(modes) == 1


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"nowhere/out\.json cannot be written: No such file"),
        atomic_write(tmp_path / "nowhere" / "out.json"),
    ):
        pass


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"), atomic_write(tmp_path):
        pass
