"""What tests of an installed pinprof and of its agent share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import agent
from tests.support.wheel import built, copied, shared, unpacked


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(dist: Path) -> None:
        built(copied(tmp_path_factory.mktemp("wheel-source")), dist)

    (path,) = shared(tmp_path_factory, "dist", make).glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory, "site", lambda site: unpacked(wheel, site))


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in for CUDA's driver that the agent's tests call."""
    return agent.build_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the agent writes."""
    return tmp_path / "inside"
