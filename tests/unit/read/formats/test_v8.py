"""CPU profiles of V8: files of today and of old, and the events of traces that hold them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyze import analyze
from pinprof.base.errors import CaptureError, FormatError, PinprofError
from pinprof.data.model import Capture
from pinprof.read import read
from pinprof.read.assembly import MAX_DEPTH
from tests.support.examples import examples

ANY_PROFILE = examples(100)


def node(number: int, name: str, children: list[int] | None = None, line: int = -1, **more: Any) -> dict[str, Any]:
    frame = {"functionName": name, "url": "file:///app/main.js" if line >= 0 else "", "lineNumber": line}
    return {"id": number, "callFrame": frame, "children": children or [], **more}


NODES = [
    node(1, "(root)", [2, 5]),
    node(2, "main", [3, 4], 0),
    node(3, "parse", line=11),
    node(4, "", line=20),
    node(5, "(idle)"),
]
TIMES = {"startTime": 1000, "endTime": 1900, "samples": [3, 5, 2, 4], "timeDeltas": [0, 300, 400, 100]}
PROFILE: dict[str, Any] = {"nodes": NODES, **TIMES}


def parse(folder: Path, content: object, name: str = "a.cpuprofile") -> Capture:
    (folder / name).write_text(json.dumps(content))
    return read(folder / name)


def stacks(capture: Capture) -> dict[str, int]:
    """`main;parse` -> weight."""
    tree, found = capture.stacks, dict[str, int]()
    for stack, weight in zip(capture.samples.stack.tolist(), capture.samples.weight.tolist(), strict=True):
        names = []
        while stack >= 0:
            names.append(tree.frames.function[tree.frame[stack]])
            stack = int(tree.parent[stack])
        key = ";".join(reversed(names))
        found[key] = found.get(key, 0) + weight
    return found


MAIN, PARSE, UNNAMED = "main (main.js:1)", "parse (main.js:12)", "(anonymous) (main.js:21)"


def test_a_sample_lasts_until_the_next_one_and_idle_time_is_left_out(tmp_path: Path) -> None:
    capture = parse(tmp_path, PROFILE)
    assert stacks(capture) == {f"{MAIN};{PARSE}": 300_000, MAIN: 100_000, f"{MAIN};{UNNAMED}": 100_000}
    assert capture.samples.time_ns.tolist() == [1_000_000, 1_700_000, 1_800_000]
    assert any("400 µs" in note for note in capture.losses.notes)


def test_the_last_sample_lasts_no_longer_than_any_other(tmp_path: Path) -> None:
    assert stacks(parse(tmp_path, PROFILE | {"endTime": 10**9}))[f"{MAIN};{UNNAMED}"] == 400_000


def test_samples_that_come_out_of_order_are_sorted(tmp_path: Path) -> None:
    swapped = PROFILE | {"samples": [3, 2, 5, 4], "timeDeltas": [0, 700, -400, 500]}
    assert stacks(parse(tmp_path, swapped)) == stacks(parse(tmp_path, PROFILE))


def test_the_time_is_not_called_time_on_processors(tmp_path: Path) -> None:
    run = analyze(parse(tmp_path, PROFILE))
    assert "a time that may include waits" in run.headline
    assert "60 % of its 500 µs of JavaScript is in parse (main.js:12)" in run.headline


def test_nodes_that_name_their_callers_are_read_like_those_that_name_whom_they_call(tmp_path: Path) -> None:
    flat = [
        {name: value for name, value in one.items() if name != "children"} | {"parent": parent}
        for one, parent in zip(NODES, (0, 1, 2, 2, 1), strict=True)
    ]
    assert stacks(parse(tmp_path, PROFILE | {"nodes": flat})) == stacks(parse(tmp_path, PROFILE))


def test_an_old_profile_holds_its_tree_nested_and_its_times_apart(tmp_path: Path) -> None:
    def nested(number: int, name: str, children: list[Any] = [], line: int = -1) -> dict[str, Any]:  # noqa: B006
        return {
            "functionName": name, "url": "/app/main.js" if line >= 0 else "", "lineNumber": line, "id": number,
            "hitCount": 1, "children": children,
        }  # fmt: skip

    tree = nested(1, "(root)", [nested(2, "main", [nested(3, "parse", [], 11), nested(4, "", [], 20)], 0)])
    old = {"head": tree, "startTime": 1, "samples": [3, 2, 4], "timestamps": [1000, 1000, 1700, 1800]}
    assert stacks(parse(tmp_path, old)) == {f"{MAIN};{PARSE}": 700_000, MAIN: 100_000, f"{MAIN};{UNNAMED}": 0}
    untimed = parse(tmp_path, {"typeId": "CPU", "head": tree})
    assert stacks(untimed) == {f"{MAIN};{PARSE}": 1, MAIN: 1, f"{MAIN};{UNNAMED}": 1}
    assert [event.unit for event in untimed.events] == ["samples"]


def test_nodes_of_one_number_stay_apart(tmp_path: Path) -> None:
    inner = {"functionName": "inner", "id": 0, "hitCount": 4, "children": []}
    tree = {"functionName": "outer", "id": 0, "hitCount": 0, "children": [inner]}
    assert stacks(parse(tmp_path, {"head": tree})) == {"outer;inner": 4}


def test_chunks_of_a_trace_are_one_profile_of_the_thread_that_begins_it(tmp_path: Path) -> None:
    def event(name: str, tid: int, data: dict[str, Any]) -> dict[str, Any]:
        return {"ph": "P", "name": name, "pid": 7, "tid": tid, "id": "0x1", "ts": 1000, "args": {"data": data}}

    trace = [
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "CrRendererMain"}},
        event("Profile", 8, {"startTime": 1000}),
        event("ProfileChunk", 9, {"cpuProfile": {"nodes": NODES[:3], "samples": [3, 3]}, "timeDeltas": [0, 300]}),
        event("ProfileChunk", 9, {"cpuProfile": {"nodes": NODES[3:], "samples": [4]}, "timeDeltas": [400]}),
        event("ProfileChunk", 9, {"endTime": 1800}),
        {"ph": "X", "name": "task", "cat": "toplevel", "pid": 7, "tid": 8, "ts": 1250, "dur": 550, "args": {}},
    ]
    capture = parse(tmp_path, {"traceEvents": trace}, "trace.json")
    assert stacks(capture) == {f"{MAIN};{PARSE}": 700_000, f"{MAIN};{UNNAMED}": 100_000}
    assert (set(capture.samples.pid.tolist()), set(capture.samples.tid.tolist())) == ({7}, {8})
    assert capture.threads[7, 8] == "CrRendererMain"
    (task,) = analyze(capture).ranges
    assert task.events[0].total == 500_000


def test_a_trace_may_hold_a_whole_profile_of_each_thread(tmp_path: Path) -> None:
    whole = [
        {"ph": "I", "name": "CpuProfile", "pid": 7, "tid": tid, "ts": 1, "args": {"data": {"cpuProfile": PROFILE}}}
        for tid in (8, 9)
    ]
    capture = parse(tmp_path, whole, "trace.json")
    assert sorted(set(capture.samples.tid.tolist())) == [8, 9]
    assert stacks(capture) == {name: 2 * weight for name, weight in stacks(parse(tmp_path, PROFILE)).items()}


def test_a_compressed_profile_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(json.dumps(PROFILE).encode()))
    assert stacks(read(tmp_path / "a.gz")) == stacks(parse(tmp_path, PROFILE))


def test_keys_in_any_order_and_long_keys_without_end_are_looked_at_in_time(tmp_path: Path) -> None:
    assert stacks(parse(tmp_path, {"title": "a", **TIMES, "nodes": NODES}, "a.json")) == stacks(
        parse(tmp_path, PROFILE)
    )
    (tmp_path / "b.json").write_text("{" + '"samples":' * 9000 + '"callFrame"')
    with pytest.raises(CaptureError, match="not a recording"):
        read(tmp_path / "b.json")


def test_callers_in_a_circle_and_deep_ones_end(tmp_path: Path) -> None:
    circle = [node(1, "a", [2]), node(2, "b", [1])]
    assert stacks(parse(tmp_path, PROFILE | {"nodes": circle, "samples": [1, 2, 2, 2]})) == {}
    deep = [node(number, f"f{number}", [number + 1]) for number in range(1, MAX_DEPTH + 99)]
    capture = parse(tmp_path, PROFILE | {"nodes": deep, "samples": [MAX_DEPTH + 50] * 4})
    assert sum(stacks(capture).values()) == 900_000
    assert capture.losses.truncated_chains


@pytest.mark.parametrize("odd", [[], -1, None, 1.5, "3"])
def test_nodes_and_samples_with_odd_numbers_are_left_out(tmp_path: Path, odd: object) -> None:
    inner = {"functionName": "inner", "id": odd, "hitCount": 4, "children": []}
    outer = {"functionName": "outer", "id": 1, "hitCount": 0, "children": [inner]}
    assert stacks(parse(tmp_path, {"head": outer, "samples": [1, odd, -1, 7]})) == {"outer": 1}
    assert PARSE in "".join(stacks(parse(tmp_path, PROFILE | {"samples": [odd, 3, -1, 3]})))


def test_a_profile_without_a_tree_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no call tree"):
        parse(tmp_path, {"nodes": [], "callFrame": 1, "samples": []})


_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.just(10**400), st.just(""),
    st.lists(st.integers(-2, 9), max_size=4), st.lists(st.sampled_from(NODES), max_size=4), st.sampled_from(NODES),
)  # fmt: skip


@ANY_PROFILE
@given(
    changed=st.dictionaries(st.sampled_from([*PROFILE, "head", "timestamps"]), _values, max_size=4),
    inner=st.dictionaries(st.sampled_from(["id", "callFrame", "children", "parent", "hitCount"]), _values, max_size=3),
)
def test_any_profile_gives_a_capture_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any], inner: dict[str, Any]
) -> None:
    content = {**PROFILE, "nodes": [*NODES, {**NODES[2], **inner}], **changed}
    try:
        capture = parse(tmp_path_factory.mktemp("any"), content)
    except PinprofError:
        return
    assert (capture.samples.weight >= 0).all()


def test_samples_that_a_trace_lists_itself_stand_until_the_next_of_their_thread(tmp_path: Path) -> None:
    # As Hermes writes them; the shape is that of Trace Event Format, Global Samples.
    def sample(ts: object, tid: object, sf: object) -> dict[str, Any]:
        return {"cpu": "-1", "name": "", "ts": ts, "pid": 7512, "tid": tid, "weight": "1", "sf": sf}

    trace = {
        "traceEvents": [
            {"name": "thread_name", "ph": "M", "pid": 7512, "ts": "1", "tid": "9", "args": {"name": "mqt_js"}}
        ],
        "samples": [
            sample("1000.0", "9", 2), sample(1400, 9, "3"), sample("1500", "9", 2),
            sample("1100", "8", 1), sample("1300", "8", 1), sample("never", "9", 77), 5,
        ],
        "stackFrames": {
            "1": {"name": "[root]", "category": "root"},
            "2": {"name": "outer", "category": "JavaScript", "parent": 1},
            "3": {"name": "inner", "category": "JavaScript", "parent": "2"},
        },
    }  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    capture = read(path)
    stacks = [
        [capture.stacks.frames.symbol[int(capture.stacks.frame[at])] for at in capture.stacks.chain(node)]
        for node in capture.samples.stack.tolist()
    ]
    samples = capture.samples
    found = zip(samples.time_ns.tolist(), samples.tid.tolist(), stacks, samples.weight.tolist(), strict=True)
    known = [(time, tid, sorted(names), weight) for time, tid, names, weight in found if time]
    assert known == [
        (1_000_000, 9, ["[root]", "outer"], 400_000),
        (1_100_000, 8, ["[root]"], 200_000),
        (1_300_000, 8, ["[root]"], 0),
        (1_400_000, 9, ["[root]", "inner", "outer"], 100_000),
        (1_500_000, 9, ["[root]", "outer"], 0),
    ]
    assert capture.threads == {(7512, 9): "mqt_js"}
    assert any("damaged or refer to nothing" in note for note in capture.losses.notes)
    assert "it samples a time that may include waits" in analyze(capture).headline
