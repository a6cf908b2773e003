"""Recordings that the real perf makes here, in every way it writes them, against what perf itself says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pinprof import analyze, read
from pinprof.data.model import KERNEL, Capture
from pinprof.read.perf.script import read_perf_script

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
volatile unsigned long sink;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sink = sink * 31 + i; }
__attribute__((noinline)) void deep(int depth) { if (depth) deep(depth - 1); else leaf(3000); sink++; }
__attribute__((noinline)) void touch(void) {
  char *p = mmap(0, 512 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 1, 512 << 10); sink += p[4096]; munmap(p, 512 << 10); sink++;
}
__attribute__((noinline)) void spread(void) { deep(3); deep(12); leaf(9000); sink++; }
int main(int argc, char **argv) {
  for (int i = 0; i < 400 * atoi(argv[1]); i++) { spread(); if (i % 20 == 0) touch(); }
  return 0;
}
"""
TOUCH = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  for (int i = 0; i < atoi(argv[1]); i++) {
    char *p = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 2 << 20, MADV_NOHUGEPAGE);
    memset(p, 1, 2 << 20); munmap(p, 2 << 20);
  }
}
"""
FUNCTIONS = ("leaf", "deep", "touch", "spread", "main")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("perf") is None or shutil.which("cc") is None:
        pytest.skip("perf or cc is not installed")
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run(["cc", *flags, "-o", folder / "work", folder / "program.c"], check=True)
    trial = subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-o", folder / "trial", "true"], capture_output=True, check=False
    )
    if trial.returncode:
        pytest.skip(f"perf may not record here: {trial.stderr.decode()[:200]}")
    return folder / "work"


def record(program: Path, *options: str, amount: int = 20, stdout: Path | None = None) -> Path:
    """Record the program with perf; where the file is."""
    path = stdout or program.parent / f"{abs(hash(options))}.perf.data"
    command = ["perf", "record", "-q", *options, "-o", "-" if stdout else str(path), "--", str(program), str(amount)]
    with (stdout or Path("/dev/null")).open("wb") as target:
        subprocess.run(command, check=True, stdout=target, stderr=subprocess.DEVNULL)
    return path


def inclusive(capture: Capture, event: int = 0) -> Counter[tuple[bool, str]]:
    """Per (in the kernel, function), the samples of an event that have it anywhere in their stack."""
    counts: Counter[tuple[bool, str]] = Counter()
    stacks = capture.stacks
    rows = capture.samples.event == event
    for node, samples in Counter(capture.samples.stack[rows].tolist()).items():
        frames = {int(stacks.frame[above]) for above in stacks.chain(node)}
        for key in {(bool(stacks.frames.mode[frame]), stacks.frames.symbol[frame]) for frame in frames}:
            counts[key] += samples
    return counts


def self_counts(capture: Capture) -> Counter[str]:
    stacks = capture.stacks
    return Counter(
        stacks.frames.symbol[int(stacks.frame[node])] for node in capture.samples.stack.tolist() if node >= 0
    )


def perf_report(path: Path, *options: str) -> list[tuple[float, int, bool, str]]:
    """(inclusive or self percent, self samples, in the kernel, function) of `perf report`, without symbol versions."""
    columns = "overhead_children,sample,sym" if "--children" in options else "overhead,sample,sym"
    text = subprocess.run(
        ["perf", "report", "--stdio", "-g", "none", "--no-inline", "-w", "0,0,90", *options, "-F", columns, "-i", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = re.findall(r"^\s+([\d.]+)%\s+(\d+)\s+\[([.k])\]\s(\S+)", text, re.MULTILINE)
    return [
        (float(percent), int(count), mode == "k", symbol if symbol.endswith("@plt") else symbol.split("@")[0])
        for percent, count, mode, symbol in rows
    ]


def in_plt(name: str) -> bool:
    return name == "_init" or name.endswith("@plt")


def has_names(capture: Capture) -> bool:
    return not any("kptr_restrict" in note or "kallsyms" in note for note in capture.losses.notes)


def test_self_samples_per_function_equal_those_of_perf_report(program: Path) -> None:
    path = record(program, "-e", "cpu-clock/period=100000/", "-g", "-k", "CLOCK_MONOTONIC")
    capture = read.read(path)
    ours = self_counts(capture)
    theirs: Counter[str] = Counter()
    for _, count, _, symbol in perf_report(path, "--no-children"):
        theirs[symbol] += count
    assert sum(theirs.values()) == len(capture.samples) > 500
    assert {name: ours[name] for name in FUNCTIONS} == {name: theirs[name] for name in FUNCTIONS}
    if has_names(capture):
        # perf has no name for "0x7f…", and calls an entry of the PLT "strtol@plt", or "_init" as its section.
        known = {name: count for name, count in theirs.items() if not name.startswith("0x") and not in_plt(name)}
        assert {name: ours[name] for name in known} == known
        # "@plt" alone stands for what is chosen when a library is loaded, as libc's memset: that has no name here.
        entries = sum(theirs[name] for name in theirs if in_plt(name))
        assert entries - theirs["@plt"] <= sum(ours[name] for name in ours if in_plt(name)) <= entries


def test_inclusive_samples_per_function_equal_those_of_perf_report(program: Path) -> None:
    path = record(program, "-e", "cpu-clock/period=200000/", "-g", amount=10)
    capture = read.read(path)
    ours = inclusive(capture)
    total = len(capture.samples)
    # With a fixed period, percent times total is a whole number; perf prints two decimals, enough up to 5,000 samples.
    assert 100 < total < 5000
    theirs: Counter[tuple[bool, str]] = Counter()
    for percent, _, in_kernel, symbol in perf_report(path, "--children"):
        theirs[in_kernel, symbol] += round(percent * total / 100)
    assert ours[False, "main"] == theirs[False, "main"]
    assert {name: ours[False, name] for name in FUNCTIONS} == {name: theirs[False, name] for name in FUNCTIONS}
    if has_names(capture):
        shared = {key for key in ours if key[0]} & theirs.keys()
        assert shared
        assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


def test_a_share_without_call_chains_is_a_lower_bound(program: Path, tmp_path: Path) -> None:
    (tmp_path / "touch.c").write_text(TOUCH)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "work", tmp_path / "touch.c"], check=True)
    bare, chained = (
        analyze.analyze(read.read(record(tmp_path / "work", "-e", "cpu-clock/freq=999/", *options, amount=1500)))
        for options in ((), ("-g",))
    )
    if not has_names(bare.capture):
        pytest.skip("the kernel's functions have no names here")
    assert re.match(r"At least \d+ % of the CPU time is page faults", bare.headline), bare.headline
    assert "It may be more, because its samples have no call chains; record with" in bare.headline
    assert re.match(r"\d+ % of the CPU time is page faults", chained.headline), chained.headline


def test_pipe_mode_gives_the_same_picture_as_a_file(program: Path) -> None:
    options = ("-e", "cpu-clock/freq=1999/", "-e", "page-faults/period=8/", "-d", "-g", "-k", "CLOCK_MONOTONIC")
    piped = read.read(record(program, *options, stdout=program.parent / "piped"))
    filed = read.read(record(program, *options))
    for capture in (piped, filed):
        assert [(event.name, event.unit) for event in capture.events] == [
            ("cpu-clock/freq=1999/", "ns"),
            ("page-faults/period=8/", "faults"),
        ]
        assert capture.clock.source == "monotonic"
        assert capture.losses.corrupt_bytes == capture.losses.unknown_records == 0
        assert inclusive(capture)[False, "main"] > 0.9 * (capture.samples.event == 0).sum()
        faults = capture.samples.event == 1
        assert faults.any()
        assert set(capture.samples.weight[faults].tolist()) == {8}
        assert (capture.samples.address[faults] != 0).all()
    assert piped.manifest.host == filed.manifest.host


def test_pipe_may_be_read_as_it_is_written(program: Path) -> None:
    path = record(program, "-e", "cpu-clock", "-g", stdout=program.parent / "stream")
    code = "import sys; from pinprof import read; print(len(read.read('-').samples))"
    with path.open("rb") as stream:
        result = subprocess.run([sys.executable, "-c", code], stdin=stream, capture_output=True, text=True, check=True)
    assert int(result.stdout) == len(read.read(path).samples)


def test_compressed_recording_is_read_like_a_plain_one(program: Path) -> None:
    path = record(program, "-z", "-e", "cpu-clock/period=100000/", "-g")
    assert (
        b"COMPRESSED"
        in subprocess.run(["perf", "report", "-i", path, "--stats"], capture_output=True, check=True).stdout
    )
    capture = read.read(path)
    theirs = {symbol: count for _, count, _, symbol in perf_report(path, "--no-children")}
    ours = self_counts(capture)
    assert {name: ours[name] for name in FUNCTIONS} == {name: theirs.get(name, 0) for name in FUNCTIONS}
    assert capture.losses.corrupt_bytes == 0


def test_copied_stacks_are_unwound_by_perf(program: Path) -> None:
    path = record(
        program, "-e", "cpu-clock/period=2000000/", "--call-graph", "dwarf,4096", "-k", "CLOCK_MONOTONIC", amount=10
    )
    capture = read.read(path)
    counts = inclusive(capture)
    assert capture.clock.source == "monotonic"
    total = len(capture.samples)
    assert counts[False, "main"] > 0.8 * total > 10
    rows = perf_report(path, "--children")
    theirs = {name: round(percent * total / 100) for percent, _, in_kernel, name in rows if not in_kernel}
    assert {name: counts[False, name] for name in FUNCTIONS} == {name: theirs.get(name, 0) for name in FUNCTIONS}
    assert capture.samples.weight.sum() == 2_000_000 * total
    assert capture.manifest.command[0] == str(program)
    assert any("perf script" in note for note in capture.losses.notes)


def test_copied_stacks_without_perf_are_a_clear_error(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pinprof.base.errors import ToolMissing

    path = record(program, "-e", "cpu-clock/period=2000000/", "--call-graph", "dwarf,1024", amount=2)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match="copied stacks"):
        read.read(path)


def test_system_wide_recording_leaves_other_programs_out(program: Path) -> None:
    other = subprocess.Popen([program, "2000"])
    try:
        # Without build ids: perf 6.1 can crash over those that it reads at its end, of whatever else runs here.
        capture = read.read(record(program, "-a", "-B", "-e", "cpu-clock/freq=1999/", "-g", amount=40))
    finally:
        other.kill()
        other.wait()
    if note := next((note for note in capture.losses.notes if "So it shows every process." in note), ""):
        program_pids = {pid for (pid, _), name in capture.threads.items() if name == program.name} - {other.pid}
        assert np.isin(capture.samples.pid, list(program_pids)).mean() < 0.05
        pytest.skip(f"the machine gave the program too little: {note}")
    assert other.pid not in capture.samples.pid
    assert capture.losses.other_processes > 0
    assert inclusive(capture)[False, "main"] > 0
    assert capture.threads.get((0, 0), "swapper") == "swapper"


def printable_recording(folder: Path, *options: str) -> Path:
    """A recording of a short busy program; skips where perf may not record."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    path = folder / "perf.data"
    program = ["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls -R /usr/share/doc >/dev/null"]
    events = ["-e", "cpu-clock/freq=1999/", "-e", "page-faults/period=8/", "-d", "-k", "CLOCK_MONOTONIC"]
    result = subprocess.run(
        [perf, "record", "-q", "-o", path, *events, *options, "--", *program], capture_output=True, check=False
    )
    if result.returncode or not path.exists():
        pytest.skip(f"perf cannot record here: {result.stderr.decode(errors='replace')[:200]}")
    return path


