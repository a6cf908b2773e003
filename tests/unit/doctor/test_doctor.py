"""What `pinprof doctor` ticks was tried, and its last line says what a recording has."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pinprof import doctor
from pinprof.base.errors import ToolMissing
from pinprof.collect import host, kallsyms, permission, python
from pinprof.collect.collector import SAMPLES_LOST
from pinprof.collect.trouble import UNRECORDED
from pinprof.doctor import machine, probe, recording, rehearsal
from pinprof.doctor.check import Check
from pinprof.doctor.rehearsal import Rehearsal
from pinprof.machine.children import Ended
from pinprof.machine.whereabouts import Whereabouts

WHOLE = Rehearsal(samples=100, kernel=50, named=True, waits=9, wakeups=3, python=True, inside=True)
TICKED = {"native collector", "sampling the kernel", "kernel symbols", "Python lines", "CUDA calls", "wake-ups"}


@pytest.fixture(autouse=True)
def _everything_is_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: 0)
    monkeypatch.setattr(permission, "forbidden", str)
    monkeypatch.setattr(permission, "probes_refused", str)
    monkeypatch.setattr(permission, "here", Whereabouts)
    monkeypatch.setattr(kallsyms, "hidden", lambda: None)
    monkeypatch.setattr(probe, "refusal", lambda: 0)
    monkeypatch.setattr(recording, "_loadable", lambda *_: None)


def checks(found: Rehearsal) -> dict[str, Check]:
    return {result.name: result for result in (check(found) for check in recording.CHECKS)}


def test_what_a_rehearsal_shows_is_ticked() -> None:
    results = checks(WHOLE)
    assert {name for name in TICKED if results[name].state != "ok"} == set()
    assert doctor.verdict([*results.values()]) == "Recording works here, with everything."


def test_nothing_is_ticked_that_is_permitted_and_not_seen() -> None:
    results = checks(Rehearsal())
    assert {name for name in TICKED if results[name].state == "ok"} == {"kernel symbols"}, "these are read directly"
    assert checks(Rehearsal(samples=9, kernel=9))["kernel symbols"].state == "warning"
    assert [result.name for result in results.values() if result.state == "warning" and not result.fix] == []
    assert doctor.verdict([*results.values()]).startswith("A recording here has names of kernel functions and NVTX")


def test_what_a_rehearsal_says_of_itself_is_the_reason() -> None:
    said = (
        (f"{python.COLLECTOR.lost}: No memory.", "Free some."),
        (f"{SAMPLES_LOST}: No files.", "Raise `ulimit -n`."),
    )
    found = checks(Rehearsal(said=said))
    assert found["native collector"].found == "permitted, but a rehearsal has no samples: No files."
    assert found["native collector"].fix == "Raise `ulimit -n`."
    assert found["Python lines"].fix == "Free some."


def test_a_folder_that_cannot_be_written_is_in_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "unwritable", lambda: "Read-only file system")
    assert doctor.verdict([*checks(WHOLE).values()]).endswith("The current folder can't take it: give -o PATH.")


def test_where_nothing_can_be_recorded_the_reason_and_its_cure_are_shown() -> None:
    results = checks(Rehearsal("There is no room.", "Make some."))
    assert results["recording"] == Check(
        "recording", "problem", "A rehearsal of a recording has failed. There is no room.", "Make some."
    )
    assert {results[name].found for name in TICKED - {"kernel symbols", "wake-ups"}} == {"permitted, but not tried"}
    assert doctor.verdict([*results.values()]) == "Recording does not work here: see ✗."


def test_without_samples_lines_have_nothing_to_belong_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: errno.EPERM)
    results = checks(Rehearsal(inside=True))
    assert (results["Python lines"].state, results["native collector"].state) == ("info", "warning")
    said = doctor.verdict([*results.values()])
    assert "has names of kernel functions, CUDA calls and NVTX ranges, but no CPU time" in said


def test_timers_give_cpu_time_where_perf_events_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: errno.EPERM)
    monkeypatch.setattr(permission, "forbidden", lambda: "process_vm_readv fails")
    results = checks(Rehearsal(samples=20, timers=True, python=True, inside=True))
    assert {results[name].state for name in ("timers", "Python lines", "CUDA calls")} == {"ok"}
    assert results["native collector"].state == "warning"
    assert doctor.verdict([*results.values()]) == (
        "A recording here has CPU time with an estimate of the kernel's part, Python lines, CUDA calls and NVTX "
        "ranges, but no stacks in the kernel (exact page faults, all waits): see !."
    )


def test_refused_probes_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "refusal", lambda: errno.EACCES)
    assert "the kernel refuses uprobes (Permission denied)" in checks(WHOLE)["probes"].found
    monkeypatch.setattr(permission, "probes_refused", lambda: "uprobes need root")
    results = checks(Rehearsal())
    assert "because uprobes need root" in results["probes"].found
    assert results["wake-ups"].found == "inferred: recording them needs root"


@pytest.mark.parametrize(
    ("ended", "problem", "remedy"),
    [
        (Ended(None, "", "took more than 60 seconds"), "It took more than 60 seconds.", "Run `pinprof record -- true`"),
        (Ended(7, f"pinprof: {UNRECORDED}: Full. Free some. Or not. [disk-full]\n"), "Full.", "Free some. Or not."),
        (Ended(0, ""), "It left no capture.", "Run `pinprof record -- true`"),
    ],
)
def test_a_rehearsal_that_fails_or_hangs_is_a_problem(
    ended: Ended, problem: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "ran", lambda *_, **__: ended)
    found = rehearsal.rehearsed()
    assert found.problem == problem
    assert found.remedy.startswith(remedy)


def test_no_place_for_a_rehearsal_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing"))
    monkeypatch.setattr(rehearsal, "unwritable", lambda: "Read-only file system")
    found = rehearsal.rehearsed()
    assert "No such file or directory" in found.problem
    assert found.remedy


@pytest.mark.parametrize(
    ("limit", "may", "state", "words"),
    [
        (None, True, "ok", "unlimited"),
        (None, False, "warning", "although the limit is unlimited"),
        (65536, True, "ok", "64 KiB, and this process is exempt"),
        (65536, False, "warning", "64 KiB"),
        (8 << 30, False, "ok", "8 GiB"),
    ],
)
def test_locked_memory_is_tried(
    limit: int | None, may: bool, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "memlock", lambda: limit)
    monkeypatch.setattr(machine, "_may_lock", lambda size: may)
    check = machine._memlock()
    assert (check.state, words in check.found) == (state, True)
    assert check.fix or state == "ok"


def test_a_limit_of_locked_memory_is_found_by_trying() -> None:
    assert machine._may_lock(4096)
    assert not machine._may_lock(1 << 60), "more than there are addresses"


def test_libraries_that_are_missing_or_cannot_be_loaded_are_not_ticked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    library = recording.INSIDE
    try:
        path = library.find()
    except ToolMissing as error:
        pytest.skip(str(error))
    assert recording._loadable("NVTX ranges", library, Rehearsal(loaded=frozenset({str(path)}))) is None
    refused = recording._loadable("NVTX ranges", library, Rehearsal())
    assert refused is not None
    assert (refused.state, "can't be loaded" in refused.found, bool(refused.fix)) == ("warning", True, True)
