"""The scenarios on the host backend: right results, nothing left behind, and the causes that they are there to show."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pinprof.workloads.backends import libc, limits
from pinprof.workloads.backends.host import HostBackend
from pinprof.workloads.backends.io_uring import Ring
from pinprof.workloads.backends.userfaultfd import Pager

from pinprof import scenario
from pinprof.base.errors import ScenarioError
from pinprof.cli.list import FAMILIES
from pinprof.scenario import Options
from pinprof.scenario.__main__ import main
from tests.support.command import called, pinprof
from tests.support.emulation import MIB, child, need

CASES = [
    (spec.name, variant)
    for spec in scenario.specs()
    if spec.emulation
    for variant in [one.name for one in spec.variants] or [None]
]


@pytest.mark.parametrize(("name", "variant"), CASES)
@pytest.mark.parametrize("size_bytes", [4096, 5001, 2 * MIB + 12, 33 * MIB])
def test_every_element_is_right_at_odd_and_even_sizes(name: str, variant: str | None, size_bytes: int) -> None:
    need(name)
    result = scenario.run(name, Options(size_bytes, iterations=3, backend="host", variant=variant))
    assert result.verified == 3
    assert result.emulation.startswith("host emulation: ")
    assert {len(times) % 3 for times in result.times_ns.values()} == {0}
    own = {name for name in result.times_ns if re.fullmatch(r"\d+ threads?", name)}
    assert set(result.times_ns) - own == {*result.spec.phases, "verify", "iteration"}
    assert bool(own) == (variant == "curve")
    assert "host emulation" in result.to_text()


MOST_PAGES = 8 * MIB // 4096
"""By which a run may leave this process larger: half of its buffer."""


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_memory_and_descriptors_are_given_back(name: str, variant: str | None) -> None:
    need(name)
    options = Options(16 * MIB, iterations=3, backend="host", variant=variant)
    scenario.run(name, options)
    gc.collect()
    files, threads = open_files(), threading.active_count()
    assert least_growth(lambda: scenario.run(name, options)) < MOST_PAGES
    assert open_files() <= files
    assert threading.active_count() <= threads


def least_growth(run: Callable[[], object]) -> int:
    """By how many pages a run leaves this process larger.

    What is kept grows with every run; this process, which runs many tests, may also grow by itself.
    """
    grown = [MOST_PAGES]
    while min(grown) >= MOST_PAGES and len(grown) <= 3:
        pages = resident_pages()
        run()
        gc.collect()
        grown.append(resident_pages() - pages)
    return min(grown)


def open_files() -> int:
    """Of this process; those that tests before have left may be closed at any time."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_failed_iteration_leaves_nothing_behind(
    name: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(name)
    files = open_files()
    monkeypatch.setattr(HostBackend, "add_two", lambda *_: None)
    with pytest.raises(ScenarioError, match=r"wrong result: element 0 is 1\.0, not \d+\.0"):
        scenario.run(name, Options(4 * MIB, backend="host", variant=variant))
    assert open_files() <= files


@pytest.mark.parametrize("name", sorted(set(scenario.names()) - {name for name, _ in CASES}))
def test_scenario_that_needs_a_gpu_says_that_the_host_has_no_form_of_it(name: str) -> None:
    result = called(main, [name, "--backend", "host"])
    assert result.returncode == 1
    assert f"{name} needs an NVIDIA GPU: it can't run on the host backend." in result.stderr
    assert result.stderr.count("\n") == 1


