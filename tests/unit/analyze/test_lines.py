"""Which line a sample belongs to, and how it is called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.lines import EventLines, lines_of_all, python_lines
from pinprof.data.model import Capture
from tests.support.stacks import CLOCK, FAULTS, Sample, capture, with_places

FAULT = ["asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page"]
PIN = ["__do_sys_io_uring_register", "io_sqe_buffer_register", "pin_user_pages_fast", "__gup_longterm_locked"]
TENSOR = "backward (_tensor.py:530)@/opt/conda/lib/python3.11/site-packages/torch/_tensor.py"
THREADING = "run (threading.py:982)@/usr/lib/python3.11/threading.py"
MAIN, TRAIN = "<module> (train.py:90)@/home/me/app/train.py", "train (train.py:88)@/home/me/app/train.py"


def lines(*samples: Sample, **more: object) -> tuple[EventLines, ...]:
    made = capture(list(samples), **more)  # type: ignore[arg-type]
    return python_lines(made, attribute(made))


def test_a_sample_belongs_to_the_innermost_line_of_the_programs_own_code() -> None:
    (event,) = lines(
        Sample([MAIN, TRAIN, TENSOR, "at::add@/torch.so", *FAULT], weight=5),
        Sample([MAIN, TRAIN, *FAULT], weight=3),
        Sample([MAIN, *PIN], weight=4),
        Sample(["start_thread@/lib/libc.so.6", *FAULT], weight=2),
    )
    assert [(row.place, row.function, row.weight, row.samples) for row in event.lines] == [
        ("train.py:88", "train", 8, 2),
        ("train.py:90", "<module>", 4, 1),
    ]
    assert (event.total, event.weight) == (14, 12)
    row = event.lines[0]
    assert (row.inside, row.inside_weight, row.library) == ("torch/_tensor.py:530", 5, False)
    assert row.leaves == {"fault.anon": 8}
    assert event.lines[1].inside == ""


def test_a_thread_without_own_code_counts_for_the_librarys_line() -> None:
    (event,) = lines(Sample([THREADING, TENSOR, *PIN], tid=101), threads={(100, 101): "pt_data_pin"})
    row = event.lines[0]
    assert (row.place, row.library, row.inside) == ("torch/_tensor.py:530", True, "")
    assert row.threads == {"pt_data_pin": 1_000_000}


def test_code_compiled_from_text_is_the_line_of_the_file_that_called_it() -> None:
    """A named tuple's; a program given with `python -c` has no other."""
    made, shell = "__new__ (<string>:1)@<string>", "<module> (<string>:7)@<string>"
    (event,) = lines(
        Sample([TRAIN, TENSOR, made, *FAULT], weight=5),
        Sample([TENSOR, made, *FAULT], weight=4),
        Sample([shell, made, *FAULT], weight=3),
        Sample([shell, *FAULT], weight=2),
    )
    assert [(row.place, row.weight) for row in event.lines] == [
        ("<string>:1", 7),
        ("train.py:88", 5),
        ("<string>:7", 2),
    ]
    timed = "inner (<timeit-src>:3)@<timeit-src>"
    (event,) = lines(Sample([TRAIN, TENSOR, timed, *FAULT]))
    assert event.lines[0].place == "train.py:88"


def test_threads_of_one_name_are_one_and_the_heaviest_comes_first() -> None:
    samples = [Sample([TRAIN, *FAULT], tid=tid, weight=weight) for tid, weight in ((100, 5), (101, 3), (102, 4))]
    named = {(100, 100): "python3", (100, 101): "worker", (100, 102): "worker"}
    (event,) = lines(*samples, threads=named)
    assert event.lines[0].threads == {"worker": 7, "python3": 5}
    assert list(event.lines[0].threads) == ["worker", "python3"]


def test_files_of_one_name_are_told_apart_and_home_directories_stay_out() -> None:
    other = "load (train.py:3)@/home/me/lib/train.py"
    (event,) = lines(Sample([TRAIN], weight=2), Sample([other], weight=1))
    assert [row.place for row in event.lines] == ["app/train.py:88", "lib/train.py:3"]
    (event,) = lines(Sample([TRAIN]))
    assert event.lines[0].file == "train.py"
    (event,) = lines(Sample(["f (a.py:1)@/home/alice/a.py"], weight=2), Sample(["f (a.py:1)@/home/bob/a.py"]))
    assert [row.file for row in event.lines] == ["~/a.py", "~/a.py"]


