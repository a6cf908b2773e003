from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.collect import RecordRequest, perf, permission

PERF = perf.Perf("/usr/bin/perf", "6.1.0", buildid_mmap=True)


def fake_perf(directory: Path, version: str, record_help: str) -> None:
    """A stand-in that only answers the two questions find_perf asks."""
    script = directory / "perf"
    script.write_text(f"#!/bin/sh\ncase $1 in version) echo '{version}';; record) echo '{record_help}';; esac\n")
    script.chmod(0o755)


def test_each_event_has_its_own_rate_and_the_programs_pid() -> None:
    argv = perf.command_line(PERF, RecordRequest(("x",), frequency=499, fault_period=8), "c,a", Path("out"), [42])
    assert [argv[place + 1] for place, word in enumerate(argv) if word == "-e"] == [
        "cpu-clock/freq=499/",
        "page-faults/period=8/",
        "context-switches/period=1/",
    ]
    assert "--switch-events" in argv
    assert argv[-2:] == ["-p", "42"]
    assert "fifo:c,a" in argv
    assert "--buildid-mmap" in argv


@pytest.mark.parametrize("options", [{"off_cpu": False}, {"call_graph": "dwarf"}, {"call_graph": "lbr"}])
def test_context_switches_are_left_out_on_request_and_where_perf_script_would_lose_their_ends(
    options: dict[str, Any],
) -> None:
    argv = perf.command_line(PERF, RecordRequest(("x",), **options), "c,a", Path("out"), [42])
    assert not any("switch" in word for word in argv)


def test_system_wide_samples_every_cpu_and_dies_with_pinprof() -> None:
    argv = perf.command_line(PERF, RecordRequest(("x",), system_wide=True), "c,a", Path("out"), [42])
    assert argv[-3:] == ["-a", "--", "cat"]
    assert "-p" not in argv


def test_branch_records_come_with_an_event_that_has_them() -> None:
    argv = perf.command_line(PERF, RecordRequest(("x",), call_graph="lbr"), "c,a", Path("out"), [42])
    assert "cycles/freq=999,call-graph=lbr/" in argv
    assert argv[argv.index("--call-graph") + 1] == "fp"


def test_branch_records_are_refused_where_the_cpu_reports_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_perf(tmp_path, "perf version 6.1", "--control --buildid-mmap")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(permission, "sampling_errno", lambda **_: 0)
    monkeypatch.setattr(perf, "_PMUS", tmp_path)
    request = RecordRequest(("true",), call_graph="lbr")
    with pytest.raises(CollectError, match="no last-branch records"):
        perf.check(request)
    depth = tmp_path / "cpu_core/caps/branches"
    depth.parent.mkdir(parents=True)
    depth.write_text("32\n")
    perf.check(request)


def test_perf_absent_names_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(perf, "_LINUX_TOOLS", str(tmp_path))
    with pytest.raises(ToolMissing) as caught:
        perf.find_perf()
    for package in ("linux-perf", "linux-tools-$(uname -r)", "dnf install perf"):
        assert package in caught.value.remedy


def test_a_wrapper_without_a_perf_behind_it_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper, tools = tmp_path / "bin", tmp_path / "tools/6.8.0-31"
    for directory in (wrapper, tools):
        directory.mkdir(parents=True)
    fake_perf(wrapper, "WARNING: perf not found for kernel 6.8.0-45", "")
    fake_perf(tools, "perf version 6.8.1", "--control --buildid-mmap")
    monkeypatch.setenv("PATH", f"{wrapper}:{os.environ['PATH']}")
    monkeypatch.setattr(perf, "_LINUX_TOOLS", str(tmp_path / "tools"))
    found = perf.find_perf()
    assert (found.path, found.version) == (str(tools / "perf"), "6.8.1")


def test_a_perf_without_control_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_perf(tmp_path, "perf version 5.4.0", "--call-graph")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ToolMissing, match=r"perf 5\.4\.0 is too old"):
        perf.find_perf()


@pytest.mark.parametrize(
    "request_", [RecordRequest(("true",), frequency=0), RecordRequest(("true",), call_graph="magic")]
)
def test_values_that_cannot_be_meant_are_usage_errors(request_: RecordRequest) -> None:
    with pytest.raises(UsageError):
        perf.check(request_)


@pytest.mark.parametrize(
    ("complaints", "slug"),
    [
        ("Access to performance monitoring and observability operations is limited.", "perf-permission"),
        ("failed to mmap with 1 (Operation not permitted)", "perf-permission"),
        ("failed to mmap with 12 (Cannot allocate memory)", "perf-memlock"),
        ("event syntax error: 'cpu-clock'", "perf"),
        ("", "perf"),
    ],
)
def test_what_perf_complains_about_is_told_apart(complaints: str, slug: str) -> None:
    assert perf._start_failure(complaints, RecordRequest(("x",))).slug == slug


def test_a_full_disk_is_recognised_among_perfs_chatter(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"Events disabled\n\x1b[31mfailed to write perf data, error: No space left on device\n\xff\n")
    assert perf._complaints(log) == "[31mfailed to write perf data, error: No space left on device"


def test_a_setuid_root_perf_carries_the_right(tmp_path: Path) -> None:
    binary = tmp_path / "perf"
    binary.write_text("")
    assert not permission.granted_to(str(binary))
    if os.geteuid() == 0:
        binary.chmod(0o755 | stat.S_ISUID)
        assert permission.granted_to(str(binary))


def test_file_capabilities_of_perf_are_read(tmp_path: Path) -> None:
    binary = tmp_path / "perf"
    binary.write_text("")
    revision_2_effective = 0x02000001
    perfmon = (1 << 38).to_bytes(8, "little")
    value = revision_2_effective.to_bytes(4, "little") + perfmon[:4] + bytes(4) + perfmon[4:] + bytes(4)
    try:
        os.setxattr(binary, "security.capability", value)
    except OSError as error:
        pytest.skip(f"file capabilities cannot be set here: {error.strerror}")
    assert permission.granted_to(str(binary))


def test_another_users_process_is_told_apart_from_a_machine_that_forbids_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*, kernel: bool = True, of: int = 0) -> int:
        return errno.EACCES if of == 7 else 0

    monkeypatch.setattr(permission, "sampling_errno", asked)
    permission.require_process(8, kernel=True)
    with pytest.raises(CollectError, match="is not permitted to record process 7, which belongs to another user"):
        permission.require_process(7, kernel=True)
