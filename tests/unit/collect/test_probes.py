"""When pinprof sets probes, and when it removes their definitions; no probe is set here."""

from __future__ import annotations

import mmap
import os
import platform
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.collect.collector import Setup
from pinprof.collect.native import calls, perf_event, tracefs
from pinprof.collect.native.events import mappings
from pinprof.collect.native.tracefs import ProbeSite
from pinprof.collect.request import RecordRequest
from pinprof.data.gpu_functions import FUNCTIONS, KINDS, READ_PIECES, kind_of
from pinprof.doctor import recording
from pinprof.doctor.rehearsal import Rehearsal


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has met an oops, among other things."""
    (tmp_path / "tainted").write_text("4224\n")
    monkeypatch.setattr(tracefs, "_TAINTED", tmp_path / "tainted")
    monkeypatch.setattr(tracefs, "supported", lambda: True)


@pytest.mark.parametrize(("value", "expected"), [("0", False), ("128", True), ("4224", True), ("4096", False)])
def test_an_oops_is_told_from_other_taints(
    value: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracefs, "_TAINTED", tmp_path / "tainted")
    assert not tracefs.kernel_crashed(), "no file, as in some sandboxes"
    (tmp_path / "tainted").write_text(f"{value}\n")
    assert tracefs.kernel_crashed() == expected


@pytest.mark.slow
@pytest.mark.usefixtures("crashed")
def test_a_kernel_that_has_crashed_gets_no_probes(tmp_path: Path) -> None:
    with ExitStack() as places:
        setup = Setup(RecordRequest(command=("/bin/true",)), tmp_path, places, dict(os.environ))
        assert calls.COLLECTOR.join(setup) == []
    assert setup.notes == [calls.CRASHED]
    check = recording._probes(Rehearsal())
    assert check.state == "warning"
    assert "crashed" in check.found
    assert check.fix


def test_only_what_ended_in_this_pid_namespace_is_abandoned() -> None:
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    beyond = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    definitions = "".join(
        f"p:{group}/enter /lib/libcuda.so.1:0x10 a0=%di:u64\nr:{group}/leave /lib/libcuda.so.1:0x10\n"
        for group in (
            f"pinprof_{namespace}_{beyond}",
            f"pinprof_{namespace}_{os.getpid()}",
            f"pinprof_{namespace + 1}_{beyond}",
            f"pinprof_{beyond}",
            "somebody",
        )
    )
    assert tracefs.abandoned(definitions) == {f"pinprof_{namespace}_{beyond}"}


def test_an_open_or_mapped_event_is_seen() -> None:
    assert not tracefs.events_held()
    attr = replace(mappings().attr, flags=perf_event.DISABLED | perf_event.EXCLUDE_KERNEL, clockid=0)
    try:
        file = perf_event.open_event(attr, 0, -1)
    except OSError as error:
        pytest.skip(f"perf_event_open: {error.strerror}")
    assert tracefs.events_held()
    mapped = mmap.mmap(file, 2 * mmap.PAGESIZE)
    os.close(file)
    assert tracefs.events_held()
    mapped.close()
    assert not tracefs.events_held()


def test_every_watched_function_has_the_kind_that_its_arguments_say() -> None:
    for name, function in FUNCTIONS.items():
        kind = kind_of(name)
        assert kind in KINDS
        assert kind == "batches" if function.sizes is not None else kind == "copies" or function.copies is None, name
        assert kind == "memory" or not function.grants, name
    assert {kind_of(name) for name in ("cudaMemcpyAsync", "cuMemsetD8", "cuMemcpy3DBatchAsync")} == {"copies"}
    assert {kind_of(name) for name in ("cuMemcpyBatchAsync", "cudaMemDiscardBatchAsync")} == {"batches"}
    assert {kind_of(name) for name in ("cudaFree", "cuMemHostUnregister", "cuMemCreate", "cudaMalloc")} == {"memory"}
    assert {kind_of(name) for name in ("cuInit", "cudaStreamSynchronize", "cuMemPrefetchAsync")} == {"other"}


def test_no_register_is_read_but_those_of_arguments_that_count() -> None:
    registers = tracefs.ARGUMENTS[platform.machine()]
    for name, function in FUNCTIONS.items():
        if not function.traced:
            continue
        site = ProbeSite("/lib/libcuda.so.1", 16, kind_of(name), function.arguments, function.sizes, function.pieces)
        said = dict(word.split("=", 1) for word in tracefs.fetched(site).split())
        read = {n for n in range(4) if said[f"a{n}"] == f"{registers[n]}:u64"}
        assert read == set(function.arguments), name
        assert {said[f"a{n}"] for n in range(4) if n not in read} <= {"$stack:u64"}, name
    assert FUNCTIONS["cuInit"].arguments == ()
    assert FUNCTIONS["cuMemFree"].arguments == (0,)
    assert FUNCTIONS["cudaMemcpyAsync"].arguments == (0, 1, 2, 3)


def test_what_is_read_of_a_function_is_what_its_kind_reads() -> None:
    first, *_, last = tracefs.ARGUMENTS[platform.machine()]
    plain = tracefs.fetched(ProbeSite("/lib/libcuda.so.1", 16, arguments=(0, 1, 2, 3)))
    assert plain.split()[0] == f"a0={first}:u64"
    assert plain.split()[-1] == f"a3={last}:u64"
    made = tracefs.fetched(ProbeSite("/lib/libcuda.so.1", 16, "memory", (0, 1, 2, 3), properties=3))
    assert made == plain.replace(f"a3={last}:u64", f"a3=+8({last}):u64")
    batched = tracefs.fetched(ProbeSite("/lib/libcuda.so.1", 16, "batches", (0, 1, 2, 3), sizes=0, pieces=3))
    assert batched == f"{plain} s0=+0({first}):u64[64] s1=+512({first}):u64[64] pieces={last}:u64"
    assert 64 * batched.count(":u64[64]") == READ_PIECES == tracefs.READ_SIZES
    assert all(len(word) < 63 for word in batched.split())  # MAX_ARGSTR_LEN


def test_functions_that_share_a_tracepoint_read_alike() -> None:
    for kind in KINDS:
        arrays = {FUNCTIONS[name].sizes is not None for name in FUNCTIONS if kind_of(name) == kind}
        assert len(arrays) == 1, kind
