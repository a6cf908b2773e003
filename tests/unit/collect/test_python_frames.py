"""Frames of interpreters read from outside: lines, threads, names; what is no interpreter."""

from __future__ import annotations

import ctypes
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pinprof.collect.collector import Setup
from pinprof.collect.python_frames import __main__ as watching
from pinprof.collect.python_frames import layout
from pinprof.collect.python_frames import processes as searching
from pinprof.collect.python_frames.beside import MOST_SHARE, TOGETHER_SHARE, LineRecorder
from pinprof.collect.python_frames.code import line_starts, read_code, text
from pinprof.collect.python_frames.interpreter import Interpreter, InterpreterLook, SegmentTables
from pinprof.collect.python_frames.memory import Gone, read
from pinprof.collect.python_frames.reader import NO_STACK, UNKNOWN, SeenWindow
from pinprof.collect.python_frames.timeline import SegmentTimeline
from pinprof.collect.request import RecordRequest
from pinprof.read.python import stacks as stored

LONGEST_NS = 200_000
"""As in frames.c."""

PROGRAM = """
import sys, threading, time

def numbers():
    while True:
        yield time.sleep(0.001)

def consume():
    for _ in numbers():
        pass

def wait(depth):
    if depth:
        wait(depth - 1)
    time.sleep(600)

threading.Thread(target=consume, name="consumer", daemon=True).start()
print("ready", flush=True)
wait(3)
"""


