"""One recording of this process, cut into portions that are captures of their own."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof import portions as module
from pinprof import read
from pinprof.analyze import Run, analyze
from pinprof.base.errors import CollectError, PinprofError
from pinprof.collect import RecordRequest, native
from pinprof.data.activity import MemoryKind
from pinprof.data.mapped import Mapped
from pinprof.portions import Portions
from pinprof.read.symbols.kept import KeptSymbols
from tests.integration.test_cuda_calls import build

REQUEST = RecordRequest(
    ("/proc/self/exe",), own_process=True, frequency=4999, cuda_calls=False, gpu="off", python="auto"
)


@pytest.fixture(scope="module")
def portions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portions]:
    try:
        native.check(RecordRequest(command=(sys.executable,)))
    except PinprofError as error:
        pytest.skip(str(error))
    made = Portions(REQUEST, tmp_path_factory.mktemp("recording"))
    yield made
    made.close()


SYMBOLS = KeptSymbols()


def touch(pages: int, pause_s: float = 0.05) -> None:
    """First touch of pages, with a pause after each thousand: who looks may stand still for a part of it.

    What a full ring loses at the end of a portion, the kernel says only later.
    """
    memory = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * 4096] = 1
        if pause_s and page % 1000 == 999:
            time.sleep(pause_s)


def explained(path: Path) -> Run:
    return analyze(read.read(path, read.ReadOptions(kept=SYMBOLS)))


def check_faults(analysis: Run, made: int) -> None:
    """Its samples stand for the page faults that were made, less those of samples that the kernel says it lost."""
    counted = next(event.total for event in analysis.events if event.unit == "faults")
    lost = analysis.capture.losses.lost_samples * REQUEST.fault_period
    assert made - 1000 - lost <= counted <= made + 1500


def test_each_portion_holds_what_happened_in_it(portions: Portions, tmp_path: Path) -> None:
    for number, pages in enumerate((30_000, 10_000)):
        portion = portions.begin(f"number {number}")
        touch(pages)
        portion.end(tmp_path / f"{number}.pinprof")
        touch(50_000, pause_s=0)  # between two portions
    first, second = (explained(tmp_path / f"{number}.pinprof") for number in range(2))
    check_faults(first, 30_000)
    check_faults(second, 10_000)
    for number, analysis in enumerate((first, second)):
        capture = analysis.capture
        assert list(capture.ranges.name) == [f"number {number}"]
        assert capture.losses.corrupt_bytes == 0
        # What was mapped before it is known: the kernel's functions by name, Python's by line.
        assert analysis.main is not None
        assert analysis.main.share("fault.*") > 0.1
        assert analysis.python[1].lines[0].symbol_place.startswith("test_portions.py:")


def test_portions_lie_in_each_other(portions: Portions, tmp_path: Path) -> None:
    outer = portions.begin("outer")
    touch(10_000)
    inner = portions.begin("inner")
    touch(20_000)
    inner.end(tmp_path / "inner.pinprof")
    touch(10_000)
    outer.end(tmp_path / "outer.pinprof")
    check_faults(explained(tmp_path / "inner.pinprof"), 20_000)
    whole = explained(tmp_path / "outer.pinprof")
    check_faults(whole, 40_000)
    ranges = whole.capture.ranges
    assert dict(zip(ranges.name, ranges.depth.tolist(), strict=True)) == {"outer": 0, "inner": 1}
    assert "PINPROF_RANGES" not in os.environ


def test_faults_are_told_apart_by_what_is_mapped(portions: Portions, tmp_path: Path) -> None:
    pages = 10_000
    with (tmp_path / "file").open("wb+") as file:
        file.truncate(pages * 4096)
        mapped = {
            Mapped.PRIVATE_FILE: mmap.mmap(file.fileno(), pages * 4096, flags=mmap.MAP_PRIVATE),
            Mapped.SHARED_MEMORY: mmap.mmap(-1, pages * 4096, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
            Mapped.ANONYMOUS: mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
        }
        outer = portions.begin("outer")
        portion = portions.begin("inner")
        for memory in mapped.values():
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for place in range(0, len(memory), 4096):
                memory[place] = 1
        # What is mapped in between is in no list before it.
        touch(pages)
        portion.end(tmp_path / "inner.pinprof")
        outer.end(tmp_path / "outer.pinprof")
    for name in ("inner", "outer"):
        capture = read.read(tmp_path / f"{name}.pinprof", read.ReadOptions(kept=SYMBOLS))
        samples, lost = capture.samples, capture.losses.lost_samples * REQUEST.fault_period
        assert samples.mapped is not None
        assert capture.memory is None, "lists say nothing of amounts"
        for kind in mapped:
            # The interpreter's own faults in anonymous memory are among the last.
            found = int(samples.weight[samples.mapped == kind].sum())
            assert pages - 500 - lost <= found <= pages + 3000, kind


def test_a_recording_that_has_grown_is_begun_anew(
    portions: Portions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = portions._running
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    portion = portions.begin("anew")
    touch(10_000)
    portion.end(tmp_path / "anew.pinprof")
    assert portions._running is not before
    check_faults(explained(tmp_path / "anew.pinprof"), 10_000)


def test_a_recorder_that_dies_costs_its_portion_and_no_other(portions: Portions, tmp_path: Path) -> None:
    portion = portions.begin("lost")
    assert portions._running is not None
    recorder = portions._running._session._patience.recorders[0]
    recorder.send(signal.SIGTERM)
    while not recorder.reap():
        os.sched_yield()
    with pytest.raises(CollectError, match="ended before the block"):
        portion.end(tmp_path / "lost.pinprof")
    portion = portions.begin("again")
    touch(10_000)
    portion.end(tmp_path / "again.pinprof")
    check_faults(explained(tmp_path / "again.pinprof"), 10_000)


def copies_in_two_parts(folder: Path) -> None:
    """What is run in a process of its own, into which no test before has loaded a library of CUDA."""
    request = replace(REQUEST, cuda_calls=True, python="off")
    portions = Portions(request, folder)
    try:
        portions.start()
        runtime, driver = (ctypes.CDLL(str(folder / name)) for name in ("libcudart.so.13", "libcuda.so.1"))
        pinned, device, plain = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        runtime.cudaMallocHost(ctypes.byref(pinned), ctypes.c_size_t(1 << 20))
        driver.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(1 << 20))
        module.MOST_BYTES = 1
        for number in range(2):
            portion = portions.begin(f"copies {number}")
            for source in (pinned, plain, plain):
                runtime.cudaMemcpy(device, source, ctypes.c_size_t(100), 1)
            portion.end(folder / f"{number}.pinprof")
    finally:
        portions.close()


def test_what_was_granted_stays_known_when_a_recording_is_begun_anew(tmp_path: Path) -> None:
    build(tmp_path)
    code = f"from pathlib import Path; from {__name__} import copies_in_two_parts as run; run(Path({str(tmp_path)!r}))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[2], check=True)
    for number in range(2):
        activity = read.read(tmp_path / f"{number}.pinprof").activity
        assert activity is not None
        assert activity.calls.source_kind is not None
        assert Counter(activity.calls.source_kind.tolist()) == {MemoryKind.PINNED: 1, MemoryKind.PAGEABLE: 2}
