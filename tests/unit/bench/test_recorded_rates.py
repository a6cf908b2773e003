"""What memory operations cost is measured once for a machine: later recordings measure what is missing alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pinprof.analyze.evidence import LEAST_NS
from pinprof.base import cache
from pinprof.bench import kept_rates, recorded_rates
from pinprof.bench.calibration import CUDA, HOST, LIMIT_S, Calibration, needs_gpu
from pinprof.bench.recorded_rates import NO_CALIBRATION_VARIABLE, SHORTEST_NS, Calibrating, RecordedRates
from pinprof.collect import host
from pinprof.data import rates
from pinprof.data.manifest import Manifest
from pinprof.data.rates import Rate, Rates
from pinprof.streams.store import INSIDE, PERF_DATA

GPU = len(CUDA)
EVERYTHING = len(HOST) + GPU


class Machine:
    """A machine whose measurements are counted, and recordings on it."""

    def __init__(self, folder: Path) -> None:
        self.capture = folder / "capture"
        self.capture.mkdir()
        self.facts: dict[str, Any] = dict(host.facts())
        self.measured: list[Sequence[str]] = []
        self.lacks: set[str] = set()
        """What cannot be measured for now."""
        self.utc = datetime.now(UTC).isoformat()

    def calibration_of(
        self, machine: dict[str, Any], _: object, measures: Sequence[str], *, limit_s: float
    ) -> Calibration:
        assert 0 < limit_s <= LIMIT_S
        self.measured.append(measures)
        done = [name for name in measures if name not in self.lacks]
        found = tuple(Rate(name, 1 << 20, len(self.measured), 1, 99) for name in done)
        backend = "cuda" if any(map(needs_gpu, done)) else "host"
        made = Rates(machine, backend, self.utc, found, "calibration") if found else None
        return Calibration(made, (), frozenset(done))

    def record(
        self, mapped: bytes = b"libc.so.6", *, wanted: bool = True, anew: bool = False, ns: int = SHORTEST_NS
    ) -> Rates | None:
        """The rates that a recording brings."""
        self.begin(mapped, wanted=wanted, anew=anew, ns=ns).measure(self.capture)
        return self.brought()

    def begin(
        self, mapped: bytes = b"libc.so.6", *, wanted: bool = True, anew: bool = False, ns: int = SHORTEST_NS
    ) -> RecordedRates:
        """A recording that has ended, and has the rates that are known."""
        (self.capture / PERF_DATA).write_bytes(mapped)
        return self.ended(wanted=wanted, anew=anew, ns=ns)

    def ended(self, *, wanted: bool = True, anew: bool = False, ns: int = SHORTEST_NS) -> RecordedRates:
        """The same of one whose files lie there."""
        (self.capture / "rates.json").unlink(missing_ok=True)
        made = RecordedRates(Calibrating(lambda _: None, anew) if wanted else None, ns, running=False)
        made.store(self.capture, Manifest(1, "0", (), {}, self.facts, (), {}))
        return made

    def brought(self) -> Rates | None:
        """The rates beside the recording."""
        written = self.capture / "rates.json"
        return rates.read(written) if written.exists() else None

    @property
    def asked(self) -> list[int]:
        """How many measures each measurement had."""
        return list(map(len, self.measured))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(NO_CALIBRATION_VARIABLE, raising=False)
    monkeypatch.setattr(recorded_rates, "calibration_of", made.calibration_of)
    return made


def kept() -> Path:
    (file,) = cache.place().glob("calibration-*.json")
    return file


def test_a_machine_whose_kernel_shows_nothing_is_measured(machine: Machine) -> None:
    """Where timers inside the program sample, the agent's files alone hold what an answer rests on."""
    (machine.capture / INSIDE).mkdir()
    (machine.capture / INSIDE / "7-0123456789abcdef.bin").write_bytes(b"samples")
    recorded = machine.ended()
    recorded.measure(machine.capture)
    assert machine.asked == [len(HOST)]
    assert machine.brought() is not None


def test_a_second_recording_measures_nothing_and_has_the_same_rates(machine: Machine) -> None:
    first = machine.record()
    assert first is not None
    assert machine.record() == first
    assert machine.asked == [len(HOST)]


def test_a_program_with_a_gpu_measures_what_a_program_without_one_left(machine: Machine) -> None:
    machine.record()
    found = machine.record(b"libcuda.so.1")
    assert machine.record(b"libcuda.so.1") == machine.record() == found
    assert machine.asked == [len(HOST), GPU]
    assert found is not None
    assert (found.backend, len(found.rates)) == ("cuda", EVERYTHING)


def test_what_could_not_be_measured_in_time_is_measured_next_time(machine: Machine) -> None:
    machine.lacks = {"file.read", "touch.cow"}
    machine.record()
    machine.lacks = set()
    found = machine.record()
    assert machine.measured[1:] == [["touch.cow", "file.read"]]
    assert found is not None
    assert {rate.measure for rate in found.rates} == set(HOST)