def interpreters() -> list[str]:
    """This one, and others that are there."""
    found = [sys.executable, *(shutil.which(f"python3.{minor}") or "" for minor in range(11, 16))]
    found += map(str, sorted(Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python3")))
    works = [
        path
        for path in found
        if path and "shims" not in path and subprocess.run([path, "-c", ""], check=False).returncode == 0
    ]
    return list(dict.fromkeys(map(os.path.realpath, works)))


@contextmanager
def running(python: str, code: str) -> Iterator[int]:
    with subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


Chain = tuple[tuple[str, int], ...]
"""Functions and lines, outermost first."""


def stacks(interpreter: Interpreter, looks: int, *wanted: Chain) -> tuple[dict[int, set[Chain]], int]:
    """Per thread the stacks seen, and how many of so many looks failed; of more looks until all `wanted` are ends."""
    tables = SegmentTables()
    seen: dict[int, set[Chain]] = {}
    last: dict[int, int] = {}
    failed, missing, deadline = 0, set(wanted), time.monotonic() + 60

    def chain(stack: int) -> Chain:
        if stack in (NO_STACK, UNKNOWN):
            return ()
        caller, frame = list(tables.stacks)[stack]
        function, _, line = list(tables.frames)[frame][:3]
        return (*chain(caller), (function, line))

    while looks > 0 or (missing and time.monotonic() < deadline):
        look = interpreter.look(tables)
        for tid, stack in look.stacks:
            since, _, ended = look.windows[tid]
            # Who was kept from running within a look knows nothing; and a thread may stand still where its frames
            # change, which is one failure however many looks come by.
            failed += looks > 0 and stack == UNKNOWN != last.get(tid) and ended - since < LONGEST_NS
            if stack != last.get(tid):
                found = chain(stack)
                seen.setdefault(tid, set()).add(found)
                missing = {end for end in missing if found[-len(end) :] != end}
            last[tid] = stack
        looks -= 1
        time.sleep(0.001)
    return seen, failed


@pytest.mark.parametrize("python", interpreters())
def test_every_thread_is_seen_at_its_line(python: str) -> None:
    with running(python, PROGRAM) as pid:
        place = layout.of_process(pid)
        assert place is not None
        interpreter = Interpreter(pid, *place)
        sleeping = (("<module>", 19), ("wait", 14), ("wait", 14), ("wait", 14), ("wait", 15))
        yielding = (("consume", 9), ("numbers", 6))
        seen, failed = stacks(interpreter, 100, sleeping, yielding)
        names = interpreter.names()
    assert failed <= 5
    assert sleeping in seen.pop(pid)
    ((tid, consumer),) = seen.items()
    inner = {chain[-2:] for chain in consumer if chain}
    assert yielding in inner, "a generator's frame lies elsewhere"
    assert names == ({tid: "consumer"} if place[0].version < (3, 14) else {})


DEEP = """
import sys

def descend(depth):
    if depth:
        return descend(depth - 1)
    print(flush=True)
    sys.stdin.readline()

descend(400)
print(flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("python", interpreters())
def test_a_thread_is_seen_after_it_returned_from_far_below(python: str) -> None:
    with subprocess.Popen([python, "-c", DEEP], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        place = layout.of_process(process.pid)
        assert place is not None
        interpreter = Interpreter(process.pid, *place)
        stacks(interpreter, 5)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        seen, failed = stacks(interpreter, 5, (("<module>", 12),))
        process.kill()
    functions = {tuple(function for function, _ in chain) for chain in seen[process.pid] if chain}
    assert functions == {("<module>",)}
    assert failed <= 2, "the memory of its deeper frames is not mapped any more"


IN_TURNS = """
import sys

def say(what):
    print(what, flush=True)
    sys.stdin.readline()

for number in range(10):
    code = compile("say(id(code))", f"made-{number}.py", "exec")
    exec(code)
    del code
    say(0)
"""


@pytest.mark.parametrize("python", interpreters())
def test_a_module_in_the_place_of_another_is_not_taken_for_it(python: str) -> None:
    tables, seen, addresses = SegmentTables(), [], []
    with subprocess.Popen([python, "-c", IN_TURNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        addresses.append(int(process.stdout.readline()))
        place = layout.of_process(process.pid)
        assert place is not None
        interpreter = Interpreter(process.pid, *place)
        for _ in range(19):
            # The first look may find it where it still prints: another line of the same function.
            looks: list[int] = []
            while len(looks) < 3:
                looks += [stack for _, stack in interpreter.look(tables).stacks if stack != UNKNOWN]
            known = list(tables.stacks)
            (module,) = {known[known[stack][0]][1] for stack in set(looks)}
            seen.append(list(tables.frames)[module][1])
            process.stdin.write(b"\n")
            process.stdin.flush()
            addresses.append(int(process.stdout.readline()))
        process.kill()
    assert len(set(addresses[::2])) < 10, "each module has an address of its own: this tells nothing"
    assert seen == [f"made-{number // 2}.py" if number % 2 == 0 else "<string>" for number in range(19)]


def test_an_interpreter_that_begins_is_seen_as_soon_as_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it took to find it: finding it again is not what it takes."""
    now, used, found = [100.0], [0.0], []

    class Beginning:
        threads = 0

        def __init__(self, *_: object) -> None:
            found.append(self)

        @property
        def running(self) -> bool:
            return self.threads > 5

        def list_threads(self) -> None:
            self.threads += 1

    def of_process(_: int) -> tuple[str, int]:
        used[0] += 0.15
        return "layout", 0

    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: used[0])
    monkeypatch.setattr(searching, "time", clock)
    monkeypatch.setattr(searching, "Interpreter", Beginning)
    monkeypatch.setattr(
        searching, "contents", lambda path: b"python" if path == f"/proc/{os.getpid()}/cmdline" else b""
    )
    monkeypatch.setattr(layout, "of_process", of_process)
    monkeypatch.setattr(searching, "tree", lambda _: [os.getpid()])
    processes = searching.Processes(os.getpid())
    for _ in range(7):
        assert not processes.interpreters
        processes.update()
        now[0] += 0.001
    assert list(processes.interpreters.values()) == found
    assert len(found) == 1
    assert not processes.beginning


def test_an_interpreter_whose_library_is_loaded_late_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    now, loaded = [100.0], []
    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0)
    monkeypatch.setattr(searching, "time", clock)
    monkeypatch.setattr(searching, "Interpreter", lambda *_: SimpleNamespace(running=True))
    monkeypatch.setattr(layout, "of_process", lambda _: ("layout", 0) if loaded else None)
    monkeypatch.setattr(searching, "tree", lambda _: [os.getpid()])
    processes = searching.Processes(os.getpid())
    for _ in range(50):
        processes.update()
        now[0] += 0.01
    assert list(processes.unknown) == [os.getpid()]
    loaded.append(True)
    now[0] += 1
    processes.update()
    assert list(processes.interpreters) == [os.getpid()]
    assert not processes.unread


