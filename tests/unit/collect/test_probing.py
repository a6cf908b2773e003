"""What becomes of the events of a kind that costs too much; the kernel's part is played, no probe is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pinprof.collect.native import existing, opened, perf_event, probing
from pinprof.collect.native.events import call_events, mappings
from pinprof.collect.native.opened import Opened
from pinprof.collect.native.perf_event import EventAttr
from pinprof.collect.native.probing import Probes
from pinprof.collect.native.tracefs import Tracepoints

POINTS = {"copies": Tracepoints(11, 12), "memory": Tracepoints(21, 22)}
MS = 1_000_000


class Kernel:
    """Events on two tracepoints of each kind, on a clock of its own; `rate` says how often a second each is entered."""

    def __init__(self) -> None:
        self.now_ns = self.opened = 0
        self.runs = 1.0
        """The part of the time that the program has a processor; it calls only then."""
        self.rate = {11: 0.0, 21: 0.0}
        self.points: dict[int, int] = {}
        self.counts: dict[int, float] = {}
        self.ran: dict[int, float] = {}
        self.on: set[int] = set()
        self.happened: list[object] = []
        """Tracepoint and thread of each event of the program, and when files may be opened."""

    def open_event(self, attr: EventAttr, pid: int, cpu: int) -> int:
        file = os.open("/dev/null", os.O_RDONLY)
        if pid != os.getpid():
            self.happened.append((attr.config, pid))
        self.points[file], self.counts[file], self.ran[file] = attr.config, 0.0, 0.0
        self.opened += 1
        if not attr.flags & perf_event.DISABLED:
            self.on.add(file)
        else:
            self.on.discard(file)
        return file

    def passes(self, nanoseconds: int) -> None:
        self.now_ns += nanoseconds
        ran_ns = nanoseconds * self.runs
        for file in self.on:
            self.counts[file] += self.rate.get(self.points[file], 0.0) * ran_ns * 1e-9
            self.ran[file] = self.ran.get(file, 0.0) + ran_ns

    def count(self, file: int) -> int:
        os.fstat(file)  # an event that is closed cannot be read
        return int(self.counts[file])

    def count_and_time(self, file: int) -> tuple[int, int]:
        return self.count(file), round(self.ran.get(file, 0.0))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    played = Kernel()
    monkeypatch.setattr(perf_event, "open_event", played.open_event)
    monkeypatch.setattr(perf_event, "enable", played.on.add)
    monkeypatch.setattr(perf_event, "disable", played.on.discard)
    monkeypatch.setattr(perf_event, "count", played.count)
    monkeypatch.setattr(perf_event, "count_and_time", played.count_and_time)
    monkeypatch.setattr(perf_event, "event_id", lambda file: 1000 + file)
    monkeypatch.setattr(perf_event, "lost_records", lambda file, _: 0)
    monkeypatch.setattr(opened, "share", lambda files, ring: None)
    monkeypatch.setattr(existing, "family", lambda pid: [pid])
    clock = SimpleNamespace(
        monotonic_ns=lambda: played.now_ns,
        sleep=lambda seconds: played.passes(round(seconds * 1e9)),
    )
    monkeypatch.setattr(probing, "time", clock)
    return played


class Watched:
    """The probes of a program, and their events."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.again: list[int] = []
        specs = [mappings(), *call_events(POINTS)]
        files = [[kernel.open_event(spec.attr, 7, 0)] for spec in specs]
        ring: Any = SimpleNamespace(close=lambda: None)
        self.opened = Opened(specs, files, [ring], [], [0], [0] * len(specs))
        self.probes = Probes(POINTS, 7, 3.0, None)
        self.probes.govern(self.opened, lambda event, _: self.again.append(event))
        kernel.on.clear()
        kernel.on.update(file for spec, each in zip(specs, files, strict=True) if not spec.held_back for file in each)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.kernel.passes(10 * MS)
            self.probes.look(1 << 20)

    def names(self) -> set[str]:
        """Events that are open and on."""
        on = self.kernel.on
        pairs = zip(self.opened.specs[1:], self.opened.files[1:], strict=True)
        return {spec.name for spec, files in pairs if any(file in on for file in files)}

    def finish(self) -> dict[str, Any]:
        told: dict[str, Any] = self.probes.finish()["probes"]
        return told


@pytest.fixture
def watched(kernel: Kernel) -> Iterator[Watched]:
    made = Watched(kernel)
    yield made
    made.probes.close()
    made.opened.close()


FULL = {"call-enter/copies", "call-leave/copies", "call-enter/memory", "call-leave/memory"}
REST = {"call-enter/memory", "call-leave/memory"}


