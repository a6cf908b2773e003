"""Small inputs that are right: trimmed recordings of tests/data, what pinprof writes of them, and some written by hand.

An input is the bytes of its files by name; the path that a reader gets is that of the first name's first part.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from pinprof.data import perf_format as perf
from pinprof.data.uvm_events import CLOCK, ENTRY_BYTES, UvmEvent
from pinprof.read.nvtx.file import NvtxKind
from pinprof.read.perf import records as rec
from tests.fuzz import slim, texts
from tests.support import agent_file, fleet_store, uvm_layout
from tests.support.nvtx_events import Writer
from tests.support.perf_file import (
    BASIC,
    KERNEL_IP,
    USER_IP,
    Features,
    Spec,
    comm,
    file_mode,
    fork,
    mmap2,
    pipe_mode,
    record,
    sample,
    trailer,
)

DATA = Path(__file__).parents[1] / "data"

Files = Mapping[str, bytes]


def perf_by_hand(*, piped: bool) -> bytes:
    """A recording of two threads: names, mappings, a fork, and samples of CPU time and of page faults."""
    clock = Spec(sample_type=BASIC | perf.SAMPLE_ID | perf.SAMPLE_ADDR | perf.SAMPLE_CPU, ids=(1,))
    faults = Spec(sample_type=clock.sample_type, config=2, period=1, flags=clock.flags, ids=(2,))
    records = [comm(clock, "app", exec_=True), mmap2(clock, 0x400000, 0x10000, "/bin/app"), fork(clock, 8, 7, time=50)]
    for number in range(12):
        chain = (rec.CONTEXT_KERNEL, KERNEL_IP + number % 3, rec.CONTEXT_USER, USER_IP, USER_IP + number)
        records.append(
            sample(
                clock, chain[(number % 2) * 2 :], time=100 + 50 * number, tid=7 + number % 2, event_id=1 + number % 2
            )
        )
    names = Features().command("app", "--big").kernel("6.1.0").names(("cpu-clock", (1,)), ("page-faults", (2,)))
    names.build_id("/bin/app", bytes(range(20)))
    return (pipe_mode if piped else file_mode)([clock, faults], b"".join(records), names)


def wakeups_by_hand(*, system_wide: bool) -> bytes:
    """A recording of two threads that wait for each other, and for a process outside the program, with wake-ups."""
    clock = Spec(sample_type=BASIC | perf.SAMPLE_IDENTIFIER | perf.SAMPLE_CPU, ids=(1,))
    leaves = Spec(sample_type=clock.sample_type, config=rec.CONTEXT_SWITCHES, period=1, ids=(2,))
    wakes = Spec(sample_type=clock.sample_type | perf.SAMPLE_RAW, type=2, config=77, period=1, ids=(3,))
    records = [comm(clock, "app", exec_=True), mmap2(clock, 0x400000, 0x10000, "/bin/app")]
    records.append(fork(clock, 7, 7, tid=8, time=1))
    chain = (rec.CONTEXT_USER, USER_IP, USER_IP + 1)

    def switch(time: int, tid: int, *, out: bool) -> bytes:
        body = trailer(clock, time=time, tid=tid, event_id=1)
        return record(perf.RECORD_SWITCH, body, perf.MISC_SWITCH_OUT if out else 0)

    def wake(time: int, pid: int, tid: int, woken: int, flags: int) -> bytes:
        payload = struct.pack("<HBBi16siiii", 77, flags, 0, tid, b"app", woken, 120, 3, 0)
        behind = struct.pack("<I", len(payload)) + payload
        own = chain if pid == 7 or system_wide else (rec.CONTEXT_USER,)
        return sample(wakes, own, time=time, pid=pid, tid=tid, event_id=3, behind=behind)

    for number in range(12):
        begin, waiter, other = 1000 + 100_000 * number, 7 + number % 2, 8 - number % 2
        pid, tid, flags = ((7, other, 0), (7, other, 0x10), (99, 99, 0), (7, other, 0x08))[number % 4]
        records += [
            sample(leaves, chain, time=begin, tid=waiter, event_id=2, period=1),
            switch(begin + 1, waiter, out=True),
            sample(clock, chain, time=begin + 300, tid=other, event_id=1),
            *[wake(begin + 600 + twice, pid, tid, waiter, flags) for twice in range(1 + number % 2)],
            switch(begin + 620, waiter, out=False),
        ]
    described = ("cpu-clock", (1,)), ("context-switches/period=1/", (2,)), ("sched-waking/period=1/", (3,))
    names = Features().command("app", "-a" if system_wide else "--big").kernel("6.1.0").names(*described)
    return file_mode([clock, leaves, wakes], b"".join(records), names)


def _unpacked(archive: str) -> dict[str, bytes]:
    with tarfile.open(DATA / archive) as packed:
        files = {member.name: packed.extractfile(member) for member in packed if member.isfile()}
        return {name.removeprefix("./"): file.read() for name, file in files.items() if file is not None}


_SLIM: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("*.data", lambda data: slim.perf(data, slim.FEW)),
    ("*.sqlite", slim.sqlite),
    ("*.jsonl", lambda data: slim.lines(data, slim.FEW)),
    ("*python-stacks.jsonl.gz", slim.python_stacks),
    ("*/gpu/*", slim.gpu),
    ("*rates.json", slim.rates),
)
_WHOLE: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("*.data", slim.perf),
    ("*.sqlite", lambda data: slim.sqlite(data, 8)),
    ("*.jsonl", slim.lines),
)
_TABLES = ("StringIds", "CUPTI_ACTIVITY", "CUDA_UM_GPU", "NVTX", "PROCESSES", "META_DATA_EXPORT", "TARGET_INFO_GPU")
_ALWAYS = ("manifest.json", "perf.data", "symbols.json.gz", "nsys.sqlite")


@cache
def whole_capture(name: str) -> Files:
    """A capture of tests/data with some records of each kind, and everything that it may have beside them."""
    return _trimmed(_complete(name), _WHOLE)


@cache
def capture(name: str, *parts: str) -> Files:
    """The same with a few records of each kind, and of what lies beside them `parts` alone."""
    complete = _complete(name)
    files = {path: data for path, data in complete.items() if path.partition("/")[2].startswith((*_ALWAYS, *parts))}
    return _asked_for(_trimmed(files, _SLIM))


def _trimmed(files: Files, trims: Sequence[tuple[str, Callable[[bytes], bytes]]]) -> Files:
    def trimmed(path: str, data: bytes) -> bytes:
        return next((trim(data) for pattern, trim in trims if fnmatch(path, pattern)), data)

    return {path: trimmed(path, data) for path, data in files.items()}


def _asked_for(files: Files) -> Files:
    """A capture with the symbols alone that reading it asks for."""
    from pinprof import read

    with tempfile.TemporaryDirectory() as folder:
        path = write(files, Path(folder))
        return {
            name: slim.symbols(data, lambda: read.read(path)) if name.endswith("symbols.json.gz") else data
            for name, data in files.items()
        }


@cache
def _complete(name: str) -> Files:
    """A capture of tests/data; what it lacks of ranges, NVTX and the GPU's work is put into it."""
    files = _unpacked(f"{name}.pinprof.tar.xz")
    root = next(iter(files)).split("/")[0]
    files.pop(f"{root}/collector.log", None)
    files.setdefault(f"{root}/nvtx/100-1.bin", _nvtx())
    if f"{root}/memory.jsonl" in files:
        files.setdefault(f"{root}/ranges.jsonl", _ranges(files[f"{root}/memory.jsonl"]))
    for work in ("managed", "not_async"):
        files.setdefault(f"{root}/gpu/{work}.bin", slim.gpu(xz(f"gpu/{work}.bin")))
    return files