def test_of_an_interpreter_that_cannot_be_read_and_has_ended_the_name_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now, present = [100.0], [os.getpid()]
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0))
    monkeypatch.setattr(layout, "of_process", lambda _: None)
    monkeypatch.setattr(layout, "interpreter_name", lambda _: "pypy")
    monkeypatch.setattr(searching, "tree", lambda _: present)
    processes = searching.Processes(os.getpid())
    for _ in range(2):
        for _ in range(50):
            processes.update()
            now[0] += 0.01
        assert processes.unread == {"pypy"}
        present.clear()
    assert not processes.unknown


@pytest.mark.slow
def test_the_search_for_interpreters_takes_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used, tries = [100.0], [0.0], []

    def of_process(_: int) -> None:
        used[0] += 0.05
        tries.append(now[0])

    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: used[0])
    monkeypatch.setattr(searching, "time", clock)
    monkeypatch.setattr(layout, "of_process", of_process)
    monkeypatch.setattr(searching, "tree", lambda _: [os.getpid()])
    processes = searching.Processes(os.getpid())
    while now[0] < 160:
        processes.update()
        now[0] += 0.01
    assert 3 <= sum(at < 100.5 for at in tries) <= 5, "soon at first"
    assert len(tries) == pytest.approx(60 / 0.5, abs=10)


def test_a_process_that_ended_is_gone() -> None:
    with running(sys.executable, "print(flush=True); import time; time.sleep(60)") as pid:
        place = layout.of_process(pid)
        assert place is not None
        interpreter = Interpreter(pid, *place)
    with pytest.raises(Gone):
        interpreter.look(SegmentTables())


def test_another_program_has_no_interpreter() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert layout.of_process(process.pid) is None
        process.kill()
    assert layout.of_process(process.pid) is None


def test_what_is_not_mapped_is_an_error() -> None:
    with pytest.raises(LookupError):
        read(os.getpid(), 16, 8)


def test_a_version_that_is_not_known_is_left_alone() -> None:
    head = b"xdebugpy" + (0x03FF00F0).to_bytes(8, "little") + bytes(1008)
    assert layout.described(head) is None


