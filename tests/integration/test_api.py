"""pinprof from Python: this process recorded by itself, tables, the notebook magic."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

import pinprof
from pinprof import read
from pinprof.base.errors import CollectError, UsageError
from tests.support.recorded_programs import needs_native

if find_spec("pandas") is None:
    pytest.skip("pandas is not installed", allow_module_level=True)


pytestmark = needs_native


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert "PINPROF_RANGES" not in os.environ


def touch(blocks: int = 24) -> None:
    """First touch of 8 MiB at a time, by malloc's own mapping, so that each time pays for its pages."""
    for _ in range(blocks):
        bytearray(8 << 20)


def test_a_block_has_lines() -> None:
    with pinprof.record("lines", output="lines") as recording:
        end = time.process_time() + 1.5  # in which Python's frames are read, though their reader may stand still
        while time.process_time() < end:
            touch(40)
    lines = recording.result.analysis.python[0].lines
    touched = [line for line in lines if line.function == "touch"]  # that of the loop may be among them
    assert {line.symbol_place.partition(":")[0] for line in touched} == {"test_api.py"}
    assert all(line.line > 0 for line in touched)


def test_a_block_is_recorded_with_its_phases_and_threads() -> None:
    with pinprof.record("load batch", output="batch", frequency=4999) as recording:
        other = threading.Thread(target=touch)
        other.start()
        with pinprof.phase("alloc"):
            touch(48)
        other.join()
        thread = other.native_id
    assert recording.path == Path("batch.pinprof")
    run = recording.result
    ranges = run.ranges.set_index("name")
    assert list(ranges.index) == ["load batch", "alloc"]
    assert list(ranges.depth) == [0, 1]
    assert ranges.start_ns["load batch"] <= ranges.start_ns["alloc"] < ranges.end_ns["alloc"]
    assert set(run.samples.tid) >= {threading.get_native_id(), thread}
    assert (run.causes[run.causes.unit == "ns"].share.sum()) == pytest.approx(2, abs=1e-9)  # on and off the CPUs
    faults = run.causes[run.causes.unit == "faults"]
    # 72 blocks of 2,048 pages, unless huge pages serve them.
    assert faults.weight.sum() > 72
    assert run.headline
    assert run.save_page("page.html").stat().st_size > 50_000
    assert "load batch" in run.range_causes.range.to_numpy()
    assert run.calls.empty
    assert "pinprof result" in repr(run)


def test_an_exception_keeps_the_recording_and_goes_on() -> None:
    recording = pinprof.record("broken", output="broken")
    with pytest.raises(ZeroDivisionError), recording:
        touch(1 // 0)
    assert recording.result.analysis.capture.manifest.outcome["state"] == "interrupted"
    assert pinprof.open("broken.pinprof").ranges.name.tolist() == ["broken"]


def test_a_decorated_function_is_recorded_at_every_call() -> None:
    @pinprof.record("step", force=True, output="step")
    def step(amount: int) -> int:
        """Adds one."""
        touch(2)
        return amount + 1

    assert step(1) == 2
    assert step(amount=2) == 3
    assert step.__doc__ == "Adds one."
    assert step.recording.result.ranges.name.tolist() == ["step"]  # type: ignore[attr-defined]


def test_a_coroutine_is_recorded_to_its_end() -> None:
    @pinprof.record("step", output="step")
    async def step(amount: int) -> int:
        await asyncio.sleep(0.01)
        with pinprof.phase("awaited"):
            touch(1)
        return amount + 1

    # In a thread of its own: Playwright's loop runs in this one once a browser test has begun.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, step(1)).result() == 2
    assert set(step.recording.result.ranges.name) == {"step", "awaited"}  # type: ignore[attr-defined]


def test_of_threads_that_begin_at_once_one_records() -> None:
    outcomes, together = [], threading.Barrier(4)

    def attempt(number: int) -> None:
        together.wait()
        try:
            with pinprof.record("part", output=f"part-{number}"):
                outcomes.append("recorded")
                together.wait()
        except CollectError as error:
            outcomes.append(error.slug)
            together.wait()

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["recorded", "recording", "recording", "recording"]
    assert len(list(Path().glob("part-*.pinprof"))) == len(list(Path().iterdir())) == 1


def test_mistakes_are_told_in_a_sentence_and_leave_nothing_behind(elsewhere: Path) -> None:
    with pinprof.record("outer", output="outer") as recording:
        with pytest.raises(CollectError, match="already being recorded"), pinprof.record("inner"):
            pass
        with pytest.raises(CollectError, match="is still running"):
            _ = recording.result
    with pytest.raises(CollectError, match="exists already"), pinprof.record("again", output="outer"):
        pass
    with pytest.raises(UsageError), pinprof.record("odd", output="odd", frequency=0):
        pass
    assert sorted(path.name for path in elsewhere.iterdir()) == ["outer.pinprof"]


def test_importing_pinprof_costs_nothing() -> None:
    code = "import pinprof, sys; print(sorted({'numpy', 'pandas', 'click', 'nvtx'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pinprof.nothing  # noqa: B018


def test_an_interrupt_while_symbols_are_stored_leaves_a_whole_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(directory: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(read, "seal_symbols", interrupted)
    with pytest.raises(KeyboardInterrupt), pinprof.record("broken", output="broken") as recording:
        sum(range(1000))
    assert recording.path == Path("broken.pinprof")
    manifest = json.loads((recording.path / "manifest.json").read_text())
    assert any(note.startswith("Symbols were not stored") for note in manifest["outcome"]["notes"])