def test_functions_without_lines_and_odd_names() -> None:
    odd = "<lambda> (x) (train.py)@/home/me/app/train.py"
    (event,) = lines(Sample([odd]))
    assert (event.lines[0].function, event.lines[0].line, event.lines[0].place) == ("<lambda> (x)", 0, "train.py")
    assert not event.has_lines
    assert lines(Sample([TRAIN]))[0].has_lines


def test_events_stay_apart_and_lines_add_up() -> None:
    found = lines(
        Sample([MAIN, TRAIN, *FAULT], weight=7),
        Sample([MAIN, *FAULT], weight=64, event=1),
        Sample([], weight=9),
        events=(CLOCK, FAULTS),
    )
    assert [(event.event, event.total, event.weight) for event in found] == [(0, 16, 7), (1, 64, 64)]
    for event in found:
        assert sum(row.weight for row in event.lines) == event.weight
        assert all(sum(row.leaves.values()) == row.weight == sum(row.threads.values()) for row in event.lines)


def test_nothing_of_a_capture_without_python() -> None:
    plain = capture([Sample(["main@/app/a.out"])])
    assert python_lines(plain, attribute(plain)) == ()
    assert np.array_equal(plain.samples.stack, [0])


SOURCES = {
    "load(int) (load.cpp:12)@/app/libload.so": "/home/me/app/src/load.cpp",
    "main (load.cpp:7)@/app/prog": "/home/me/app/test/load.cpp",
    "std::sort<int*> (stl_algo.h:4820)@/app/libload.so": "/usr/include/c++/12/bits/stl_algo.h",
    "core::hint::black_box (hint.rs:491)@/app/libload.so": f"/rustc/{'0a' * 20}/library/core/src/hint.rs",
    "serde::parse (lib.rs:3)@/app/prog": "/home/me/.cargo/registry/src/index.crates.io-6f17/serde-1.0/src/lib.rs",
    "memcpy (fast.cpp:3)@/app/prog": "/home/me/app/src/fast.cpp",
}
LOAD, MAIN_CPP, SORT, BLACK_BOX, SERDE, OWN_COPY = SOURCES


def sourced(plain: Capture) -> Capture:
    """The capture, native functions with their source files."""
    frames = plain.stacks.frames
    dsos = [frames.dsos[dso] for dso in frames.dso.tolist()]
    paths = [dso.path if dso.kind == "python" else "" for dso in dsos]
    keys = [f"{symbol}@{dso.path}" for symbol, dso in zip(frames.symbol, dsos, strict=True)]
    source = [SOURCES.get(key, path) for key, path in zip(keys, paths, strict=True)]
    placed = with_places(replace(frames, function=frames.symbol), source)
    return replace(plain, stacks=replace(plain.stacks, frames=placed))


def all_lines(*samples: Sample) -> tuple[tuple[EventLines, ...], tuple[EventLines, ...]]:
    """Of Python alone, and of all languages."""
    made = sourced(capture(list(samples)))
    attribution = attribute(made)
    alone = python_lines(made, attribution)
    return alone, lines_of_all(made, attribution, alone)


def test_a_native_line_that_python_called_is_the_one() -> None:
    (alone,), (event,) = all_lines(Sample([TRAIN, LOAD, *FAULT], weight=5), Sample([TRAIN, *FAULT], weight=3))
    assert [(row.place, row.weight) for row in alone.lines] == [("train.py:88", 8)]
    assert [(row.place, row.function, row.weight) for row in event.lines] == [
        ("load.cpp:12", "load(int)", 5),
        ("train.py:88", "train", 3),
    ]


def test_headers_of_the_system_and_crates_are_libraries() -> None:
    alone, (event,) = all_lines(
        Sample([MAIN_CPP, LOAD, SORT, *FAULT], weight=5),
        Sample([MAIN_CPP, BLACK_BOX], weight=3),
        Sample([SERDE], weight=2),
        Sample(["start@/lib/libc.so.6"], weight=4),
    )
    assert alone == ()
    assert [(row.place, row.inside, row.library, row.weight) for row in event.lines] == [
        ("src/load.cpp:12", "bits/stl_algo.h:4820", False, 5),
        ("test/load.cpp:7", "library/core/src/hint.rs:491", False, 3),
        ("serde-1.0/src/lib.rs:3", "", True, 2),
    ]
    assert (event.total, event.weight) == (14, 10)


def test_a_line_in_a_name_does_not_change_the_cause() -> None:
    made = sourced(capture([Sample([OWN_COPY])]))
    without = capture([Sample(["memcpy@/app/prog"])])
    assert attribute(made).leaf.tolist() == attribute(without).leaf.tolist()
    assert attribute(made).leaf.tolist() != attribute(capture([Sample(["f@/app/prog"])])).leaf.tolist()