def test_lines_of_a_table_are_those_that_the_interpreter_says() -> None:
    for function in (test_every_thread_is_seen_at_its_line, stacks, json.dumps, subprocess.Popen.communicate):
        code = function.__code__
        starts, lines = line_starts(code.co_linetable, code.co_firstlineno)
        table = dict(zip(starts, lines, strict=True))
        expected: dict[int, int] = {}
        for start, _, line in code.co_lines():
            if not expected or list(expected.values())[-1] != (line or 0):
                expected[start // 2] = line or 0
        assert table == expected


def test_runs_of_equal_looks_are_one_row() -> None:
    timeline = SegmentTimeline(1000, 10)
    for time_ns, stack in ((5000, 3), (9000, 3), (12_000, UNKNOWN), (15_000, 4), (20_000, 3)):
        timeline.saw(7, [(8, stack)], time_ns, time_ns - 2500)
    made = timeline.to_json(30_000)
    assert made["looks"] == {"7": [4, 4, 3, 3, 5]}
    assert made["lags"] == {"7": [2] * 5}
    (thread,) = made["threads"]
    assert (thread["times"], thread["lasts"], thread["stacks"]) == ([4000, 10_000, 5000], [4000, 0, 0], [3, 4, 3])


def test_a_thread_that_has_not_begun_is_not_the_one_that_started_it(tmp_path: Path) -> None:
    """CPython 3.11 notes the kernel's id of a thread when it first runs: its state has the starter's until then."""
    timeline, file = SegmentTimeline(1000, 10), tmp_path / "stacks"
    stack = timeline.tables.stack([("main", "/app/a.py", 1)])
    for look in range(1, 6):
        time = 10_000 * look
        states = [(7, NO_STACK), (7, stack)] if look > 2 else [(7, stack)]
        timeline.saw(7, states, time, time, {7: SeenWindow(time - 3050, time - 250, time + 1010)})
    timeline.save(file, 60_000)
    found = stored.load(file)
    assert not found.damaged
    assert found.looks(7, 7).stack.tolist() == [0] * 5


def test_the_windows_of_looks_are_those_of_the_threads_seen_in_most_places() -> None:
    timeline = SegmentTimeline(1000, 10)
    for look in range(1, 5):
        time = 10_000 * look
        windows = {tid: SeenWindow(time - 3050, time - 250, time + 1010) for tid in range(20) if (tid, look) != (0, 3)}
        seen = [(tid, look if tid == 0 or look > tid else 0) for tid in range(20)]
        timeline.saw(7, seen if look > 1 else seen[1:], time, time, windows)
    threads = {thread["tid"]: thread for thread in timeline.to_json(50_000)["threads"]}
    assert threads[0]["windows"] == [[-3, 0, -3], [28, 0, 28], [14, 0, 14]], "it appeared later, and was missed once"
    assert threads[1]["windows"] == [[-3] * 4, [28] * 4, [14] * 4]
    assert sum("windows" in thread for thread in threads.values()) == 16


def looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float, round_s: float, crowd: int = 1
) -> list[float]:
    """When 4,000 looks come, of which each takes so much of a processor with what is done around it.

    `crowd`: how many threads run or wait, for each processor.
    """
    now, used, looks = [100.0], [0.0], []
    watch = watching.Watch(os.getpid(), 1000, share, tmp_path / "stacks")

    class Seen:
        def looks(self, _: object, due_ns: int, until_ns: int, gaps_ns: list[int]) -> tuple[list[InterpreterLook], int]:
            seen = []
            for gap_ns in gaps_ns:
                looks.append(now[0])
                seen.append(InterpreterLook(due_ns, due_ns, [], {}))
                due_ns = round(now[0] * 1e9) + gap_ns
                if len(looks) >= 4000:
                    watch.stop()
                if due_ns > until_ns:
                    break
                sleep(due_ns / 1e9 - now[0])
            return seen, due_ns

        def names(self) -> dict[int, str]:
            return {}

    def sleep(seconds: float) -> None:
        now[0] += seconds
        used[0] += round_s

    clock = SimpleNamespace(
        monotonic=lambda: now[0], monotonic_ns=lambda: round(now[0] * 1e9), thread_time=lambda: used[0], sleep=sleep
    )
    processes = SimpleNamespace(interpreters={1: Seen()}, beginning={}, update=lambda _: None, unread=set())
    monkeypatch.setattr(watching, "time", clock)
    monkeypatch.setattr(watching, "runnable", lambda: crowd * (os.cpu_count() or 1))
    monkeypatch.setattr(watching, "_hung_up", lambda: False)
    monkeypatch.setattr(watch, "_processes", processes)
    monkeypatch.setattr(watch, "_timeline", SegmentTimeline(10**14, 10**6))
    assert watch.run() == 0
    return looks


def test_a_look_comes_as_soon_after_another_as_at_any_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apart = sorted(after - before for before, after in pairwise(looked(monkeypatch, tmp_path, 0.1, 0.0)))
    assert sum(apart) / len(apart) == pytest.approx(0.001, rel=0.1)
    for part in (0.1, 0.25, 0.5, 0.75):
        assert apart[round(part * len(apart))] == pytest.approx(-0.001 * math.log(1 - part), rel=0.25)


@pytest.mark.parametrize("share", [0.1, 0.0075])
def test_looks_take_their_share_of_a_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float) -> None:
    looks = looked(monkeypatch, tmp_path, share, 0.0005)[1000:]
    assert 0.0005 * len(looks) / (looks[-1] - looks[0]) == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize(("crowd", "left"), [(2, 1.0), (8, 0.25), (200, 0.01)])
def test_where_many_want_the_processors_looks_take_their_share_of_what_one_gets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, crowd: int, left: float
) -> None:
    looks = looked(monkeypatch, tmp_path, 0.1, 0.0005, crowd)[1000:]
    assert 0.0005 * len(looks) / (looks[-1] - looks[0]) == pytest.approx(0.1 * left, rel=0.1)


def test_readers_of_one_launch_share_what_they_take(tmp_path: Path) -> None:
    def share(processors: float) -> float:
        request = RecordRequest((), processors=processors)
        return LineRecorder(Setup(request, tmp_path, ExitStack(), {}))._share

    assert share(float("inf")) == share(64 / 8) == MOST_SHARE
    assert 8 * share(2 / 8) == pytest.approx(2 * TOGETHER_SHARE)


