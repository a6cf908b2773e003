"""py-spy's Chrome traces: whose stack it was, from when on, also where forked processes share a thread's address."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pinprof.collect.py_spy_trace import segment

MS = 1_000_000
Stack = list[tuple[str, int]]


class Trace:
    """Writes what py-spy writes: at each look, the frames that went and those that came, by address."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.before: dict[int, list[tuple[str, str, int]]] = {}

    def look(self, ms: int, pid: int, address: int, root: str, stack: Stack, parent: str = "") -> Trace:
        frames = [(parent, "", 0)] if parent else []
        frames += [(root, "", 0), *((name, "/app/train.py", line) for name, line in stack)]
        before = self.before.get(address, [])
        same = 0
        while same < min(len(before), len(frames)) and before[same] == frames[same]:
            same += 1
        for name, file, line in reversed(before[same:]):
            self._event("E", name, file, line, pid, address, ms)
        for name, file, line in frames[same:]:
            self._event("B", name, file, line, pid, address, ms)
        self.before[address] = frames
        return self

    def _event(self, phase: str, name: str, file: str, line: int, pid: int, address: int, ms: int) -> None:
        arguments = {"filename": file, "line": line}
        common = {"args": arguments, "cat": "py-spy", "name": name, "ph": phase}
        self.events.append({**common, "pid": pid, "tid": address, "ts": ms * 1000})

    def text(self) -> str:
        return json.dumps(self.events)


