from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinprof.cli import run
from pinprof.store import default_name


@pytest.mark.parametrize(
    "arguments",
    [
        ["--record", "pinned"],
        ["pinned", "--record"],
        ["pinned", "--record", "perf"],
        ["--record", "perf", "pinned"],
        ["pinned", "--record=perf"],
        ["pinned", "--record", "--size", "1MiB"],
        ["--size", "1MiB", "--record", "pinned"],
    ],
)
def test_record_takes_a_collector_or_none_wherever_it_stands(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def note(collectors: str, command: list[str], name: str, *_: Any, **__: Any) -> int:
        asked.append((collectors, command[3], name))
        return 0

    monkeypatch.setattr(run, "record", note)
    run.command.main(arguments, standalone_mode=False)
    named = any("perf" in argument for argument in arguments)
    assert asked == [("perf" if named else "auto", "pinned", "pinned")]


@pytest.mark.parametrize(("name", "stem"), [("pinned", "pinned"), ("a b/ü\n", "a_b_ü_"), ("..", "program")])
def test_a_captures_default_name_is_safe_and_dated(name: str, stem: str) -> None:
    path = default_name(name)
    assert path.parent == Path()
    assert path.name.startswith(f"{stem}-20")
    assert path.name.endswith(".pinprof")
