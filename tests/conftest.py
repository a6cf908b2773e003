"""What every test shares."""

from __future__ import annotations

from pathlib import Path

import pytest

RECORDING = Path(__file__).parent / "integration"
BROWSER = Path(__file__).parent / "browser"
RETRIES = 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a test again that failed on a real recording or in a real browser; the run's last lines name each retry.

    The kernel samples at random instants and a loaded machine delays both: one failure in a thousand runs says nothing
    about the code, three in a row do. Tests of code alone are never retried. `-p no:rerunfailures` retries none.
    """
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    for item in items:
        if RECORDING in item.path.parents or BROWSER in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=RETRIES))
