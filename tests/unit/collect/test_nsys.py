from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pinprof import collect
from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.collect import RecordRequest, nsys, nsys_export, nsys_keeper, nsys_shim
from pinprof.doctor import tools
from pinprof.read import read
from pinprof.read.nsys import export as reader
from tests.support.nsys_file import real

SECRET = b"do-not-copy-me"
MODERN = nsys.Nsys(
    Path("/opt/nsys"),
    "2025.3.2",
    frozenset(
        {
            "output",
            "force-overwrite",
            "trace",
            "cuda-memory-usage",
            "cuda-um-cpu-page-faults",
            "cuda-um-gpu-page-faults",
            "sample",
            "cpuctxsw",
            "wait",
            "kill",
            "show-output",
            "stats",
            "backtrace",
            "samples-per-backtrace",
            "sampling-period",
        }
    ),
    (125_000, 16_000_000),
)


def options(nsys_found: nsys.Nsys, *, samples: bool, frequency: int = 999) -> tuple[dict[str, str], list[str]]:
    request = RecordRequest(("x",), frequency=frequency)
    argv, notes = nsys.command_line(nsys_found, request, Path("/private/out"), samples=samples)
    assert argv[:2] == [str(nsys_found.path), "profile"]
    return dict(word.removeprefix("--").split("=", 1) for word in argv[2:]), notes


def test_everything_about_host_memory_is_traced() -> None:
    chosen, notes = options(MODERN, samples=True)
    assert chosen["trace"] == "cuda,nvtx,osrt"
    assert (
        chosen["cuda-memory-usage"] == chosen["cuda-um-cpu-page-faults"] == chosen["cuda-um-gpu-page-faults"] == "true"
    )
    assert (chosen["sample"], chosen["backtrace"], chosen["samples-per-backtrace"]) == ("process-tree", "fp", "1")
    assert (chosen["wait"], chosen["kill"], chosen["show-output"]) == ("primary", "none", "false")
    assert notes == []


def test_perf_samples_when_both_record() -> None:
    chosen, _ = options(MODERN, samples=False)
    assert chosen["sample"] == "none"
    assert "backtrace" not in chosen
    assert "sampling-period" not in chosen


@pytest.mark.parametrize(("frequency", "period"), [(1000, "1000000"), (50_000, "125000"), (1, "16000000")])
def test_the_sampling_period_stays_within_what_nsys_allows(frequency: int, period: str) -> None:
    assert options(MODERN, samples=True, frequency=frequency)[0]["sampling-period"] == period


def test_an_older_version_goes_without_what_it_lacks_and_says_so() -> None:
    old = nsys.Nsys(Path("/old"), "2020.3.4", frozenset({"output", "trace", "sample", "cpuctxsw"}), None)
    chosen, notes = options(old, samples=True)
    assert chosen.keys() == {"output", "trace", "sample", "cpuctxsw"}
    assert "nsys 2020.3.4 cannot record GPU faults on managed memory." in notes
    assert (chosen["sample"], chosen["cpuctxsw"]) == ("none", "none"), "it can hang over them"
    assert any("perf,nsys" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "names"), [("nsys", ("nsys",)), ("perf,nsys", ("perf", "nsys")), ("perf,,perf", ("perf",))]
)
def test_collectors_are_named_in_a_list(text: str, names: tuple[str, ...]) -> None:
    assert collect.parse_names(text) == names


@pytest.mark.parametrize("text", ["", ",", "strace", "perf,strace"])
def test_a_list_that_names_no_collector_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"native, perf, timers, nsys"):
        collect.parse_names(text)


def test_without_nsys_the_error_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys.tool, "find_nsys", list)
    with pytest.raises(ToolMissing, match=r"\$NSYS"):
        nsys.find_nsys()


def test_an_nsys_that_does_not_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "nsys"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libdw.so.1: cannot open' >&2; exit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("NSYS", str(broken))
    with pytest.raises(ToolMissing, match=r"libdw\.so\.1.*NSYS_LIBRARY_PATH"):
        nsys.find_nsys()


def test_the_program_keeps_its_environment_and_gains_what_nsys_added() -> None:
    wanted = {"SECRET": "s", "TMPDIR": "/mine", "LD_PRELOAD": "/my.so", "PATH": "/bin"}
    given = {"TMPDIR": "/private", "PATH": "/bin", "LD_LIBRARY_PATH": "/nsys-only"}
    found = {
        **given,
        "LD_PRELOAD": "/inject.so",
        "LD_LIBRARY_PATH": "/nsys-only:/cuda",
        "QUADD_AGENT_PID": "7",
        "PWD": "/",
        "_": "x",
    }
    assert nsys_shim.environment(wanted, given, found) == {
        "SECRET": "s",
        "TMPDIR": "/mine",
        "PATH": "/bin",
        "LD_PRELOAD": "/inject.so:/my.so",
        "LD_LIBRARY_PATH": "/cuda",
        "QUADD_AGENT_PID": "7",
    }


@pytest.mark.slow
def test_the_keeper_ends_nsys_processes_of_its_folder_and_no_others(tmp_path: Path) -> None:
    tool = tmp_path / "nsys-launcher"
    tool.write_bytes(Path("/bin/sleep").read_bytes())
    tool.chmod(0o755)
    ours, other = tmp_path / "ours", tmp_path / "other"
    ours.mkdir()
    started = {
        name: subprocess.Popen([program, "600"], env={"TMPDIR": str(folder)})
        for name, program, folder in (("ours", tool, ours), ("other", tool, other), ("program", "/bin/sleep", ours))
    }
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", nsys_keeper.__file__, str(ours)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert started["ours"].wait(60) == -9
        assert keeper.wait(60) == 0
        assert started["other"].poll() is None
        assert started["program"].poll() is None
        assert not ours.exists()
    finally:
        for process in (*started.values(), keeper):
            process.kill()
            process.wait()


