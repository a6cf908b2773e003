"""When a flight recorder captures."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinprof.portions.agent_files import AgentFiles
from pinprof.portions.flight import FlightRecorder
from pinprof.portions.triggers import Fired, parsed
from pinprof.streams.window import Mark


class Looks:
    """A recording of which there is a window from the second look on."""

    count = 0

    def __init__(self, directory: Path) -> None:
        self.agent = AgentFiles(directory, {})

    def look(self, _: object) -> Mark:
        self.count += 1
        return Mark(self.count * 10**9, {}, {})

    @property
    def seen_s(self) -> float:
        return self.count - 1.0


class Noted(FlightRecorder):
    """What it would capture."""

    captured: list[str]

    def capture(self, fired: Fired) -> Callable[[], object]:
        self.captured.append(fired.said)
        return lambda: None

    def refuse(self, fired: Fired) -> None: ...

    def ended_early(self) -> None: ...


def test_what_happens_before_the_first_window_is_captured_with_it(tmp_path: Path) -> None:
    looks: Any = Looks(tmp_path)
    recorder = Noted(looks, tmp_path, [parsed("signal:USR2")], {signal.SIGUSR2}, 6)
    recorder.captured = []
    running: Any = type("Running", (), {"recording": True})
    recorder.watch(running)
    assert recorder.captured == []
    recorder.end(0)
    assert recorder.captured == ["SIGUSR2 arrived"]