@pytest.mark.parametrize("options", [("-g",), ("--call-graph", "dwarf,4096"), ()], ids=["fp", "dwarf", "no chains"])
def test_what_perf_script_prints_reads_to_what_perf_itself_counts(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = printable_recording(tmp_path, *options)
    default = subprocess.run(["perf", "script", "-i", path], capture_output=True, text=True, check=True).stdout
    wide = subprocess.run(
        ["perf", "script", "-i", path, "--ns", "-F", "comm,pid,tid,time,period,event,addr,ip,sym,symoff,dso"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    plain = subprocess.run(
        ["perf", "script", "-i", path, "-F", "comm,tid,time,event", "-G"], capture_output=True, text=True, check=True
    ).stdout
    counts = Counter(re.findall(r"(cpu-clock/freq=1999/|page-faults/period=8/): *$", plain, re.MULTILINE))
    assert sum(counts.values()) > 20
    for text in filter(None, (default, wide)):
        capture = read_perf_script(text.splitlines(keepends=True), "text")
        by_event = Counter(capture.events[index].name for index in capture.samples.event.tolist())
        assert by_event == counts
        assert capture.losses.corrupt_bytes == 0
        faults = [index for index, event in enumerate(capture.events) if event.unit == "faults"]
        rows = np.isin(capture.samples.event, faults)
        assert (capture.samples.weight[rows] == 8).all()
        assert "[unknown kernel]" in capture.stacks.frames.symbol or any(
            mode == KERNEL for mode in capture.stacks.frames.mode
        )


INHERITING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <sys/syscall.h>
long syscall(long number, ...) {
  long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall"), given[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) given[i] = va_arg(rest, long);
  va_end(rest);
  struct perf_event_attr *attr = (void *)given[0];
  if (number == SYS_perf_event_open && attr->sample_type & PERF_SAMPLE_READ) attr->inherit = 1;
  return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
"""
FAMILY = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
volatile unsigned long sink;
void *touch(void *_) {
  for (int i = 0; i < 40; i++) {
    char *p = mmap(0, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 2 << 20, MADV_NOHUGEPAGE);
    memset(p, 1, 2 << 20);
    munmap(p, 2 << 20);
    for (int j = 0; j < 300000; j++) sink = sink * 31 + j;
  }
  return 0;
}
int main(void) {
  pthread_t thread;
  if (fork() == 0) { touch(0); return 0; }
  pthread_create(&thread, 0, touch, 0);
  touch(0);
  pthread_join(thread, 0);
  wait(0);
}
"""


def counts_of_perf(path: Path) -> Counter[str]:
    """Per event the sum of what perf says that its samples count."""
    printed = subprocess.run(
        ["perf", "script", "-i", path, "-F", "period,event", "-G"], capture_output=True, text=True, check=True
    ).stdout
    counts: Counter[str] = Counter()
    for period, event in re.findall(r"^\s*(\d+)\s+([\w-]+)\S*: *$", printed, re.MULTILINE):
        counts[event] += int(period)
    return counts


def counts_of(capture: Capture) -> dict[str, int]:
    return {
        event.name.split(":")[0]: int(capture.samples.weight[capture.samples.event == number].sum())
        for number, event in enumerate(capture.events)
    }


@pytest.mark.parametrize(
    "options",
    [
        ("-e", "{cpu-clock,page-faults}:S", "-g"),
        ("-e", "{cpu-clock,page-faults,context-switches}:S", "-F", "999"),
        ("-e", "{page-faults,cpu-clock}:S", "-c", "50", "-g"),
        ("-e", "{cpu-clock,page-faults}:S,{task-clock,minor-faults}:S", "-g"),
        ("-e", "cpu-clock:S", "--no-inherit", "-g"),
    ],
    ids=lambda options: " ".join(options),
)
def test_counters_read_at_samples_add_up_to_what_perf_says(program: Path, options: tuple[str, ...]) -> None:
    # Without build ids: perf 6.1 can crash over those that it reads at its end.
    try:
        path = record(program, "-B", *options)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"perf itself ended with {error.returncode}")
    expected = counts_of_perf(path)
    # With processors to spare, nobody takes one away.
    assert all(count for event, count in expected.items() if event != "context-switches")
    capture = read.read(path)
    assert counts_of(capture) == expected
    assert capture.losses.corrupt_bytes == 0


def test_counters_of_threads_and_processes_add_up_to_what_they_did(program: Path) -> None:
    # perf 6.1 inherits no groups; perf itself adds the counters of all threads up as if they were one.
    folder = program.parent
    for name, text, options in (("inherit", INHERITING, ["-shared", "-fPIC"]), ("family", FAMILY, ["-O1", "-pthread"])):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", *options, "-o", folder / name, folder / f"{name}.c"], check=True)
    path = folder / "family.perf.data"
    recorder = ["perf", "record", "-q", "-B", "-e", "{cpu-clock,page-faults}:S", "-g", "-o", path]
    made = subprocess.run(
        ["env", f"LD_PRELOAD={folder / 'inherit'}", *recorder, "--", "env", "-u", "LD_PRELOAD", folder / "family"],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"this kernel inherits no groups: {made.stderr.decode()[:200]}")
    capture = read.read(path)
    counts, touched = counts_of(capture), 3 * 40 * 512
    # What a thread counts after its last sample is in no reading.
    last_of_each = 3 * 512
    assert touched - last_of_each <= counts["page-faults"] <= touched + 3000
    threads = set(zip(capture.samples.pid.tolist(), capture.samples.tid.tolist(), strict=True))
    assert len(threads) == 3
    assert not capture.losses.unsampled
