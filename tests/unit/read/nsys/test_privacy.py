"""Nothing of an export beside the profiled program's own activity gets into a capture."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from pinprof.read import read
from tests.support.nsys_file import real, write_export

SECRET = "do-not-copy-me"


def texts(value: Any) -> Iterator[str]:
    """Every string inside a capture."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield from texts(list(value))
        yield from texts(list(value.values()))
    elif isinstance(value, list | tuple | frozenset):
        for item in value:
            yield from texts(item)


def test_a_secret_in_the_profiled_environment_stays_in_the_report() -> None:
    path = real("nvtx-2022.4.sqlite")
    assert SECRET.encode() in path.read_bytes()
    assert not [text for text in texts(read(path)) if SECRET in text]


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """uvm.sqlite with a secret wherever an export has names of people, machines, processes and their output."""
    path = tmp_path / "planted.sqlite"
    shutil.copy(real("uvm.sqlite"), path)
    other = 1 << 48 | 9999 << 24
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("INSERT INTO StringIds VALUES (900001, ?)", (SECRET,))
        base.execute("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)", (SECRET,))
        base.execute(
            "UPDATE META_DATA_CAPTURE SET value = ? WHERE name IN ('PROCESS_0:USER_NAME', 'DEVICE_DISPLAY_NAME')",
            (SECRET,),
        )
        base.execute("UPDATE META_DATA_EXPORT SET value = ? WHERE name IN ('EXPORT_HOST', 'EXPORT_USER')", (SECRET,))
        base.execute(
            "UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name IN ('Hostname', 'DeviceEnvironment')", (SECRET,)
        )
        base.execute("INSERT INTO PROCESSES VALUES (?, 9999, ?)", (other, SECRET))
        base.execute("INSERT INTO ThreadNames VALUES (900001, 20, ?)", (other | 9999,))
        base.execute("UPDATE ProcessStreams SET contentId = 900001")
        base.execute("UPDATE DIAGNOSTIC_EVENT SET text = ?", (SECRET,))
        base.execute(
            "INSERT INTO SCHED_EVENTS "
            "SELECT start, cpu, isSchedIn, ?, threadState, threadBlock FROM SCHED_EVENTS LIMIT 50",
            (other | 9999,),
        )
    return path


def test_environment_users_hosts_output_and_other_processes_are_not_read(planted: Path) -> None:
    capture = read(planted)
    assert not [text for text in texts(capture) if SECRET in text]
    assert "/opt/kit" not in "\n".join(texts(capture.manifest))
    assert capture.activity is not None
    assert 9999 not in capture.activity.sched.pid
    assert 9999 not in {pid for pid, _ in capture.threads}
    assert "50 context switches of other processes were left out." in capture.losses.notes


def test_samples_of_other_processes_in_a_system_wide_recording_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wide.sqlite"
    shutil.copy(real("uvm.sqlite"), path)
    other = 1 << 48 | 9999 << 24 | 9999
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(
            "UPDATE META_DATA_CAPTURE SET value = 'SystemWide' WHERE name = 'LINUX_PERF_OPTIONS:COLLECTION_MODE'"
        )
        base.execute(
            "INSERT INTO COMPOSITE_EVENTS "
            "SELECT id + 1000, start, cpu, threadState, ?, 1 FROM COMPOSITE_EVENTS LIMIT 7",
            (other,),
        )
    capture = read(path)
    assert (len(capture.samples), capture.losses.other_processes) == (87, 7)


def test_a_launched_program_that_traced_nothing_is_told_from_the_rest_of_the_machine(tmp_path: Path) -> None:
    def sample(number: int, pid: int) -> dict[str, int]:
        return {"id": number, "start": number, "cpu": 0, "globalTid": 1 << 48 | pid << 24 | pid, "cpuCycles": 1}

    tables = {
        "COMPOSITE_EVENTS": [sample(1, 7), sample(2, 9999), sample(3, 7)],
        "DIAGNOSTIC_EVENT": [{"globalPid": 1 << 48}, {"globalPid": 1 << 48 | 7 << 24}, {"globalPid": -(1 << 57)}],
        "ThreadNames": [{"nameId": 1, "priority": 0, "globalTid": 1 << 48 | 9999 << 24 | 9999}],
    }
    capture = read(write_export(tmp_path / "a.sqlite", tables, strings={1: SECRET}))
    assert capture.samples.pid.tolist() == [7, 7]
    assert (capture.losses.other_processes, capture.threads) == (1, {})