def test_whoever_asks_for_a_segment_gets_one_though_nobody_looked(tmp_path: Path) -> None:
    output = tmp_path / "python-stacks.jsonl.gz"
    watch, sizes = watching.Watch(os.getpid(), 1000, 0.1, output), [0]
    for number in (signal.SIGUSR2, signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR2):
        watch.cut(number, None)
        watch._cut()
        sizes.append(output.stat().st_size)
    assert all(after > before for before, after in pairwise(sizes))


def test_names_of_threads_that_have_ended_are_in_one_more_segment(tmp_path: Path) -> None:
    watch, names = watching.Watch(os.getpid(), 1000, 0.1, tmp_path / "stacks"), []
    threads = {(7, 71): "lives", (7, 72): "ends", (8, 81): "of another process"}
    watch._names = threads.copy()
    watch._processes.interpreters[7] = cast("Interpreter", SimpleNamespace())
    for seen in ((), (71, 72), (71,), (71,)):
        if seen:
            watch._timeline.saw(7, [(tid, 0) for tid in seen], 10**18, 0)
        names.append(set(watch._ended_segment().names.values()))
    assert names == [{*threads.values()}, {"lives", "ends"}, {"lives", "ends"}, {"lives"}]


class Words(str):
    """Text of another type."""

    __slots__ = ()


def test_nothing_is_taken_for_text_or_code_but_text_and_code() -> None:
    def own() -> None: ...

    pid, found = os.getpid(), layout.of_process(os.getpid())
    assert found is not None
    place, _ = found
    assert read_code(pid, place, id(own.__code__)).function == own.__code__.co_qualname
    for words in ("hunter2", "hünter2", "hunter\u2082"):
        assert text(pid, place, id(words)) == words
    # One byte a character, compact and ASCII: where the state of a str is, these bytes say what a str says.
    state = (0b11001 << place.text_shift).to_bytes(4, "little")
    disguised = bytes(place.text_state - place.bytes_start) + state + b"hunter2-password" * 9
    with pytest.raises(ValueError, match="no text"):
        text(pid, place, id(disguised))
    for other in (b"hunter2", [own], own, {"password": "hunter2"}, "hunter2", Words("hunter2")):
        with pytest.raises((ValueError, LookupError)):
            read_code(pid, place, id(other))


def test_code_whose_parts_are_not_what_they_should_be_is_none() -> None:
    found = layout.of_process(os.getpid())
    assert found is not None
    place, _ = found
    code = (lambda: 0).__code__
    pointers = ctypes.c_void_p * 1
    secret = (
        bytes(place.text_state - place.bytes_start) + (0b11001 << place.text_shift).to_bytes(4, "little") + bytes(99)
    )
    for offset in (place.filename, place.qualified_name):
        part = pointers.from_address(id(code) + offset)
        before, part[0] = part[0], id(secret)
        try:
            with pytest.raises(ValueError, match="no text"):
                read_code(os.getpid(), place, id(code))
        finally:
            part[0] = before
    assert read_code(os.getpid(), place, id(code)).function == code.co_qualname


def test_bytes_that_are_no_table_of_the_code_give_no_lines() -> None:
    found = layout.of_process(os.getpid())
    assert found is not None
    place, _ = found
    whole = (lambda: stacks(os.getpid())).__code__
    table = whole.co_linetable
    # Where the table was, the program has put something else: as lines, these bytes would be numbers of 60 bits.
    for other in (b"\xf0" + b"hunter2-password" * 9, table + b"\x80", table[:-1] + b"\xf7"):
        changed = whole.replace(co_linetable=other)
        code = read_code(os.getpid(), place, id(changed))
        assert {code.line(number) for number in range(200)} == {whole.co_firstlineno}
    for function in (stacks, json.dumps, subprocess.Popen.communicate):
        code = read_code(os.getpid(), place, id(function.__code__))
        lines = {line for _, _, line in function.__code__.co_lines() if line}
        assert lines <= {code.line(number) for number in range(len(function.__code__.co_code) // 2)}
