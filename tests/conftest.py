"""What every test may use: the folder of collected files, where it is, and the property-test profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# Examples are drawn from a fixed seed, so that a run can be repeated; PROTEUS_HYPOTHESIS=more
# draws new ones, ten times as many.  No deadline: the first example compiles the kernels.
settings.register_profile("quick", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("more", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("PROTEUS_HYPOTHESIS", "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright keeps an event loop running, and asyncio allows one in a thread."""
    items.sort(key=lambda item: "browser" in Path(item.path).parts)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs and measurements beside the repository; tests over it skip where it is not."""
    folder = ROOT.parent / "shared"
    if not (folder / "cases").is_dir():
        pytest.skip(f"no folder of collected cases at {folder}")
    return folder