def test_ranges_nest_in_order_and_leave_out_the_warm_up(tmp_path: Path) -> None:
    need("zerocopy")
    ranges, facts = tmp_path / "ranges.jsonl", tmp_path / "scenario.json"
    files = {"PINPROF_RANGES": str(ranges), "PINPROF_SCENARIO": str(facts)}
    result = child("zerocopy", "--size-bytes", "1MiB", "--iterations", "2", "--warmup", "3", **files)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [json.loads(line) for line in ranges.read_text().splitlines()]
    assert [line["name"] for line in lines] == ["alloc", "init", "kernel", "verify", "free", "iteration"] * 2
    assert [line["depth"] for line in lines] == [1, 1, 1, 1, 1, 0] * 2
    for start in (0, 6):
        *inner, outer = lines[start : start + 6]
        times = [time for line in inner for time in (line["start_ns"], line["end_ns"])]
        assert [outer["start_ns"], *times, outer["end_ns"]] == sorted([outer["start_ns"], *times, outer["end_ns"]])
    described = json.loads(facts.read_text())
    assert described["backend"] == "host"
    assert described["emulation"].startswith("host emulation")
    assert described["parameters"]["size_bytes"] == MIB
    assert set(described["calls"]) == {"alloc", "init", "kernel", "free"}


def test_behaviour_is_the_same_without_any_tool(tmp_path: Path) -> None:
    need("pinned")
    result = child("pinned", "--size-bytes", "1MiB", "--iterations", "2")
    assert result.returncode == 0
    assert "every element verified in 2 of 2 iterations" in result.stdout
    assert result.stderr == ""


def test_facts_that_cannot_be_written_do_not_stop_the_run() -> None:
    need("zerocopy")
    result = child("zerocopy", "--size-bytes", "1MiB", "--iterations", "1", PINPROF_SCENARIO="/proc/none/scenario.json")
    assert result.returncode == 0
    assert result.stderr.count("facts were not recorded") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pinnd"], 2, "Did you mean 'pinned'?"),
        (["pinned", "--size-bytes", "0"], 2, "is zero"),
        (["pinned", "--size-bytes", "4095"], 2, "less than a page"),
        (["register", "--variant", "half"], 2, "Choose one of: touched, untouched."),
        (["pinned", "--variant", "half"], 2, "has no variants"),
        (["prefault", "--threads", "0"], 2, "--threads 1 to"),
        (["pinned", "--threads", "2"], 2, "no threads of its own"),
        (["pinned", "--size-bytes", "10EiB"], 1, "20 EiB of host memory"),
        (["pinned", "--device", "3"], 2, "no device 3"),
        (["pinned", "--iterations", "0"], 2, "is not a valid number of iterations"),
    ],
)
def test_mistakes_are_one_line_with_what_to_do(arguments: list[str], status: int, message: str) -> None:
    result = called(main, [*arguments, "--backend", "host"])
    assert result.returncode == status
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("pinprof: error: ")
    assert result.stderr.count("\n") == 1


