"""speedscope files in: sampled and evented profiles, threads, units, damage."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import FormatError, PinprofError
from pinprof.data.model import NO_NODE, Capture
from pinprof.read import read
from pinprof.read.formats import speedscope
from pinprof.report.export.speedscope import write_capture
from tests.support.examples import examples
from tests.support.profiles import Sample, capture_of, samples, weights

ANY_CAPTURE = examples(80)


def document(*profiles: dict[str, Any], frames: tuple[str, ...] = ("main", "work", "idle"), **more: Any) -> str:
    named = [{"name": name} for name in frames]
    return json.dumps({"$schema": speedscope.SCHEMA, "shared": {"frames": named}, "profiles": profiles, **more})


def parse(tmp_path: Path, text: str) -> Capture:
    path = tmp_path / "profile.speedscope.json"
    path.write_text(text)
    return speedscope.read(path)


def sampled(name: str, unit: str, stacks: list[list[int]], amounts: list[float]) -> dict[str, Any]:
    return {
        "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(amounts),
        "samples": stacks, "weights": amounts,
    }  # fmt: skip


def by_symbols(capture: Capture) -> dict[tuple[str, str], int]:
    return {
        (event, ";".join(symbol for symbol, _, _ in functions)): weight
        for (event, _, functions), weight in weights(capture).items()
    }


def test_py_spy_profiles_are_threads_of_one_event_in_nanoseconds(tmp_path: Path) -> None:
    text = document(
        sampled('Thread 0x7F12 "MainThread"', "seconds", [[0, 1], [0, 2]], [0.01, 0.02]),
        sampled("Thread 41", "seconds", [[0, 1]], [0.03]),
        exporter="py-spy@0.3.14",
    )
    found = parse(tmp_path, text)
    assert [(event.name, event.unit) for event in found.events] == [("time", "ns")]
    assert by_symbols(found) == {("time", "main;work"): 40_000_000, ("time", "main;idle"): 20_000_000}
    assert found.threads == {(0, 0x7F12): 'Thread 0x7F12 "MainThread"', (0, 41): "Thread 41"}


def test_profiles_that_are_no_threads_stay_events_of_their_own(tmp_path: Path) -> None:
    text = document(
        sampled("cpu-clock", "milliseconds", [[0, 1]], [1.5]),
        sampled("page-faults", "none", [[0, 2]], [3]),
        sampled("malloc", "kilobytes", [[0]], [2]),
        sampled("cycles", "none", [[0]], [5]),
    )
    found = parse(tmp_path, text)
    assert [(event.name, event.unit) for event in found.events] == [
        ("cpu-clock", "ns"), ("page-faults", "faults"), ("malloc", "bytes"), ("cycles", "samples"),
    ]  # fmt: skip
    assert found.samples.weight.tolist() == [1_500_000, 3, 2048, 5]


def test_evented_profiles_become_intervals_with_their_times(tmp_path: Path) -> None:
    events = [("O", 0, 0), ("O", 1, 2), ("C", 1, 5), ("O", 2, 5), ("C", 2, 9), ("C", 0, 10)]
    profile = {
        "type": "evented", "name": "run", "unit": "microseconds", "startValue": 0, "endValue": 10,
        "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events],
    }  # fmt: skip
    found = parse(tmp_path, document(profile))
    assert by_symbols(found) == {("run", "main"): 3000, ("run", "main;work"): 3000, ("run", "main;idle"): 4000}
    assert found.samples.time_ns.tolist() == [0, 2000, 5000, 9000]
    assert found.clock.source == "speedscope"
    assert found.losses.unknown_records == 0


def test_sampled_profiles_have_no_times(tmp_path: Path) -> None:
    found = parse(tmp_path, document(sampled("cpu", "seconds", [[0], [1]], [1, 1])))
    assert found.samples.time_ns.tolist() == [0, 0]
    assert found.clock.source == "none"


def test_damaged_entries_are_left_out_and_counted(tmp_path: Path) -> None:
    profile = sampled("x", "none", [[0, 1], [0, 99], [-1], ["a"], [0]], [1, 2, 3, 4, 5])
    profile["weights"][4] = -5
    profile["samples"].append([0])
    found = parse(tmp_path, document(profile, {"type": "evented", "events": [{"type": "C", "frame": 0, "at": 1}, 7]}))
    assert found.samples.weight.tolist() == [1]
    assert found.losses.unknown_records == 7
    assert "7 entries" in " ".join(found.losses.notes)


@pytest.mark.parametrize("amount", ["1e308", "1" + "0" * 400, "NaN", "-Infinity", "-1", "true", "null", '"3"'])
def test_weights_beyond_all_use_are_left_out(tmp_path: Path, amount: str) -> None:
    text = document(sampled("x", "seconds", [[0], [1]], [4321, 1])).replace("4321,", f"{amount},")
    found = parse(tmp_path, text)
    assert found.samples.weight.tolist() == [10**9]
    assert found.losses.unknown_records == 1


@pytest.mark.slow
def test_calls_nested_without_end_are_read_in_linear_time(tmp_path: Path) -> None:
    deep = [{"type": "O", "frame": number % 3, "at": number} for number in range(20_000)]
    found = parse(tmp_path, document({"type": "evented", "name": "deep", "unit": "none", "events": deep}))
    assert int(found.samples.weight.sum()) == 19_999
    assert found.losses.truncated_chains == 20_000 - 4096


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"shared": {"frames": 7}, "profiles": []}', "[" * 100_000])
def test_other_json_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError):
        parse(tmp_path, text)


def test_the_reader_is_chosen_by_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(document(sampled("cpu", "seconds", [[0]], [1])))
    assert read(path).events[0].name == "cpu"


@ANY_CAPTURE
@given(samples, st.booleans())
def test_what_the_export_writes_reads_back_the_same(tmp_path: Path, found: list[Sample], timed: bool) -> None:
    capture = capture_of(found, timed=timed)
    stream = io.StringIO()
    write_capture(capture, stream)
    again = parse(tmp_path, stream.getvalue())
    assert weights(again) == weights(capture)
    assert [(event.name, event.unit) for event in again.events] == [(e.name, e.unit) for e in capture.events]
    assert again.losses.unknown_records == 0


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["O", "C", "evented", "sampled", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "unit", "events", "samples", "weights", "frame", "at", "frames", "shared", "profiles"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@ANY_CAPTURE
@given(_json, _json)
def test_any_json_gives_a_capture_or_a_clear_error(tmp_path: Path, profiles: Any, frames: Any) -> None:
    text = json.dumps({"shared": {"frames": frames}, "profiles": profiles})
    try:
        found = parse(tmp_path, text)
    except PinprofError:
        return
    assert found.samples.stack.max(initial=NO_NODE) < len(found.stacks)


@ANY_CAPTURE
@given(st.data())
def test_any_damage_to_the_text_gives_a_capture_or_a_clear_error(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(document(sampled("cpu", "seconds", [[0, 1], [0, 2]], [1, 0.5])).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    speedscope.sniff(bytes(text))
    try:
        speedscope.read(path)
    except PinprofError:
        return
