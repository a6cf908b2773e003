"""What every test shares."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer

from tests.support.distribution import RECORDINGS, RECORDINGS_BESIDE, Groups, group_of, place_of

# The same examples in every run, however slow the machine; --hypothesis-profile=random looks for others, quick takes a
# few of them.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("quick", settings.get_profile("same"), max_examples=8)
settings.register_profile("random", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("same")


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """The same examples in every worker: Hypothesis also draws constants of the modules that happen to be imported."""
    if settings.default.derandomize:
        constants = providers.Constants()
        providers._get_local_constants = lambda: constants


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Distribute the tests over the workers of --numprocesses."""
    return Groups(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Little that is made while tests are collected is garbage, and looks for it take a sixth of the time."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: place_of(item.nodeid))


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: with fewer looks at them the unit tests take an eighth less time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let recordings have the processors before what runs beside them."""
    if not hasattr(item.config, "workerinput"):
        return
    nice = {RECORDINGS: 0, RECORDINGS_BESIDE: 5}.get(group_of(item.nodeid), 10)
    # Only root returns to a higher priority, for a recording later on; unit tests come last.
    if os.geteuid() == 0 or item.nodeid.startswith("tests/unit/"):
        os.setpriority(os.PRIO_PROCESS, 0, nice)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Programs of the tests get signals also where this run does not.

    Background jobs ignore SIGINT and SIGQUIT, nohup SIGHUP.
    """
    # A handler is not inherited by what is executed; being ignored is.
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: lambda *_: None,
        signal.SIGHUP: lambda *_: None,
    }
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Stored rates, caches and temporary files of this run lie in a folder of its own, whatever the user has stored."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR"):
            (folder / name).mkdir()
            patch.setenv(name, str(folder / name))
        # Tests of calibration ask for one.
        patch.setenv("PINPROF_NO_CALIBRATE", "1")
        patch.setattr(tempfile, "tempdir", None)
        yield
