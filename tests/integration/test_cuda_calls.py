"""CUDA calls by uprobes: real probes on libraries that stand in for CUDA's, in a program and its child."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pinprof import analyze, read
from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.course.copies import copies_of
from pinprof.collect.cuda_libraries import find_sites, functions_in
from pinprof.data.activity import Activity, CopyKind, Location, MemoryKind, MemoryOperation
from tests.support.probes import needs_probes

SOURCES = Path(__file__).parents[1] / "data/cuda"
PYTHON_PROGRAM = Path(__file__).with_name("cuda_program.py")
FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
MIB = 1 << 20
FLOOD = """
#include <stdio.h>
#include <time.h>
int cuMemHostUnregister(void *), cuCtxSynchronize(void);
static long some(void)
{
    struct timespec begun, ended;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    for (int i = 0; i < 1000; i++)
        cuMemHostUnregister((void *)0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    return (ended.tv_sec - begun.tv_sec) * 1000000000 + ended.tv_nsec - begun.tv_nsec;
}
int main(void)
{
    long made = 1000, traced_ns = some();
    do
        made += 1000;
    while (some() > traced_ns / 20 && made < 10000000);
    cuCtxSynchronize();
    printf("%ld\\n", made);
    return 0;
}
"""
"""Two thousand calls break the budget; it goes on until calls take no time for being traced, however late that is."""
BATCHES = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#define PAGE 4096
struct properties { int type, handles, location, id; };
int cuMemcpyBatchAsync_v2(void **, void **, size_t *, size_t, void *, size_t *, size_t, void *),
    cuMemPrefetchBatchAsync_ptsz(void **, size_t *, size_t, void *, size_t *, size_t, unsigned long long, void *),
    cuMemCreate(void **, size_t, struct properties *, unsigned long long),
    cuMemPoolCreate(void **, struct properties *),
    cuMemAllocFromPoolAsync(void **, size_t, void *, void *), cuMemsetD32_v2(void *, unsigned, size_t);
int main(void)
{
    void *memory;
    size_t many[200], *few = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 200; i++)
        many[i] = 1000 + i;
    munmap((char *)few + PAGE, PAGE); /* behind these three lies nothing */
    few = (size_t *)((char *)few + PAGE) - 3;
    few[0] = 10, few[1] = 200, few[2] = 3000;
    struct properties numa = {1, 0, 3, 1}, device = {1, 0, 1, 0};
    cuMemcpyBatchAsync_v2(0, 0, few, 3, 0, 0, 0, 0);
    cuMemcpyBatchAsync_v2(0, 0, many, 128, 0, 0, 0, 0);
    cuMemPrefetchBatchAsync_ptsz(0, many, 200, 0, 0, 0, 0, 0);
    cuMemCreate(&memory, 1 << 21, &device, 0);
    cuMemPoolCreate(&memory, &numa);
    cuMemAllocFromPoolAsync(&memory, 1 << 20, memory, 0);
    cuMemsetD32_v2(memory, 0, 256);
    puts("done");
    return 0;
}
"""
BURST = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define SIZE (1 << 20)
int cuMemcpyHtoD_v2(void *, const void *, size_t), cuMemHostRegister_v2(void *, size_t, unsigned),
    cuMemHostUnregister(void *), cuMemAlloc_v2(void **, size_t);
int main(void)
{
    void *device;
    char small[64], *pinned = malloc(SIZE), *plain = malloc(SIZE);
    cuMemAlloc_v2(&device, SIZE);
    for (int i = 0; i < 20000; i++)
        COPY_OR_REGISTER;
    cuMemHostRegister_v2(pinned, SIZE, 0);
    for (int i = 0; i < 20000; i++)
        COPY_OR_REGISTER;
    sleep(2); /* the rings are empty again */
    cuMemcpyHtoD_v2(device, pinned, 1001);
    cuMemcpyHtoD_v2(device, plain, 1002);
    cuMemHostRegister_v2(plain, SIZE, 0);
    cuMemcpyHtoD_v2(device, plain, 1003);
    puts("done");
    return 0;
}
"""
"""More records than small rings hold, before and after one call that all depends on."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with libcuda.so.1, libcudart.so.13 and the program."""
    return build(tmp_path_factory.mktemp("cuda"))


def build(folder: Path) -> Path:
    """The same in any folder: its libraries have no other names than their paths."""
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    driver, runtime = folder / "libcuda.so.1", folder / "libcudart.so.13"
    origin = "-Wl,-rpath,$ORIGIN"
    for command in (
        ("-shared", "-fPIC", "-o", driver, SOURCES / "driver.c"),
        ("-shared", "-fPIC", "-o", runtime, SOURCES / "runtime.c", driver, origin),
        ("-o", folder / "program", SOURCES / "program.c", runtime, driver, origin),
    ):
        subprocess.run(["cc", *FLAGS, *command], check=True, cwd=folder)
    return folder


RECORD = (sys.executable, "-m", "pinprof", "record", "--inside", "off")
"""With probes, as programs are recorded into which no agent comes."""


def record(
    built: Path, tmp_path: Path, *options: str, program: str = "program", **environment: str
) -> tuple[Path, str]:
    """A capture of the program, and what it printed."""
    target = tmp_path / "calls.pinprof"
    result = subprocess.run(
        [*RECORD, "--python", "off", "-o", target, *options, "--", built / program],
        env={**os.environ, "LD_LIBRARY_PATH": str(built), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return target, result.stdout


@pytest.fixture(scope="module")
def recorded(built: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One capture, and what the program printed."""
    return record(built, tmp_path_factory.mktemp("recorded"), "--no-report", "--frequency", "9999")


@needs_probes
def test_every_call_has_its_size_its_duration_and_its_caller(recorded: tuple[Path, str]) -> None:
    target, printed = recorded
    capture = read.read(target)
    assert capture.activity is not None
    calls = capture.activity.calls
    parent = calls.pid != int(printed)
    names = [calls.names[name] for name in calls.name.tolist()]
    counted = Counter(name for name, mine in zip(names, parent.tolist(), strict=True) if mine)
    assert counted == {
        "cuInit": 1, "cuMemAlloc": 1, "cudaMallocHost": 5, "cudaMemcpy": 5, "cuCtxSynchronize": 5, "cudaFreeHost": 5,
        "cuMemFree": 1,
    }  # fmt: skip
    assert Counter(name for name, mine in zip(names, parent.tolist(), strict=True) if not mine) == {
        "cudaMallocHost": 1, "cudaMemcpy": 1, "cuCtxSynchronize": 1, "cudaFreeHost": 1,
    }  # fmt: skip
    assert calls.size_bytes is not None
    assert calls.site is not None
    source = (SOURCES / "program.c").read_text().splitlines()
    lines = {
        text.strip().partition("(")[0]: number for number, text in enumerate(source, 1) if text.startswith("    cu")
    }
    for row, name in enumerate(names):
        size, site = int(calls.size_bytes[row]), calls.sites[calls.site[row]].text
        if name in ("cudaMallocHost", "cudaMemcpy", "cudaFreeHost"):
            assert size == (8 * MIB if parent[row] else 2 * MIB), name
            assert site == f"step (program.c:{lines[name]})"
            assert calls.folded[row] == 1
        if name == "cuMemFree":
            assert size == 8 * MIB
        if name == "cuCtxSynchronize":
            assert calls.end_ns[row] - calls.start_ns[row] >= 3_000_000
            assert size == -1
    assert (calls.status == 0).all()
    memory = capture.activity.memory
    pinned = memory.memory_kind == MemoryKind.PINNED
    assert int((pinned & (memory.operation == MemoryOperation.FREE)).sum()) == 6
    assert memory.address[pinned].all()


@needs_probes
def test_batches_have_the_size_of_their_pieces_and_memory_the_place_that_properties_say(
    built: Path, tmp_path: Path
) -> None:
    source = tmp_path / "batches.c"
    source.write_text(BATCHES)
    command = ["cc", *FLAGS, "-o", built / "batches", source, built / "libcuda.so.1", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, check=True)
    target, _ = record(built, tmp_path, "--no-report", "--no-calibrate", program="batches")
    capture = read.read(target)
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.size_bytes is not None
    assert calls.location is not None
    names = [calls.names[name] for name in calls.name.tolist()]
    first = sum(range(1000, 1128))
    assert list(zip(names, calls.size_bytes.tolist(), calls.location.tolist(), strict=True)) == [
        ("cuMemcpyBatchAsync", 3210, Location.UNKNOWN),
        ("cuMemcpyBatchAsync", first, Location.UNKNOWN),
        ("cuMemPrefetchBatchAsync", first, Location.UNKNOWN),
        ("cuMemCreate", 1 << 21, Location.DEVICE),
        ("cuMemPoolCreate", -1, Location.HOST_NUMA),
        ("cuMemAllocFromPoolAsync", 1 << 20, Location.HOST_NUMA),
        ("cuMemsetD32", 1024, Location.UNKNOWN),
    ]
    assert [note for note in capture.losses.notes if "1 batched call has more than 128 pieces" in note]
    shown = {call.name: call.purpose for call in analyze.analyze(capture).activity.whole.calls}
    assert shown["cuMemAllocFromPoolAsync (host NUMA)"] == "alloc pinned"
    assert shown["cuMemCreate"] == "alloc device"


@needs_probes
def test_calls_are_split_by_what_the_kernel_did_in_them(recorded: tuple[Path, str]) -> None:
    analysis = analyze.analyze(read.read(recorded[0]))
    assert analysis.activity is not None
    pinned = next(call for call in analysis.activity.whole.calls if call.name == "cudaMallocHost")
    assert pinned.split is not None
    on_cpu = {leaf: ns for leaf, ns in pinned.split.by_leaf.items() if not leaf.startswith("wait.")}
    faults = sum(ns for leaf, ns in on_cpu.items() if leaf.startswith("fault."))
    # First touch of shared memory: far more than half of it even on a busy machine.
    assert faults > 0.5 * sum(on_cpu.values())
    assert sum(on_cpu.values()) <= 1.1 * pinned.time_ns.total
    (site,) = pinned.sites
    assert re.fullmatch(r"step \(program\.c:\d+\)", site.name)
    assert any(finding.rule == "context-init" and finding.severity == "ok" for finding in analysis.findings)


@needs_probes
def test_calls_can_be_left_out_and_nothing_stays_defined(
    recorded: tuple[Path, str], built: Path, tmp_path: Path
) -> None:
    target, _ = record(built, tmp_path, "--no-report", "--no-cuda-calls")
    assert not (target / "calls.data").exists()
    notes = json.loads((recorded[0] / "manifest.json").read_text())["outcome"]["notes"]
    assert not [note for note in notes if "CUDA" in note]
    code = (
        "from pinprof.collect.native import tracefs\nwith tracefs._mounted() as root: print(tracefs._definitions(root))"
    )
    # Of this library: other recordings may define theirs meanwhile.
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert str(built) not in left


@needs_probes
def test_a_library_may_lie_where_the_kernels_words_end(tmp_path: Path) -> None:
    folder = tmp_path / "a b#c\nd"
    folder.mkdir()
    target, _ = record(build(folder), tmp_path, "--no-report")
    calls = read.read(target).activity
    assert calls is not None
    assert "cudaMallocHost" in calls.calls.names


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libcudart.so.13")  # to open one would wait for a writer
    assert not [
        site for site in find_sites("/bin/true", {"LD_LIBRARY_PATH": str(tmp_path)}) if str(tmp_path) in site.path
    ]


@needs_probes
def test_damaged_calls_never_keep_a_capture_from_being_read(recorded: tuple[Path, str], tmp_path: Path) -> None:
    target = tmp_path / "damaged.pinprof"
    shutil.copytree(recorded[0], target)
    whole = (target / "calls.data").read_bytes()
    for size in range(0, len(whole), max(len(whole) // 15, 1)):
        (target / "calls.data").write_bytes(whole[:size])
        capture = read.read(target)
        assert capture.activity is not None
        assert len(capture.activity.calls) <= 30


def test_only_files_with_cuda_functions_are_probed(built: Path) -> None:
    assert len(functions_in(built / "libcudart.so.13")) == 3
    assert functions_in(built / "program") == []
    assert functions_in(SOURCES / "driver.c") == []
    assert functions_in(Path("/nowhere")) == []
    sites = find_sites(str(built / "program"), {"LD_LIBRARY_PATH": str(built)})
    mine = Counter(Path(site.path).name for site in sites if Path(site.path).parent == built)
    assert mine == {"libcuda.so.1": 19, "libcudart.so.13": 3}


@pytest.fixture(scope="module")
def python_program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of cuda_program.py."""
    place = tmp_path_factory.mktemp("python")
    (place / "weights.bin").write_bytes(bytes(1 << 16))
    target = place / "calls.pinprof"
    program = (sys.executable, PYTHON_PROGRAM, built, place / "weights.bin")
    every = ("--probe-budget", "100")
    command = (sys.executable, "-m", "pinprof", "record", "--no-report", *every, "-o", target, "--", *program)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


@needs_probes
def test_both_ends_of_every_copy_are_known(python_program: Path) -> None:
    capture = read.read(python_program)
    assert capture.activity is not None
    copies = copies_of(capture, prepare_calls(capture.activity))
    assert copies is not None
    found = {
        (size, CopyKind(direction).name, MemoryKind(source).words, MemoryKind(target).words, file)
        for size, direction, source, target, file in zip(
            *(getattr(copies, name).tolist() for name in ("size_bytes", "direction", "source", "target", "from_file")),
            strict=True,
        )
    }
    assert found == {
        (1001, "HOST_TO_DEVICE", "pageable", "device", False),
        (1002, "HOST_TO_DEVICE", "pinned", "device", False),
        (1003, "DEVICE_TO_HOST", "device", "pinned", False),
        (1004, "HOST_TO_DEVICE", "pageable", "device", False),
        (1005, "HOST_TO_DEVICE", "pageable", "device", False),
        (1006, "HOST_TO_DEVICE", "pageable", "managed", True),
        (1007, "HOST_TO_DEVICE", "pageable", "device", True),
        (1008, "DEVICE_TO_HOST", "device", "pinned", False),
        (1009, "UNKNOWN", "managed", "pageable", False),
    }


def sources_after_a_burst(tmp_path: Path, built: Path, call: str) -> tuple[dict[int, str], Activity]:
    """The memory that copies of these sizes came from, after so many other calls that records are lost."""
    source, program = tmp_path / "burst.c", tmp_path / "burst"
    source.write_text(BURST)
    libraries = (built / "libcuda.so.1", f"-DCOPY_OR_REGISTER={call}")
    subprocess.run(["cc", *FLAGS, "-o", program, source, *libraries], check=True)
    options = ("--no-report", "--no-calibrate", "--probe-budget", "100")
    target, _ = record(built, tmp_path, *options, program=str(program), PINPROF_RING_BYTES="65536")
    capture = read.read(target)
    assert capture.activity is not None
    assert capture.activity.lost_calls > 0
    copies = copies_of(capture, prepare_calls(capture.activity))
    assert copies is not None
    kinds = zip(copies.size_bytes.tolist(), copies.source.tolist(), strict=True)
    return {size: MemoryKind(kind).words for size, kind in kinds if size > 1000}, capture.activity


@needs_probes
def test_lost_records_of_copies_hide_no_pinned_memory(tmp_path: Path, built: Path) -> None:
    found, activity = sources_after_a_burst(tmp_path, built, "cuMemcpyHtoD_v2(device, small, 64)")
    assert not activity.lost_memory
    assert found == {1001: "pinned", 1002: "pageable", 1003: "pinned"}


@needs_probes
def test_memory_that_no_record_explains_is_unknown_where_records_of_memory_were_lost(
    tmp_path: Path, built: Path
) -> None:
    call = "(cuMemHostRegister_v2(small, 64, 0), cuMemHostUnregister(small))"
    found, activity = sources_after_a_burst(tmp_path, built, call)
    assert activity.lost_memory
    assert found == {1001: "unknown", 1002: "unknown", 1003: "pinned"}


@needs_probes
def test_calls_of_python_have_the_programs_lines(python_program: Path) -> None:
    capture = read.read(python_program)
    assert capture.activity is not None
    calls = capture.activity.calls
    assert calls.size_bytes is not None
    assert calls.site is not None
    lines = {
        text.rpartition("  # ")[2]: number
        for number, text in enumerate(PYTHON_PROGRAM.read_text().splitlines(), 1)
        if "  # " in text
    }
    sync = calls.names.index("cuCtxSynchronize")
    for what, mine in {
        "pageable": calls.size_bytes == 1001,
        "pinned": calls.size_bytes == 1002,
        "registered": calls.size_bytes == 1003,
        "wait": calls.name == sync,
    }.items():
        sites = Counter(calls.sites[site].text if site >= 0 else "" for site in calls.site[mine].tolist())
        right = sum(count for site, count in sites.items() if site.endswith(f" (cuda_program.py:{lines[what]})"))
        wrong = sum(count for site, count in sites.items() if "cuda_program.py" in site) - right
        assert right >= 0.9 * sites.total(), (what, sites)
        assert wrong <= 0.03 * sites.total(), (what, sites)


@needs_probes
def test_a_flood_of_calls_is_given_up_and_other_kinds_go_on(tmp_path: Path, built: Path) -> None:
    source = tmp_path / "flood.c"
    source.write_text(FLOOD)
    program = tmp_path / "flood"
    subprocess.run(["cc", *FLAGS, "-o", program, source, built / "libcuda.so.1"], check=True)
    target, printed = record(built, tmp_path, "--no-report", "--no-calibrate", program=str(program))
    manifest = json.loads((target / "manifest.json").read_text())
    (tracer,) = (collector for collector in manifest["collectors"] if collector["name"] == "cuda-calls")
    probes = tracer["probes"]
    capture = read.read(target)
    assert capture.activity is not None
    traced, made = len(capture.activity.calls), int(printed)
    given_up = capture.activity.given_up
    assert [(gap.kind, gap.calls) for gap in given_up] == [("memory", None)]
    assert 0 < traced < made
    assert probes["cost_ns"] >= traced * probes["price_ns"]["full"]
    assert given_up[0].end_ns >= capture.activity.calls.end_ns.max(), "it goes to the end of the recording"
    assert "call_overhead_ns" not in tracer, "nobody has measured it"
    assert any("--probe-budget" in note for note in capture.losses.notes)
    names = {capture.activity.calls.names[name] for name in set(capture.activity.calls.name.tolist())}
    assert "cuCtxSynchronize" in names, "other kinds go on"
    verdicts = {finding.rule: finding.severity for finding in analyze.analyze(capture).findings}
    assert verdicts["giant-pin"] == "not-assessable"