def _ranges(memory: bytes) -> bytes:
    start = json.loads(memory.splitlines()[0])["t"]
    names = (("init", start, start + 10**8), ("step", start + 10**8, start + 10**9))
    rows = (
        {"name": name, "start_ns": begin, "end_ns": end, "domain": "pinprof", "pid": 7, "tid": 7}
        for name, begin, end in names
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _nvtx() -> bytes:
    writer = Writer()
    writer.say(NvtxKind.PUSH, 1000, "outer")
    writer.say(NvtxKind.PUSH, 2000, "inner", domain=1)
    writer.say(NvtxKind.POP, 3000, domain=1)
    writer.say(NvtxKind.MARK, 3500, "mark")
    writer.say(NvtxKind.POP, 4000)
    return writer.bytes()


@cache
def with_chains() -> Sequence[Files]:
    """A capture with copied stacks, beside which lie kernel symbols and what perf made of them; and one without."""
    clock = Spec(sample_type=BASIC | perf.SAMPLE_STACK_USER, ids=(1,))
    copied = [comm(clock, "app", exec_=True), sample(clock, behind=struct.pack("<QQQ", 8, 7, 8))]
    files = dict(capture("h200/program"))
    root = next(iter(files)).split("/")[0]
    files.pop(f"{root}/symbols.json.gz")
    files[f"{root}/kallsyms.zst"] = _kallsyms()
    text = gzip.compress(texts.PERF_SCRIPT.encode(), 1, mtime=0)
    whole = file_mode([clock], b"".join(copied), Features().command("app"))
    return [{**files, f"{root}/perf.data": whole, f"{root}/perf-script.txt.gz": text}, files]


def _kallsyms() -> bytes:
    kernel = lzma.decompress((DATA / "h200/kallsyms.xz").read_bytes()).splitlines(keepends=True)
    return b"".join(kernel[::800])


def with_kallsyms() -> Sequence[Files]:
    """A recording of no capture, with the symbols of its kernel."""
    known = f"{KERNEL_IP - 8:x} T clear_page_erms\n{KERNEL_IP + 64:x} t nvidia_ioctl\t[nvidia]\n".encode()
    return [{"a.perf.data": perf_by_hand(piped=False), "kallsyms": known + _kallsyms()}]


def with_ranges() -> Sequence[Files]:
    """A recording of no capture, with ranges of its program."""
    names = (("step", 100, 650), ("copy", 200, 400), ("copy", 400, 500), ("late", 650, 5000))
    rows = (
        {"name": name, "start_ns": begin, "end_ns": end, "domain": "app", "pid": 7, "tid": 7}
        for name, begin, end in names
    )
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return [{"a.perf.data": perf_by_hand(piped=False), "ranges.jsonl": text}]


def ranks() -> Sequence[Files]:
    """The folder of a launch of two processes, and one whose names are hard to tell apart."""
    names = ("rank-0.pinprof", "rank-1.pinprof"), ("rank-01.pinprof", "rank-1.pinprof", "rank-1")
    one = capture("cases/pinned_ring")
    return [
        {f"app-1.ranks/{name}/{path.partition('/')[2]}": data for name in each for path, data in one.items()}
        for each in names
    ]


def launch() -> Sequence[Files]:
    """The folder of a launch of three processes that do the same."""
    one = capture("cases/pinned_ring", "calls.data", "memory.jsonl", "ranges.jsonl")
    ranks = [(f"app-2.ranks/rank-{rank}.pinprof", path, data) for rank in range(3) for path, data in one.items()]
    return [{f"{folder}/{path.partition('/')[2]}": data for folder, path, data in ranks}]


@cache
def whole_launch() -> Sequence[Files]:
    """The folder of a launch whose two ranks wait for each other, with so many records that both have known times."""
    files = _unpacked("ranks/nccl-two-gpus.tar.xz")
    wanted = {name: data for name, data in files.items() if name.startswith("nccl-as-is") and "collector" not in name}
    return [_trimmed(wanted, (("*.data", lambda data: slim.perf(data, 200)), *_SLIM))]


@cache
def managed() -> Sequence[Files]:
    """A capture with the driver's events of managed memory, in both layouts."""
    name, made = "cases/pinned_ring", []
    one = capture(name)
    for layout in ENTRY_BYTES:
        files = dict(one)
        files[f"{next(iter(one)).split('/')[0]}/uvm/7-1.bin"] = _uvm(layout)
        made.append(files)
    return made


def inside() -> Sequence[Files]:
    """A capture with calls of the agent."""
    one = capture("cases/pinned_ring")
    text = "P\t3\tstep\t/home/me/train.py\nN\t10\t/opt/libmine.so\n"
    at = 10**9
    units = [
        agent_file.site(1, text),
        agent_file.call(at, at + 900, "cuMemHostAlloc", bytes=4096, address=1 << 20, site=1),
        agent_file.call(at + 1000, at + 1900, "cuMemcpyHtoDAsync", bytes=64, address=1 << 40, source=1 << 20, site=1),
        agent_file.anchor(at + 2000, at + 2000),
        agent_file.total(at + 2000, at + 9000, 5, 600, "cuMemcpyHtoDAsync", bytes=320, site=1),
    ]
    folder = f"{next(iter(one)).split('/')[0]}/inside"
    return [{**one, f"{folder}/7-1.bin": agent_file.header() + agent_file.chunk(*units)}]


def _uvm(layout: int) -> bytes:
    """Two events of each kind, with readings of the clock between them."""
    events = []
    for turn in range(2):
        at = 10**9 * (1 + turn)
        given: dict[int, dict[str, int]] = {
            UvmEvent.CPU_FAULT: {"address": 1 << 21, "time": at + 10, "access": 1, "pid": 7},
            UvmEvent.MIGRATION: {
                "source": turn, "target": 1 - turn, "address": 1 << 21, "bytes": 1 << 16, "begin": at + 20,
                "end": at + 90, "gpu_begin": at + 30, "gpu_end": at + 80,
            },
            UvmEvent.GPU_FAULT: {"address": 1 << 21, "time": at + 12, "batch": 4, "client": 1, "processor": 1},
            UvmEvent.GPU_FAULT_REPLAY: {"processor": 1, "client": 1, "batch": 4, "time": at + 95},
        }  # fmt: skip
        events += [uvm_layout.event(kind, layout, **given.get(kind, {})) for kind in UvmEvent]
        reading = struct.pack("<Q", CLOCK) + struct.pack("<QQ", at + 99, at + 1099)
        events.append(reading.ljust(ENTRY_BYTES[layout], b"\0"))
    return uvm_layout.file(*events, version=layout, opened_ns=10**9 + 1000, opened_raw_ns=10**9)


@cache
def fleet() -> Sequence[Files]:
    """The store of a small fleet."""
    with tempfile.TemporaryDirectory() as folder:
        place = fleet_store.write(Path(folder) / "store")
        (batch,) = place.glob("batch-*")
        batch.rename(place / "batch-0")
        files = sorted(path for path in place.rglob("*.parquet"))
        return [{str(path.relative_to(folder)): path.read_bytes() for path in files}]


_C = """\
struct pair { int first, second; };
static inline __attribute__((always_inline)) int add(int left, int right) { return left * 7 + right; }
__attribute__((noinline)) int sum(struct pair *pairs, int count) {
    int all = 0;
    for (int at = 0; at < count; at++) all = add(all, pairs[at].first) ^ pairs[at].second;
    return all;
}
int _start(struct pair *pairs) { return sum(pairs, 9) + add(pairs->first, 3); }
"""
_AS_COMPILED = (
    ("-gdwarf-5",),
    ("-gdwarf-4", "-fdebug-types-section"),
    ("-gdwarf-5", "-gz=zlib"),
    ("-g", "-gsplit-dwarf"),
)


@cache
def programs() -> Sequence[Files]:
    """A program with debug information of each kind."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for options in _AS_COMPILED:
            (Path(folder) / "a.c").write_text(_C)
            command = ["cc", "-O2", "-nostdlib", "-static", "-Wl,--build-id", *options, "-c", "a.c", "-o", "a.o"]
            subprocess.run(command, check=True, cwd=folder)
            subprocess.run(["cc", "-nostdlib", "-static", "a.o", "-o", "a.elf"], check=True, cwd=folder)
            split = Path(folder, "a.dwo")
            files = {"a.elf": Path(folder, "a.elf").read_bytes()}
            made.append(files | ({"a.dwo": split.read_bytes()} if split.exists() else {}))
    return made


def packed_capture() -> Sequence[Files]:
    """Captures as archives of tar, plain and compressed."""
    made = []
    for name in ("cases/pinned_ring", "h200/pinned-native"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path, data in capture(name).items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        plain = out.getvalue().rstrip(b"\0") + bytes(1024)
        made += [{"a.pinprof.tar": plain}, {"a.pinprof.tar.gz": gzip.compress(plain, 1, mtime=0)}]
        made.append({"a.pinprof.tar.xz": lzma.compress(plain, preset=0)})
    return made


def settings() -> Sequence[Files]:
    """A folder with settings, and one below it."""
    shared = "[project]\nname = 'app'\n" + texts.SETTINGS.replace("[r", "[tool.pinprof.r")
    return [
        {"project/pinprof.toml": texts.SETTINGS.encode(), "project/below/notes": b""},
        {"project/pyproject.toml": shared.encode(), "project/below/pyproject.toml": b"[tool.other]\n"},
        {"project/pyproject.toml": b"[tool.other]\n", "project/below/pinprof.toml": texts.SETTINGS.encode()},
    ]


@cache
def xz(name: str) -> bytes:
    """A file of tests/data."""
    return lzma.decompress((DATA / f"{name}.xz").read_bytes())


@cache
def parquetdir(*, whole: bool = False) -> Files:
    """An nsys export as a directory of Parquet files, with the first rows of those tables that say most, or of all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = {}
    for name, data in _unpacked("h200/uvm.parquet.tar.xz").items():
        table = Path(name).name
        if (table.startswith("ENUM_") and "MEM" not in table) or not (whole or table.startswith(_TABLES)):
            continue
        out = io.BytesIO()
        rows = pq.read_table(pa.BufferReader(data))
        pq.write_table(rows.slice(0, len(rows) if table.startswith("String") else slim.FEW), out)
        files[f"uvm.parquetdir/{table}"] = out.getvalue()
    return files


@cache
def bench() -> bytes:
    """A file of `pinprof bench` with some of its benchmarks, the runs of each cut."""
    document = json.loads((DATA / "h200/bench.json").read_text())
    document["benchmarks"] = document["benchmarks"][::9]
    for one in document["benchmarks"]:
        one["runs"] = one["runs"][:3]
    return json.dumps(document).encode()


@cache
def exported(form: str, name: str = "h200/pinned-native") -> bytes:
    """What pinprof writes of a trimmed capture in another tool's format."""
    from pinprof import analyze, read
    from pinprof.report.export import formats, plain

    with tempfile.TemporaryDirectory() as folder:
        path = write(capture(name), Path(folder))
        analysis = analyze.analyze(read.read(path))
        if form == "folded":
            out = io.StringIO()
            plain.write_folded(analysis.capture, out)
            return out.getvalue().encode("utf-8", "replace")
        formats.export(form, analysis, Path(folder) / "out")
        return (Path(folder) / "out").read_bytes()


def write(files: Files, folder: Path) -> Path:
    """Write an input below a folder; the path to read."""
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder / next(iter(files)).split("/")[0]