def test_a_scrubbed_export_reads_the_same_without_the_secret(tmp_path: Path) -> None:
    export, target = real("nvtx-2022.4.sqlite"), tmp_path / "nsys.sqlite"
    assert SECRET in export.read_bytes()
    nsys_export.scrub(export, target)
    raw = target.read_bytes()
    assert SECRET not in raw
    before, after = read(export), read(target)
    assert after.ranges.name == before.ranges.name
    assert after.ranges.start_ns.tolist() == before.ranges.start_ns.tolist()
    assert after.activity is not None
    assert before.activity is not None
    assert after.activity.os_calls.names == before.activity.os_calls.names
    assert after.activity.marks.names == before.activity.marks.names
    assert after.threads == before.threads
    assert after.manifest.host == before.manifest.host
    with closing(sqlite3.connect(target)) as kept:
        processes = [row[0] for row in kept.execute("SELECT name FROM PROCESSES")]
        tables = {row[0] for row in kept.execute("SELECT name FROM sqlite_master")}
    assert processes == ["./demo"]
    assert not tables & {"ProcessStreams", "ANALYSIS_FILE", "DIAGNOSTIC_EVENT"}


def test_rows_of_other_processes_strings_and_identifiers_are_left_out(tmp_path: Path) -> None:
    export, target = tmp_path / "export.sqlite", tmp_path / "nsys.sqlite"
    ours, shim, other = (pid << 24 for pid in (77, 78, 79))
    with closing(sqlite3.connect(export)) as base:
        base.executescript(f"""
            CREATE TABLE OSRT_API (start INT, end INT, globalTid INT, nameId INT);
            INSERT INTO OSRT_API VALUES (1, 2, {ours | 77}, 1), (1, 2, {shim | 78}, 2);
            CREATE TABLE SCHED_EVENTS (start INT, cpu INT, isSchedIn INT, globalTid INT);
            INSERT INTO SCHED_EVENTS VALUES (1, 0, 1, {ours | 77}), (1, 0, 1, {other | 79});
            CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
            INSERT INTO PROCESSES VALUES ({ours}, 77, 'program'), ({other}, 79, 'mysql-of-alice');
            CREATE TABLE StringIds (id INT, value TEXT);
            INSERT INTO StringIds VALUES (1, 'read'), (2, 'only-the-shim'), (3, 'printed password');
            CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, uuid TEXT);
            INSERT INTO TARGET_INFO_GPU VALUES (0, 'H200', 'GPU-f894241f');
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
            INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('CpuCores', '4'), ('Hostname', 'alice-laptop'),
                ('DeviceEnvironment', 'PASSWORD=hunter2');
            CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
            INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COLLECT_CUDA_TRACE', 'true'),
                ('PROCESS_0:ENVIRONMENT_0', 'PASSWORD=hunter2');
            CREATE TABLE FUTURE_TABLE (value TEXT);
            INSERT INTO FUTURE_TABLE VALUES ('hunter2');
        """)
    nsys_export.scrub(export, target, left_out=(78,))
    with closing(sqlite3.connect(target)) as base:
        rows = {
            table: base.execute(f"SELECT * FROM {table}").fetchall()
            for (table,) in base.execute("SELECT name FROM sqlite_master").fetchall()
        }
    assert rows == {
        "OSRT_API": [(1, 2, ours | 77, 1)],
        "SCHED_EVENTS": [(1, 0, 1, ours | 77)],
        "PROCESSES": [(ours, 77, "program")],
        "StringIds": [(1, "read")],
        "TARGET_INFO_GPU": [(0, "H200", "")],
        "TARGET_INFO_SYSTEM_ENV": [("CpuCores", "4")],
        "META_DATA_CAPTURE": [("PROCESS_0:COLLECT_CUDA_TRACE", "true")],
    }
    raw = target.read_bytes()
    assert not [word for word in (b"hunter2", b"alice", b"only-the-shim", b"GPU-f894241f") if word in raw]


def test_the_tables_that_reading_needs_are_kept() -> None:
    kept = (*nsys_export.EVENT_PREFIXES, *nsys_export.WHOLE_PREFIXES, *nsys_export.OF_TRACED, *nsys_export.FACTS)
    lost = {name for name in reader.schema.KNOWN_TABLES if not name.startswith(kept)}
    assert lost == {nsys_export.STRINGS}, "copied by what refers to them"
    facts = {name for names in nsys_export.FACTS.values() for name in names}
    assert reader.schema.SYSTEM_KEYS.keys() <= facts


def test_a_broken_export_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(os.urandom(4096))
    with pytest.raises(CollectError, match=r"cannot be copied"):
        nsys_export.scrub(tmp_path / "export", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_doctor_names_what_a_killed_nsys_left_in_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(nsys_keeper, "_running", list)  # another test's nsys may run
    (tmp_path / "torch_1").touch()
    check = tools._nsys_shared()
    assert check.state == "ok"
    for name in ("quadd-agent-instance-12", "NSys-a", "sem.nsys-b"):
        (tmp_path / name).touch()
    check = tools._nsys_shared()
    assert check.state == "warning"
    assert "3 files" in check.found
    assert "Agent launcher failed" in check.found
    subprocess.run(check.fix.split("`")[1], shell=True, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["torch_1"]
    monkeypatch.setattr(nsys_keeper, "_running", lambda: [(7, b"")])
    (tmp_path / "quadd-1").touch()
    assert nsys_keeper.left_behind(tmp_path) == []
