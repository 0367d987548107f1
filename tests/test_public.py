"""`import proteus as pt`: what is there, that nothing hides a module, and that the core runs without Jupyter."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import proteus as pt
from proteus.search.run import search as search_function


def test_completion_shows_the_api_and_nothing_else() -> None:
    assert dir(pt) == sorted(pt.__all__)
    assert set(pt.__all__) >= {"Framework", "Gpu", "Plan", "Result", "Stage", "StrategyTree", "__version__", "simulate"}
    for name in pt.__all__:
        assert getattr(pt, name) is not None
    with pytest.raises(AttributeError, match="module 'proteus' has no attribute 'serach'"):
        pt.serach  # type: ignore[attr-defined]  # noqa: B018


def test_public_classes_are_those_of_the_values() -> None:
    cluster = pt.clusters.load("dgx-a100")
    tree = pt.StrategyTree(pt.models.load("tiny-gpt")).parallelize(dp=2)
    assert isinstance(cluster.gpu(), pt.Gpu)
    assert isinstance(tree.plan, pt.Plan)
    assert isinstance(tree.training.framework, pt.Framework)
    assert isinstance(tree.stages[0], pt.Stage)
    assert isinstance(pt.simulate(tree, cluster), pt.Result)


def test_the_version_is_the_package_s(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pt.__version__ == version("proteus-sim")
    assert pt.__version__ == tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.delitem(vars(pt), "__version__")
    monkeypatch.setattr("importlib.metadata.version", absent)
    assert pt.__version__ == "unknown"
    monkeypatch.delitem(vars(pt), "__version__")  # so that the next reader looks again


def module_names() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(pt.__path__, "proteus.")]
    return [name for name in names if not name.endswith("__main__")]


@pytest.mark.parametrize("name", module_names())
def test_no_name_hides_a_module(name: str) -> None:
    if name.startswith(("proteus.verify.", "proteus.profiling.")):
        pytest.importorskip("torch")
    spaces: dict[str, Any] = {}
    exec(f"import {name} as module", spaces)  # what a user writes; it reads attributes, where import_module does not
    assert spaces["module"] is importlib.import_module(name)


def test_modules_that_can_be_called() -> None:
    assert inspect.signature(pt.search) == inspect.signature(search_function)
    assert next(iter(inspect.signature(pt.simulate).parameters)) == "tree"
    call = type(pt.search).__call__
    assert (call.__doc__ or "").startswith("The fastest strategies that fit.")
    with pytest.raises(pt.InputError, match=r"search\(\): missing a required argument: 'global_batch'"):
        pt.search(pt.models.load("tiny-gpt"), pt.clusters.load("dgx-a100"))  # type: ignore[call-arg]


# -- without Jupyter ---------------------------------------------------------------

BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {libraries!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without_lab(root: Path, code: str, *, also: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run code in a Python in which the libraries of the extras are not there, nor what they bring along."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lab = [line.partition(">")[0] for line in project["optional-dependencies"]["lab"]]
    assert len(lab) > 3
    libraries = {*lab, "IPython", "torch", "dask", "distributed", "pandas", "scipy", *also}
    program = BLOCK.format(libraries=libraries) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)


def test_the_core_simulates_without_jupyter(root: Path) -> None:
    run = without_lab(
        root,
        """
import proteus as pt
from proteus.cli import main

result = pt.simulate(pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8), pt.clusters.load("dgx-a100"))
assert result.step_time_s > 0 and "text/html" in result._repr_mimebundle_()
assert main(["simulate", "--model", "gpt2", "--cluster", "dgx-a100", "--dp", "8", "--json"]) == 0
assert main(["list", "gpus"]) == 0
assert "traitlets" not in sys.modules and "jupyterlab" not in sys.modules
""",
    )
    assert run.returncode == 0, run.stderr
    assert '"step_time_s"' in run.stdout


def test_what_needs_the_extra_says_so(root: Path) -> None:
    run = without_lab(
        root,
        """
import proteus as pt
from proteus.cli import main

tree, cluster = pt.StrategyTree(pt.models.load("tiny-gpt")).parallelize(dp=2), pt.clusters.load("dgx-a100")
for call in (lambda: pt.lab(tree, cluster), lambda: pt.simulate(tree, cluster).to_html("x.html")):
    try:
        call()
    except pt.InputError as error:
        print(error)
assert main(["lab"]) == 2
""",
    )
    assert run.returncode == 0, run.stderr
    lines = [*run.stdout.splitlines(), *run.stderr.splitlines()]
    assert len(lines) == 3
    for line, feature in zip(lines, ("pt.lab", "an HTML report", "proteus: proteus lab")):
        assert line.startswith(f"{feature} needs ") and line.endswith("; install it: pip install 'proteus-sim[lab]'")


def test_a_fault_of_ours_is_no_missing_extra() -> None:
    from proteus.errors import needs_extra

    with pytest.raises(ModuleNotFoundError), needs_extra("lab", "the workbench"):
        importlib.import_module("proteus.no_such_module")


def test_core_dependencies_are_those_it_imports(root: Path) -> None:
    """Neither more than the core loads, nor fewer."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    names = {line.partition(">")[0].lower() for line in project["dependencies"]}
    assert names == {"numpy", "numba", "networkx", "pyyaml"}