def test_list_shows_every_scenario_and_variant_by_family(tmp_path: Path) -> None:
    listed = pinprof("list", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    described = json.loads(pinprof("list", "--json", cwd=tmp_path).stdout)
    assert {one["family"] for one in described} == {spec.family for spec in scenario.specs()}
    assert [one["name"] for one in described] == re.findall(r"^  (\S+)", listed.stdout, re.MULTILINE)
    for spec in scenario.specs():
        assert re.search(rf"^  {spec.name} +{re.escape(spec.summary)}", listed.stdout, re.MULTILINE)
        for variant in spec.variants:
            (line,) = re.findall(
                rf"^    {variant.name} +{re.escape(variant.summary)}(.*)$", listed.stdout, re.MULTILINE
            )
            assert line == (f" (also: pinprof run {variant.alias})" if variant.alias else "")
    assert re.findall("^[a-zP].*", listed.stdout, re.MULTILINE) == list(FAMILIES)


def test_list_of_one_scenario_explains_it_and_takes_its_aliases(tmp_path: Path) -> None:
    told = pinprof("list", "pool", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    spec = scenario.load("alloc-loop").spec
    assert " ".join(spec.description.split()) in " ".join(told.stdout.split())
    assert [line.strip() for line in told.stdout.splitlines() if "pinprof run" in line] == [
        f"pinprof run alloc-loop --variant {variant.name}: {variant.summary}" for variant in spec.variants
    ]
    assert "cudaFreeHost + cudaFree" in told.stdout


@pytest.mark.parametrize("alias", ["pool", "uvm-naive", "write-combined", "portable", "mapped", "zero-copy"])
def test_modes_that_people_look_for_are_found_by_their_names(alias: str, tmp_path: Path) -> None:
    done = pinprof("run", alias, "--size", "64KiB", "--iterations", "1", "--backend", "host", cwd=tmp_path)
    name, variant = scenario.resolve(alias)
    if scenario.load(name).spec.emulation is None:
        assert f"{name} needs an NVIDIA GPU" in done.stderr
        return
    need(name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name} ({variant}): " if variant else f"{name}: ")


def test_variant_and_threads_reach_the_recorded_program_and_its_capture(tmp_path: Path) -> None:
    need("prefault")
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    options = ["--variant", "small", "--threads", "3", "--backend", "host", "--size", "8MiB", "--iterations", "2"]
    done = pinprof("run", "prefault", *options, "--record=perf", "-o", "out.pinprof", cwd=tmp_path)
    if done.returncode and re.search("paranoid|not permitted|Permission", done.stderr):
        pytest.skip("perf is not permitted here")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out.pinprof" / "manifest.json").read_text())
    assert manifest["scenario"]["parameters"]["variant"] == "small"
    assert manifest["scenario"]["parameters"]["threads"] == 3
    assert manifest["scenario"]["calls"]["alloc"] == "mmap + madvise(MADV_NOHUGEPAGE)"
    assert "--variant=small" in manifest["command"]


def test_unknown_variant_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    done = pinprof("run", "register", "--variant", "half", "--record=perf", cwd=tmp_path)
    assert done.returncode == 2
    assert "Choose one of: touched, untouched." in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_script_that_runs_all_scenarios_counts_failures(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "tools" / "run-all-scenarios.sh"
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *specs*) printf 'good\\t\\nbad\\tone\\nabsent\\t\\n' ;;\n"
        "  *good*) echo fine ;;\n"
        "  *bad*--variant*one*) echo broken; exit 1 ;;\n"
        "  *absent*) echo 'pinprof: error: … [no-gpu]'; exit 1 ;;\n"
        "esac\n"
    )
    fake.chmod(0o755)
    command = [str(script), "1MiB", "1", "host"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHON": str(fake)}, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[::2] == ["== good -: OK", "== bad one: FAIL", "== absent -: SKIP", "1 failed"]


def test_registered_memory_is_copied_without_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    need("register")
    backend = HostBackend()
    backend.prepare(("pageable", "device"), 8 * MIB)
    memory, device = backend.pageable(8 * MIB), backend.device(8 * MIB)
    copies: list[int] = []
    monkeypatch.setattr(libc, "memcpy", lambda target, source, size: copies.append(size))
    backend.copy_to_device(device, memory)
    assert copies == [2 * MIB] * 8
    copies.clear()
    backend.register(memory)
    backend.copy_to_device(device, memory)
    assert copies == [8 * MIB]
    backend.unregister(memory)
    backend.close()


def refused(name: str, number: int, code: int) -> int:
    raise OSError(code, os.strerror(code))


@pytest.mark.parametrize(
    ("name", "sysctl"), [("pinned", "kernel.io_uring_disabled"), ("uvm", "vm.unprivileged_userfaultfd")]
)
def test_forbidden_mechanism_is_named_with_its_sysctl(name: str, sysctl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libc, "syscall", lambda name, number, *_: refused(name, number, 1))
    with pytest.raises(ScenarioError, match="does not permit") as raised:
        scenario.run(name, Options(MIB, backend="host"))
    assert sysctl in str(raised.value)
    assert "which the scenario needs" in str(raised.value)
    assert "pinprof doctor" in raised.value.remedy


@pytest.mark.parametrize(("name", "size"), [("pinned", "64 MiB"), ("register", "4 MiB"), ("staged", "4 MiB")])
def test_limit_of_locked_memory_is_named(name: str, size: str) -> None:
    need("pinned")
    # Root has CAP_IPC_LOCK, for which the limit does not hold; a process without it is as any other user's.
    drop = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] if os.geteuid() == 0 else []
    if not shutil.which("prlimit") or (drop and not shutil.which("setpriv")):
        pytest.skip("needs prlimit and setpriv of util-linux, to lower the limit in a child")
    command = [*drop, "prlimit", "--memlock=1048576:1048576", sys.executable, "-m", "pinprof.scenario", name]
    result = subprocess.run(
        [*command, "--size-bytes", "64MiB", "--backend", "host"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    # The limit counts for a user, so rings that other processes close meanwhile may leave no room for a ring itself.
    assert f"{size} cannot be pinned" in result.stderr or "does not permit io_uring" in result.stderr
    assert "the limit of locked memory is 1 MiB" in result.stderr
    assert "ulimit -l" in result.stderr


@pytest.mark.parametrize("name", ["pinned", "register", "prefault", "staged", "zerocopy"])
def test_pin_that_is_refused_leaves_nothing_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("pinned")
    files, pin = open_files(), Ring.pin
    pins: list[int] = []

    def refuse(self: Ring, address: int, size_bytes: int) -> None:
        pins.append(size_bytes)
        if len(pins) > 2:
            raise ScenarioError("No more can be pinned.", "Give less.", "memlock")
        pin(self, address, size_bytes)

    def run() -> None:
        pins.clear()
        with pytest.raises(ScenarioError, match="No more can be pinned"):
            scenario.run(name, Options(16 * MIB, iterations=3, backend="host"))

    monkeypatch.setattr(Ring, "pin", refuse)
    assert least_growth(run) < MOST_PAGES
    assert open_files() <= files


def test_handler_that_fails_ends_the_wait_and_is_named() -> None:
    need("uvm")
    pager = Pager()
    size = 4 * MIB
    address = libc.mmap(size, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS)

    def fail(_: int) -> None:
        raise ValueError("broken on purpose")

    pager.register(address, size, fail)
    libc.wmemset(address, 7, size // 4)
    with pytest.raises(ScenarioError, match="broken on purpose"):
        pager.check()
    pager.unregister(address, size)
    pager.close()
    libc.munmap(address, size)


def test_two_threads_that_fault_on_one_block_both_go_on() -> None:
    need("uvm")
    pager = Pager()
    size = 2 * MIB
    source = libc.mmap(size, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS)
    libc.wmemset(source, 7, size // 4)
    for _ in range(50):
        address = libc.mmap(size, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS)
        pager.register(address, size, lambda _, start=address: pager.copy(start, source, size))  # type: ignore[misc]
        halves = [
            threading.Thread(target=libc.wmemchr, args=(address + offset, 8, size // 8)) for offset in (0, size // 2)
        ]
        for half in halves:
            half.start()
        for half in halves:
            half.join(60)
            assert not half.is_alive()
        assert ctypes.string_at(address, size) == ctypes.string_at(source, size)
        pager.unregister(address, size)
        libc.munmap(address, size)
    libc.munmap(source, size)
    pager.check()
    pager.close()


@pytest.mark.parametrize("name", ["pinned", "uvm"])
def test_interrupt_ends_the_run_at_once_and_keeps_whole_iterations(name: str, tmp_path: Path) -> None:
    need(name)
    ranges = tmp_path / "ranges.jsonl"
    command = [sys.executable, "-m", "pinprof.scenario", name, "--size-bytes", "16MiB", "--iterations", "100000"]
    environment = {**os.environ, "PINPROF_RANGES": str(ranges)}
    with subprocess.Popen(
        [*command, "--backend", "host"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 60
        while not ranges.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)  # its iterations would take hours
    assert process.returncode == 130
    assert errors == b""
    assert all(json.loads(line) for line in ranges.read_text().splitlines())


def test_pinned_buffers_above_one_gibibyte_are_split() -> None:
    need("pinned")
    if limits.free_host_bytes() < 4 << 30:
        pytest.skip("less than 4 GiB of memory are free")
    size = (1 << 30) + 3 * 4096
    backend = HostBackend()
    memory = backend.pinned(size)
    memory.fill(5.0)
    assert memory.mismatch(5.0) is None
    backend.close()
