"""What every test shares."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
REAL = ("integration", "browser", "unit/collect", "unit/workloads", "unit/report/test_serve.py", "unit/test_nsys.py")
"""Where tests start programs, sample or measure."""
RETRIES = 2

# The same examples in every run, however slow the machine; --hypothesis-profile=random looks for others.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("random", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a test again that failed on real processes or in a real browser; the run's last lines name each retry.

    The kernel samples at random instants and a loaded machine delays both: one failure in a thousand runs says nothing
    about the code, three in a row do. Tests of code alone are never retried. `-p no:rerunfailures` retries none.
    """
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    places = [HERE / name for name in REAL]
    for item in items:
        if any(place in (item.path, *item.path.parents) for place in places):
            item.add_marker(pytest.mark.flaky(reruns=RETRIES))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that runs again gets a recording of its own: one unlucky recording that a module shares fails for good."""
    if getattr(item, "execution_count", 1) == 1 or not isinstance(item, pytest.Function):
        return
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if definition.scope == "module":
                definition.finish(item._request)


@pytest.fixture(scope="session", autouse=True)
def nothing_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Stored rates, caches and temporary files of this run lie in a folder of its own, whatever the user has stored."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR"):
            (folder / name).mkdir()
            patch.setenv(name, str(folder / name))
        patch.setattr(tempfile, "tempdir", None)
        yield