def seen(text: str) -> dict[tuple[int, int], list[tuple[int, tuple[str, ...]]]]:
    """Per thread (time in ms, functions) of every change."""
    made = segment(text, 0, 0, 10 * MS)

    def chain(stack: int) -> tuple[str, ...]:
        names: list[str] = []
        while stack >= 0:
            stack, frame = made["stacks"][stack]
            names.insert(0, f"{made['frames'][frame][0]}:{made['frames'][frame][2]}")
        return tuple(names)

    found = {}
    for thread in made["threads"]:
        now, changes = 0, []
        for difference, stack in zip(thread["times"], thread["stacks"], strict=True):
            now += difference
            changes.append((now // MS, chain(stack)))
        found[thread["pid"], thread["tid"]] = changes
    return found


def test_a_change_lies_half_a_period_before_the_look_that_saw_it() -> None:
    trace = Trace().look(100, 7, 1, "thread (7): MainThread", [("main", 3), ("load", 8)])
    trace.look(150, 7, 1, "thread (7): MainThread", [("main", 3), ("step", 9)])
    trace.look(200, 7, 1, "thread (7): MainThread", [("main", 4)])
    assert seen(trace.text()) == {
        (7, 7): [(95, ("main:3", "load:8")), (145, ("main:3", "step:9")), (195, ("main:4",)), (200, ())]
    }


def test_forked_processes_take_turns_at_one_address() -> None:
    trace = Trace()
    for ms in range(100, 140, 10):
        trace.look(ms, 7, 1, "thread (7): MainThread", [("main", 3)])
        trace.look(ms, 8, 1, "thread (8): MainThread", [("main", 3), ("work", ms)], parent='process 8:"secret --key=1"')
    changes = seen(trace.text())
    assert changes[7, 7] == [(95, ("main:3",)), (140, ())], "one stack all the time, until nothing more is known"
    assert [names[-1] for _, names in changes[8, 8][:-1]] == ["work:100", "work:110", "work:120", "work:130"]
    assert "secret" not in json.dumps(segment(trace.text(), 0, 0, 10 * MS))


def test_a_thread_that_left_its_address_and_comes_back_is_unknown_between() -> None:
    trace = Trace().look(100, 7, 1, "thread (7): MainThread", [("main", 3)])
    trace.look(110, 8, 1, "thread (8): MainThread", [("work", 1)])
    trace.look(400, 7, 1, "thread (7): MainThread", [("main", 3)])
    assert seen(trace.text())[7, 7][:3] == [(95, ("main:3",)), (120, ()), (395, ("main:3",))]


def test_threads_without_a_kernel_id_are_counted_and_the_main_one_is_known() -> None:
    trace = Trace().look(100, 7, 1, "thread (0x7F00): MainThread", [("main", 3)])
    trace.look(100, 7, 2, "thread (0x7F01): Thread-1", [("work", 3)])
    assert list(seen(trace.text())) == [(7, 7)]
    assert segment(trace.text(), 0, 0, 10 * MS)["unnamed_threads"] == 1


def test_the_only_thread_without_a_kernel_id_is_the_main_one() -> None:
    trace = Trace().look(100, 7, 1, "thread (0x7F00)", [("main", 3)])
    assert list(seen(trace.text())) == [(7, 7)]
    assert segment(trace.text(), 0, 0, 10 * MS)["unnamed_threads"] == 0
    trace.look(100, 7, 2, "thread (0x7F01)", [("work", 3)])
    assert seen(trace.text()) == {}
    assert segment(trace.text(), 0, 0, 10 * MS)["unnamed_threads"] == 2


def test_looks_that_did_not_happen_make_lines_less_certain() -> None:
    text = Trace().look(0, 7, 1, "thread (7): M", [("a", 1)]).look(1000, 7, 1, "thread (7): M", [("b", 2)]).text()
    assert segment(text, 0, MS, 10 * MS)["uncertainty_ns"] == 6 * MS
    assert segment(text, 0, MS, 10 * MS, 100)["uncertainty_ns"] == 6 * MS
    assert segment(text, 0, MS, 10 * MS, 50)["uncertainty_ns"] == 11 * MS, "every 20 ms"


def test_names_that_come_later_count() -> None:
    trace = Trace().look(100, 7, 1, "thread (9)", [("work", 3)])
    trace.look(200, 7, 1, "thread (9): Thread-1 (pin)", [("work", 3)])
    made = segment(trace.text(), 0, 0, 10 * MS)
    assert [(thread["tid"], thread["name"]) for thread in made["threads"]] == [(9, "Thread-1 (pin)")]


def test_name_of_the_thread_before_at_the_address_is_no_name() -> None:
    trace = Trace().look(100, 7, 1, "thread (8): Thread-64 (serve)", [("serve", 3)])
    trace.look(200, 7, 1, "", []).look(300, 7, 1, "thread (9): Thread-64 (serve)", [("serve", 3)])
    trace.look(400, 7, 1, "thread (10): Thread-64 (serve)", [("serve", 3)])
    trace.look(500, 7, 1, "thread (10): Thread-66 (serve)", [("serve", 4)])
    trace.look(500, 7, 2, "thread (11): Thread-64 (serve)", [("serve", 4)])
    made = segment(trace.text(), 0, 0, 10 * MS)
    names = {thread["tid"]: thread["name"] for thread in made["threads"]}
    assert names == {8: "Thread-64 (serve)", 9: "", 10: "Thread-66 (serve)", 11: "Thread-64 (serve)"}


def test_a_trace_that_was_cut_off_counts_as_far_as_it_goes() -> None:
    trace = Trace()
    for line in range(50):
        trace.look(100 + 10 * line, 7, 1, "thread (7): MainThread", [("main", line)])
    text = trace.text()
    assert len(seen(text[: len(text) // 2])[7, 7]) in range(24, 27)
    assert seen("") == seen("[") == seen("no json {") == {}


@given(st.lists(st.tuples(st.sampled_from("BE"), st.integers(0, 2), st.integers(0, 5)), max_size=30))
def test_any_order_of_events_gives_ascending_times(events: list[tuple[str, int, int]]) -> None:
    raw = []
    for number, (phase, address, kind) in enumerate(events):
        name = f"thread ({address + 1}): x" if kind == 0 else f"f{kind}"
        arguments = {"filename": "" if kind == 0 else "/a.py", "line": kind}
        raw.append({"ph": phase, "tid": address, "pid": 1, "ts": number // 2, "name": name, "args": arguments})
    for thread in segment(json.dumps(raw), 5, 0, 10 * MS)["threads"]:
        assert all(difference > 0 for difference in thread["times"][1:])
        assert len(thread["times"]) == len(thread["stacks"])