def test_what_an_answer_rests_on_is_measured_alone_and_the_rest_later(machine: Machine) -> None:
    ended = machine.begin(b"libcuda.so.1")
    assert machine.brought() is None
    assert ended.measure(machine.capture, {"alloc.malloc"}) is None
    asked = {"touch.huge", "memcpy.host", "prefault.tN"}
    first = ended.measure(machine.capture, asked)
    assert first is not None
    assert first == machine.brought()
    assert {rates.family(rate.measure) for rate in first.rates} == asked
    assert ended.measure(machine.capture, asked) is None
    every = ended.measure(machine.capture)
    assert every is not None
    assert every == machine.brought()
    assert set(first.rates) <= set(every.rates)
    assert machine.asked == [3, EVERYTHING - 3]
    assert machine.record(b"libcuda.so.1") == every
    assert ended.measure(machine.capture) is None


def test_after_a_measurement_without_a_result_nothing_else_is_measured(machine: Machine) -> None:
    ended = machine.begin()
    machine.lacks = set(HOST)
    assert ended.measure(machine.capture, {"touch.huge"}) is None
    assert ended.measure(machine.capture) is None
    assert machine.asked == [1]


def test_the_age_is_that_of_the_oldest(machine: Machine) -> None:
    machine.utc = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    first = machine.record()
    machine.utc = datetime.now(UTC).isoformat()
    both = machine.record(b"libcuda.so.1")
    assert first is not None
    assert both is not None
    assert both.measured_utc == first.measured_utc
    age = both.older_than(machine.utc)
    assert age is not None
    assert age.days == 3


def test_a_wish_measures_everything_again_and_that_counts_from_then_on(machine: Machine) -> None:
    machine.record()
    again = machine.record(anew=True)
    assert machine.asked == [len(HOST)] * 2
    assert machine.record() == again
    assert again is not None
    assert {rate.median_ns for rate in again.rates} == {2}


def test_who_measures_nothing_uses_what_is_known(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.record(wanted=False) is None
    known = machine.record()
    assert machine.record(wanted=False) == known
    monkeypatch.setenv(NO_CALIBRATION_VARIABLE, "1")
    assert machine.record(anew=True) == known
    assert machine.asked == [len(HOST)]


@pytest.mark.parametrize("fact", ["kernel", "nvidia_driver", "cpu", "gpus"])
def test_another_machine_is_measured(fact: str, machine: Machine) -> None:
    machine.record()
    machine.facts[fact] = [{"name": "A"}] if fact == "gpus" else "another"
    machine.record()
    assert len(machine.measured) == 2


def another_host(_: Machine, patch: pytest.MonkeyPatch) -> None:
    name = os.uname_result(("Linux", "another", *os.uname()[2:]))
    patch.setattr(os, "uname", lambda: name)


def other_gpus(_: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("CUDA_VISIBLE_DEVICES", "3")


def damaged(_: Machine, __: pytest.MonkeyPatch) -> None:
    kept().write_text(kept().read_text()[:-9])


def of_another_shape(_: Machine, __: pytest.MonkeyPatch) -> None:
    kept().write_text("[1]")


def without_a_time(_: Machine, __: pytest.MonkeyPatch) -> None:
    content = json.loads(kept().read_text())
    content["rates"]["measured_utc"] = "soon"
    kept().write_text(json.dumps(content))


def too_old(_: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_rates, "KEPT_FOR", timedelta())


def another_users(_: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept_rates, "distrusted", lambda _: "user 7 owns it")


def writable_for_others(_: Machine, __: pytest.MonkeyPatch) -> None:
    cache.place().chmod(0o777)


@pytest.mark.parametrize(
    "happens",
    [another_host, other_gpus, damaged, of_another_shape, without_a_time, too_old, another_users, writable_for_others],
)
def test_what_is_not_known_of_this_machine_for_certain_is_measured(
    happens: Callable[[Machine, pytest.MonkeyPatch], None], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.record()
    happens(machine, monkeypatch)
    again = machine.record()
    assert machine.asked == [len(HOST)] * 2
    assert again is not None
    assert again != first


def test_where_nothing_can_be_kept_every_recording_measures(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda: None)
    assert machine.record() is not None
    assert machine.record() is not None
    assert len(machine.measured) == 2


def test_no_prediction_of_a_shorter_run_is_worth_telling() -> None:
    assert SHORTEST_NS == LEAST_NS


@pytest.mark.parametrize(
    ("ns", "mapped", "asked"),
    [
        (SHORTEST_NS - 1, b"libc.so.6", []),
        (SHORTEST_NS, b"libc.so.6", [len(HOST)]),
        (SHORTEST_NS - 1, b"libcuda.so.1", [EVERYTHING]),
    ],
)
def test_a_run_too_short_for_any_saving_is_calibrated_only_for_its_copies_to_the_gpu(
    ns: int, mapped: bytes, asked: list[int], machine: Machine
) -> None:
    machine.record(mapped, ns=ns)
    assert machine.asked == asked