def test_within_the_budget_everything_is_recorded(watched: Watched) -> None:
    watched.kernel.rate |= {11: 2000, 21: 2000}
    watched.run(10)
    assert watched.names() == FULL
    told = watched.finish()
    assert told["given_up"] == []
    # 40,000 calls at the usual 5 µs.
    assert told["cost_ns"] == pytest.approx(200 * MS, rel=0.01)


def test_what_loses_its_stacks_keeps_its_events(watched: Watched) -> None:
    watched.kernel.rate[11] = 8000
    watched.run(5)
    assert watched.names() == {"call-enter-bare/copies", "call-leave/copies", *REST}
    assert watched.again == []
    (episode,) = watched.finish()["given_up"]
    assert (episode["kind"], episode["without"]) == ("copies", "stacks")
    # Those before the switch had stacks.
    assert episode["calls"] == pytest.approx(8000 * (5 - episode["from_ns"] * 1e-9), rel=0.01)


def test_events_without_stacks_are_opened_when_stacks_go(watched: Watched) -> None:
    watched.opened.let_go([2])
    watched.kernel.rate[11] = 8000
    watched.run(5)
    assert watched.names() == {"call-enter-bare/copies", "call-leave/copies", *REST}
    assert watched.again == [2]


def test_where_they_cannot_be_opened_calls_are_only_counted(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.opened.let_go([2])
    monkeypatch.setattr(probing, "_MOST_REOPENED", 0)
    watched.kernel.rate[11] = 8000
    watched.run(5)
    assert watched.names() == REST
    assert [len(files) for files in watched.opened.files[1:4]] == [0, 0, 0]
    (episode,) = watched.finish()["given_up"]
    assert (episode["without"], episode["to_ns"]) == ("calls", watched.kernel.now_ns)


@pytest.mark.parametrize("runs", [1.0, 0.3])
def test_a_flood_is_closed_and_nobody_says_how_many_calls_there_were(watched: Watched, runs: float) -> None:
    watched.kernel.rate |= {11: 50_000 / runs, 21: 500}
    watched.kernel.runs = runs
    watched.run(10)
    assert watched.names() == REST
    assert [len(files) for files in watched.opened.files[1:4]] == [0, 0, 0], "what stays open traps"
    (episode,) = watched.finish()["given_up"]
    assert (episode["kind"], episode["without"]) == ("copies", "calls")
    assert episode["from_ns"] <= 50 * MS
    assert "calls" not in episode


def test_a_flood_that_is_over_is_traced_again_by_new_events(watched: Watched) -> None:
    watched.kernel.rate[11] = 50_000
    watched.run(1)
    watched.kernel.rate[11] = 100
    watched.run(10)
    assert watched.names() == FULL
    assert sorted(watched.again) == [1, 2, 3]
    (episode, *later) = watched.finish()["given_up"]
    assert episode["without"] == "calls"
    assert 2_000 * MS <= episode["to_ns"] - episode["from_ns"] <= 8_000 * MS
    assert {each["without"] for each in later} <= {"stacks"}, "it may come back in two steps"


@pytest.mark.slow
def test_what_cannot_be_opened_again_stays_given_up(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.kernel.rate[11] = 50_000
    watched.run(1)
    watched.kernel.rate[11] = 0
    monkeypatch.setattr(probing, "_MOST_REOPENED", 1)
    watched.run(100)
    assert watched.names() == REST
    (episode,) = watched.finish()["given_up"]
    assert episode["to_ns"] == watched.kernel.now_ns


class Empty:
    """Measures the price of a call, and notes when."""

    site = SimpleNamespace(kind="memory")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.measured_ns: set[int] = set()

    def overhead(self, specs: object) -> dict[str, int]:
        self.measured_ns.add(self._kernel.now_ns)
        return {"inside": 1000, "around": 2000}


def test_what_a_call_costs_is_measured_when_the_program_has_ended(watched: Watched) -> None:
    """To open events on a function keeps the program from starting threads for a twentieth of a second."""
    empty: Any = Empty(watched.kernel)
    watched.probes._empty = empty
    watched.kernel.rate[11] = 100
    for _ in range(20):
        watched.kernel.passes(500 * MS)
        watched.probes.look(0)
    assert not empty.measured_ns
    told = watched.finish()
    assert empty.measured_ns == {watched.kernel.now_ns}
    assert (told["price_ns"], told["cost_ns"]) == ({"full": 2000, "bare": 2000}, 2000 * 1000)


def test_what_counting_costs_is_known_before_calls_are_counted(watched: Watched) -> None:
    empty: Any = Empty(watched.kernel)
    watched.probes._empty = empty
    watched.kernel.rate[11] = 200_000
    watched.run(3)
    (episode,) = watched.finish()["given_up"]
    assert empty.measured_ns == {episode["from_ns"]}


def test_no_event_stays_open(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    really = os.close

    def close(file: int) -> None:
        closed.append(file)
        really(file)

    monkeypatch.setattr(os, "close", close)
    made = Watched(kernel)
    kernel.rate[11] = 50_000
    made.run(3)
    kernel.rate[11] = 0
    made.run(10)
    assert made.again
    made.probes.close()
    made.opened.close()
    assert len(closed) == kernel.opened


POINT_NUMBERS = {11, 12, 21, 22}


class Guard:
    """Files that thread 8 waits to open."""

    file = -1

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def waiting(self) -> frozenset[int]:
        return frozenset({8})

    def close(self) -> None:
        self._kernel.happened.append("open")


class Beginning:
    """Probes of a program that has not opened a library of CUDA."""

    def __init__(self, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probing, "Opening", lambda _: Guard(kernel))
        self.kernel = kernel
        self.probes = Probes(POINTS, 7, 3.0, None, files=["/lib/libcuda.so.1"])
        specs = [mappings(), *call_events(POINTS)]
        ring: Any = SimpleNamespace(close=lambda: None)
        self.opened = Opened(specs, [[] for _ in specs], [ring], [], [0], [0] * len(specs))
        self.probes.govern(self.opened, lambda event, _: None)
        self.probes.watch()


@pytest.fixture
def beginning(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beginning]:
    made = Beginning(kernel, monkeypatch)
    yield made
    made.probes.close()
    made.opened.close()


def test_events_that_are_seldom_wanted_are_opened_when_they_are(kernel: Kernel) -> None:
    probes = Probes(POINTS, 7, 3.0, None)
    assert set(probes.later) == {"call-enter-bare/copies", "call-enter-bare/memory"}
    probes.close()
    waits = Probes(POINTS, 7, 3.0, None, files=["/lib/libcuda.so.1"])
    assert set(waits.later) == {spec.name for spec in call_events(POINTS)}


def test_anchors_are_there_before_a_library_is_opened_but_not_for_short_programs(beginning: Beginning) -> None:
    probes, kernel = beginning.probes, beginning.kernel
    for _ in range(4):
        assert 0 < probes.wait_ms(500) <= 51
        kernel.passes(10 * MS)
        probes.look(0)
    assert kernel.opened == 0
    kernel.passes(20 * MS)
    probes.look(0)
    assert kernel.opened == len(POINT_NUMBERS)
    assert probes.wait_ms(500) == 500
    probes.look(0)
    tasks: Any = SimpleNamespace(alive=lambda: [7], since=list)
    assert probes.begin(tasks) == ""
    assert kernel.opened == 2 * len(POINT_NUMBERS), "no second anchor"


def test_anchors_that_cannot_be_set_early_do_not_keep_it_busy(
    beginning: Beginning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(perf_event, "open_event", refused)
    beginning.kernel.passes(60 * MS)
    beginning.probes.look(0)
    assert beginning.probes.wait_ms(500) == 500
    assert beginning.probes.opening is not None
    assert "open" not in beginning.kernel.happened, "it still guards the files"
    tasks: Any = SimpleNamespace(alive=lambda: [7], since=list)
    assert beginning.probes.begin(tasks) == "Operation not permitted"


def test_who_opens_a_library_waits_for_its_own_events_only(beginning: Beginning) -> None:
    started = [(20, 8, 10), (21, 7, 10), (22, 20, 11), (23, 99, 5)]
    tasks: Any = SimpleNamespace(alive=lambda: [7, 8, 9], since=lambda: started)
    beginning.kernel.now_ns = 8
    assert beginning.probes.begin(tasks) == ""
    happened = beginning.kernel.happened
    ahead = happened[: happened.index("open")]
    # One that an exec would switch on comes first: the kernel does not look for functions in the process.
    assert sorted(ahead) == sorted([(point, 8) for point in POINT_NUMBERS] * 2)
    after: list[Any] = [each for each in happened if each != "open"][len(ahead) :]
    # 20 and its child 22 have inherited all of 8's; 21 was started by 7 after its events were there.
    assert sorted(after) == sorted((point, thread) for point in POINT_NUMBERS for thread in (7, 9, 23))


def test_what_was_started_before_its_parents_events_gets_its_own(beginning: Beginning) -> None:
    started = [(21, 7, 10), (22, 21, 11), (23, 22, 100)]
    tasks: Any = SimpleNamespace(alive=lambda: [7, 8], since=lambda: started)
    beginning.kernel.now_ns = 50
    assert beginning.probes.begin(tasks) == ""
    after = [each for each in beginning.kernel.happened if each != "open"][2 * len(POINT_NUMBERS) :]
    assert {thread for _, thread in after} == {7, 21, 22}  # type: ignore[misc]
    assert len(after) == 3 * len(POINT_NUMBERS)
