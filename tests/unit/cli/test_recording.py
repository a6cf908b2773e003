from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinprof import collect, recording
from pinprof.base.errors import UsageError
from pinprof.cli import record, run
from pinprof.cli.recording import labels_of
from pinprof.streams.store import default_name


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
        asked.append((collectors, command[4], name))
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


@pytest.mark.parametrize("label", ["host", "host=", "=x", "1a=x", "a\x1b=x", "a=" + "x" * 201])
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(UsageError, match="--label"):
        labels_of([label])
    assert labels_of(["host=n1", "job=a=b c", "host=n2"]) == {"host": "n2", "job": "a=b c"}


@pytest.mark.parametrize(("given", "frequency"), [((), 19), (("--frequency", "99"), 99)])
def test_small_asks_for_little_and_what_is_given_counts(
    given: tuple[str, ...], frequency: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[collect.RecordRequest, dict[str, Any]]] = []

    def note(request: collect.RecordRequest, target: Path, *_: Any, **more: Any) -> recording.EndedRecording:
        asked.append((request, more))
        outcome = collect.Outcome("complete", 0, "", 0, {}, {}, ())
        return recording.EndedRecording(outcome)

    monkeypatch.setattr(recording, "record", note)
    monkeypatch.setattr(collect, "resolve", lambda request: request)
    arguments = ["--small", *given, "--label", "host=n1", "-o", str(tmp_path / "x"), "--", "true"]
    record.command.main(arguments, standalone_mode=False)
    ((request, more),) = asked
    assert (request.frequency, request.off_cpu, request.cuda_calls, request.gpu) == (frequency, False, False, "off")
    assert (more["labels"], more["calibrate"]) == ({"host": "n1"}, None)
