"""The wheel carries the data files, bundles and tutorials without a manifest; the source archive what builds them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

#: folder of the checkout → where it lies in the wheel
PLACES = {"proteus": "proteus", "widgets/proteus_widgets": "proteus_widgets", "notebooks": "proteus/notebooks"}
NOT_SHIPPED = {"__pycache__", ".ipynb_checkpoints"}


def build(root: Path, target: str, folder: Path) -> Path:
    """The one archive that hatchling builds from this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def names(root: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Paths in a wheel built from this checkout."""
    with zipfile.ZipFile(build(root, "wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        return set(archive.namelist())


def shipped(root: Path, place: str) -> list[Path]:
    files = [path for path in (root / place).rglob("*") if path.is_file()]
    return [path for path in files if not NOT_SHIPPED & set(path.parts) and not path.name.startswith(".")]


@pytest.mark.parametrize("place", PLACES)
def test_every_file_is_in_it(place: str, root: Path, names: set[str]) -> None:
    expected = {f"{PLACES[place]}/{path.relative_to(root / place).as_posix()}" for path in shipped(root, place)}
    assert expected - names == set()


def test_nothing_else_is_in_it(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"proteus", "proteus_widgets"}


def test_data_and_typing_marker(names: set[str]) -> None:
    assert "proteus/py.typed" in names
    assert any(name.endswith(".yaml") for name in names) and any(name.endswith(".js") for name in names)


def test_bundles_are_in_it(names: set[str]) -> None:
    assert {"proteus_widgets/static/dist/report.js", "proteus_widgets/static/dist/report.css"} <= names


def test_source_archive_has_the_bundles_and_their_bundler_alone(root: Path, tmp_path: Path) -> None:
    with tarfile.open(build(root, "sdist", tmp_path)) as archive:
        paths = {name.partition("/")[2] for name in archive.getnames()}
    assert {"widgets/bundle.js", "widgets/package-lock.json", "widgets/proteus_widgets/static/dist/report.js"} <= paths
    assert not [path for path in paths if "node_modules" in path]
