"""Stacks are complete: callers of functions without frame pointers are found, and no byte of a stack is kept."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.analyze.completeness import gaps_of
from pinprof.collect.native import unwinding
from pinprof.data import perf_format as perf
from pinprof.machine.libraries import UNWINDING
from tests.support.unpacked import tells

SOURCE = Path(__file__).parents[1] / "data" / "unwinding" / "churn.cpp"
pytestmark = [
    pytest.mark.skipif(not unwinding.supported(), reason="no register numbers for this machine"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("churn") / "churn"
    subprocess.run(["g++", "-O2", "-g", "-fno-omit-frame-pointer", str(SOURCE), "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="module")
def recorded(program: Path) -> tuple[Path, Mapping[str, float]]:
    """The capture, and the shares of CPU time that the program measured itself."""
    capture = program.with_name("churn.pinprof")
    command = [sys.executable, "-m", "pinprof", "record", "--no-report", "--frequency=2999", "-o", str(capture)]
    command += ["--", str(program), "2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    spent = json.loads(result.stdout)
    return capture, {name: seconds / sum(spent.values()) for name, seconds in spent.items()}


def test_callers_of_frameless_functions_have_the_time_that_they_measured(
    recorded: tuple[Path, Mapping[str, float]],
) -> None:
    capture, truth = recorded
    command = [sys.executable, "-m", "pinprof", "report", str(capture), "--format", "folded"]
    folded = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    weight = dict.fromkeys(truth, 0)
    rooted = total = 0
    for line in folded.splitlines():
        stack, _, number = line.rpartition(" ")
        frames = {frame.partition("(")[0].rstrip() for frame in stack.split(";")}
        total += int(number)
        rooted += int(number) * ("main" in frames)
        for name in weight.keys() & frames:
            weight[name] += int(number)
    steps = sum(weight.values())
    assert rooted >= 0.97 * total
    # 6,000 samples: the standard error of a share is half a point.
    assert {name: part / steps for name, part in weight.items()} == pytest.approx(truth, abs=0.04)


def test_no_byte_of_a_stack_is_in_any_file(recorded: tuple[Path, Mapping[str, float]]) -> None:
    capture, _ = recorded
    assert [
        path.name for path in capture.rglob("*") if path.is_file() and tells(path.read_bytes(), "stack-secret")
    ] == []


SAMPLE_TYPE = perf.SAMPLE_IDENTIFIER | perf.SAMPLE_IP | perf.SAMPLE_TID | perf.SAMPLE_CALLCHAIN | unwinding._COPY
TIMED = perf.SAMPLE_IDENTIFIER | perf.SAMPLE_TID | perf.SAMPLE_TIME
USER, BASE = 2**64 - 512, 0x400000


def sample(
    chain: list[int], registers: tuple[int, int, int], stack: bytes, pid: int = 9, time: int | None = None
) -> bytes:
    """One of the first event; with a time, of the third."""
    body = struct.pack("<QQii", 1 if time is None else 3, registers[2], pid, pid)
    body += b"" if time is None else struct.pack("<Q", time)
    body += struct.pack(f"<Q{len(chain) + 1}Q", len(chain) + 1, USER, *chain)
    body += struct.pack("<4Q", 2, *registers)
    body += struct.pack("<Q", len(stack)) + stack + struct.pack("<Q", len(stack))
    return struct.pack("<IHH", 9, 2, 8 + len(body)) + body


def mapping(path: Path | str, pid: int = 9, length: int = 1 << 40, start: int = BASE, time: int = 0) -> bytes:
    name = os.fsencode(path) + b"\0"
    name += bytes(-len(name) % 8)
    body = struct.pack("<iiQQQ", pid, pid, start, length, 0) + bytes(24) + struct.pack("<II", 4, 2) + name
    return told(perf.RECORD_MMAP2, 2, body, time)


def told(kind: int, misc: int, body: bytes, time: int) -> bytes:
    """A record that is no sample; with a time it ends as those of TIMED do."""
    body += struct.pack("<iiQQ", 9, 9, time, 2) if time else b""
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


AGAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile double sink;
__attribute__((noinline)) double leaf(int n) { for (int i = 0; i < n; i++) sink = sink * 0.5 + i; return sink; }
__attribute__((noinline)) double above(int n) { return leaf(n) + leaf(n) + sink; }
int main(int argc, char **argv)
{
    char left[9];
    for (int i = 0; i < 10; i++)
        above(1000000);
    snprintf(left, sizeof left, "%d", atoi(argv[1]) - 1);
    return atoi(argv[1]) > 0 ? execl("/proc/self/exe", argv[0], left, (char *)0) : 0;
}
"""


class Library:
    """The library in this process, for samples of one event and other records of another."""

    def __init__(self) -> None:
        from pinprof.collect.native.events import EventSpec
        from pinprof.collect.native.perf_event import EventAttr

        kinds = SAMPLE_TYPE, TIMED, SAMPLE_TYPE | perf.SAMPLE_TIME
        events = [(EventSpec("e", EventAttr(1, 0, kind)), [number]) for number, kind in enumerate(kinds, 1)]
        self.unwinder = unwinding.Unwinder(str(UNWINDING.find()), events)

    def rewrite(self, records: bytes) -> bytes:
        return bytes(self.unwinder.rewrite(records))


def chain_of(record: bytes) -> list[int]:
    count = struct.unpack_from("<Q", record, 32)[0]
    return list(struct.unpack_from(f"<{count}Q", record, 40))


def test_a_sample_of_an_unknown_process_keeps_its_chain_and_loses_its_stack() -> None:
    chain = [0x401000, 0x402000]
    out = Library().rewrite(sample(chain, (0x7FFF0000, 0x7FFF0000, 0x401000), b"secret!!" * 32))
    assert chain_of(out) == [USER, *chain]
    assert b"secret" not in out
    assert len(out) == 40 + 8 * 3


def test_what_is_no_sample_passes_unchanged() -> None:
    other = struct.pack("<IHH", 3, 0, 24) + struct.pack("<ii", 9, 9) + b"name\0\0\0\0"
    assert Library().rewrite(other) == other


def test_a_record_may_be_divided_between_pieces() -> None:
    chain = [0x401000, 0x402000]
    one = sample(chain, (0x7FFF0000, 0x7FFF0000, 0x401000), b"secret!!" * 32)
    other = struct.pack("<IHH", 3, 0, 24) + struct.pack("<ii", 9, 9) + b"name\0\0\0\0"
    records = one + other + one
    whole = Library().rewrite(records)
    for place in range(0, len(records) + 1, 8):
        ring = memoryview(bytearray(records[place:]))
        assert bytes(Library().unwinder.rewrite(records[:place], b"", ring)) == whole


def test_pieces_of_many_lengths_make_no_types() -> None:
    library, other = Library(), struct.pack("<IHH", 3, 0, 24) + struct.pack("<ii", 9, 9) + b"name\0\0\0\0"
    gc.disable()
    try:
        before = sum(isinstance(one, type) for one in gc.get_objects())
        for count in range(1, 100):
            library.rewrite(other * count)
        assert sum(isinstance(one, type) for one in gc.get_objects()) < before + 5
    finally:
        gc.enable()


class Mallinfo2(ctypes.Structure):
    """What glibc 2.33 and later say of malloc: ten numbers (malloc.h)."""

    _fields_ = tuple((f"number_{place}", ctypes.c_size_t) for place in range(10))

    @property
    def used(self) -> int:
        """Bytes in use: `uordblks` and `hblkhd`."""
        return int(self.number_7 + self.number_4)


@pytest.mark.parametrize("end_first", [False, True], ids=["in order", "the end is told first"])
def test_processes_take_no_memory_once_they_are_gone(end_first: bool) -> None:
    library, libc = Library(), ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("the C library has no mallinfo2")
    libc.mallinfo2.restype = Mallinfo2
    used = []
    for number in range(60_000):
        pid, now = 100 + number, 5_000_000 * (1 + number)
        records = [
            told(7, 0, struct.pack("<IIIIQ", pid, 9, pid, 9, now), now),
            mapping("/bin/true", pid, 4096, 0x400000, time=now + 1),
            told(4, 0, struct.pack("<IIIIQ", pid, 9, pid, 9, now + 2), now + 2),
        ]
        for record in reversed(records) if end_first else records:
            library.rewrite(record)
        if number % 20_000 == 19_999:
            used.append(libc.mallinfo2().used)
    # A process has 40 bytes of a table at least.
    assert used[2] - used[0] < 500_000


def is_code(library: Library, pid: int, place: int) -> bool:
    """Whether it lies in a mapping of the process: then its caller there is found."""
    sp = 0x7FFF0000
    return len(chain_of(library.rewrite(sample([place], (sp, sp, place), struct.pack("<2Q", 0, place + 9), pid)))) > 2


def test_mappings_are_the_program_s_in_whatever_order_processors_tell_of_it() -> None:
    """A program goes from one processor to another while it begins: what one tells may be read after what follows."""
    first, second, third = 0x100000, 0x200000, 0x300000
    parent = mapping("//anon", 9, 4096, first, time=1)
    records = (
        told(7, 0, struct.pack("<4iQ", 10, 9, 10, 9, 2), 2),
        mapping("//anon", 10, 4096, second, time=3),
        told(3, 1 << 13, struct.pack("<ii", 10, 10) + b"name\0\0\0\0", 4),
        mapping("//anon", 10, 4096, third, time=5),
    )
    for order in permutations(records):
        at_once, one_by_one = Library(), Library()
        at_once.rewrite(b"".join((parent, *order)))
        for record in (parent, *order):
            one_by_one.rewrite(record)
        for library in (at_once, one_by_one):
            assert is_code(library, 9, first)
            assert [is_code(library, 10, place) for place in (first, second, third)] == [False, False, True]


def test_samples_find_the_program_that_ran_at_their_time_whenever_an_exec_is_told() -> None:
    first, second = 0x100000, 0x200000
    records = (
        mapping("//anon", 9, 4096, first, time=1),
        told(3, 1 << 13, struct.pack("<ii", 9, 9) + b"name\0\0\0\0", 4),
        mapping("//anon", 9, 4096, second, time=5),
    )
    for order in permutations(records):
        library, sp = Library(), 0x7FFF0000
        library.rewrite(b"".join(order))
        found = []
        for place, time in ((first, 2), (second, 2), (first, 6), (second, 6)):
            stack = struct.pack("<2Q", 0, place + 9)
            found.append(len(library.rewrite(sample([place], (sp, sp, place), stack, time=time))) > 48 + 8 * 2)
        assert found == [True, False, False, True]


def recorded_shares(program: Path, argument: str, leaf: str, caller: str) -> tuple[int, int]:
    """Time in a function, and how much of it has the caller on its stack."""
    capture = program.with_suffix(".pinprof")
    pinprof = [sys.executable, "-m", "pinprof"]
    subprocess.run(
        [*pinprof, "record", "--no-report", "--no-calibrate", "-o", capture, "--", program, argument], check=True
    )
    folded = subprocess.run(
        [*pinprof, "report", capture, "--format", "folded"], capture_output=True, text=True, check=True
    )
    inside = called = 0
    for line in folded.stdout.splitlines():
        stack, _, number = line.rpartition(" ")
        inside += int(number) * (leaf in stack)
        called += int(number) * (leaf in stack and caller in stack)
    return inside, called


def test_a_program_that_executes_itself_again_keeps_its_callers(tmp_path: Path) -> None:
    (tmp_path / "again.c").write_text(AGAIN)
    program = tmp_path / "again"
    subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-o", program, tmp_path / "again.c"], check=True)
    inside, called = recorded_shares(program, "20", "leaf", "main")
    assert called >= 0.9 * inside > 0


STATIC = """\
#include <stdlib.h>
#include <string.h>
#include <time.h>
static char area[1 << 20];
volatile char kept;
__attribute__((noinline)) void fill(int value) { memset(area, value, sizeof area); kept = area[value]; }
int main(int count, char **values)
{
    clock_t end = clock() + atoi(values[1]) * (CLOCKS_PER_SEC / 1000);
    for (int value = 0; clock() < end; value++)
        for (int turn = 0; turn < 64; turn++) fill(value & 63);
    return 0;
}
"""


@pytest.mark.parametrize("frames", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def test_a_static_program_whose_frames_no_table_lists_keeps_the_callers_of_libc(tmp_path: Path, frames: str) -> None:
    (tmp_path / "static.c").write_text(STATIC)
    program = tmp_path / "static"
    options = ("-O2", "-g", "-static", "-Wl,--no-eh-frame-hdr", frames)
    subprocess.run(["gcc", *options, "-o", program, tmp_path / "static.c"], check=True)
    inside, called = recorded_shares(program, "400", "memset", "fill")
    assert called >= 0.9 * inside > 0


def test_a_forked_process_has_its_parent_s_mappings_and_its_own() -> None:
    first, second, third = 0x100000, 0x200000, 0x300000
    records = (
        told(7, 0, struct.pack("<4iQ", 10, 9, 10, 9, 2), 2),
        mapping("//anon", 10, 4096, second, time=3),
        mapping("//anon", 9, 4096, third, time=4),
    )
    for order in permutations(records):
        library = Library()
        library.rewrite(b"".join((mapping("//anon", 9, 4096, first, time=1), *order)))
        assert [is_code(library, 10, place) for place in (first, second, third)] == [True, True, False]


def test_damaged_files_and_records_cost_frames_and_nothing_else(program: Path, tmp_path: Path) -> None:
    code = (
        "import random, sys\n"
        "from pathlib import Path\n"
        "from tests.integration.test_unwinding import Library, mapping, sample, BASE\n"
        "whole = Path(sys.argv[1]).read_bytes()\n"
        "chance = random.Random(int(sys.argv[3]))\n"
        "for turn in range(150):\n"
        "    raw = bytearray(whole)\n"
        "    for _ in range(chance.choice([1, 10, 1000])):\n"
        "        raw[chance.randrange(len(raw))] = chance.randrange(256)\n"
        "    place = Path(sys.argv[2]) / f'damaged-{turn}'\n"
        "    place.write_bytes(raw[: chance.randrange(len(raw))] if turn % 5 == 0 else raw)\n"
        "    library = Library()\n"
        "    library.rewrite(mapping(place))\n"
        "    for _ in range(300):\n"
        "        pc = BASE + chance.randrange(len(whole))\n"
        "        words = [BASE + chance.randrange(len(whole)) for _ in range(64)]\n"
        "        stack = b''.join(word.to_bytes(8, 'little') for word in words)\n"
        "        sp = 0x7FFF0000\n"
        "        out = library.rewrite(sample([pc], (sp + chance.randrange(512), sp, pc), stack))\n"
        "        assert len(out) <= 48 + 8 * 128, len(out)\n"
        "    library.rewrite(bytes(chance.randrange(256) for _ in range(4000)))\n"
        "    place.unlink()\n"
    )
    # The same damage in every run: with another seed this looks for new faults.
    command = [sys.executable, "-c", code, str(program), str(tmp_path), "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert result.returncode == 0, result.stderr


def test_callers_far_above_are_known(tmp_path: Path) -> None:
    """Stacks of 8 KiB and more without a frame pointer, of which the first 4 KiB name no caller."""
    program, capture = tmp_path / "deep", tmp_path / "deep.pinprof"
    flags = ["-O2", "-g", "-fomit-frame-pointer"]
    subprocess.run(["gcc", *flags, str(SOURCE.with_name("deep.c")), "-o", str(program)], check=True)
    command = [sys.executable, "-m", "pinprof", "record", "--no-report", "--frequency=4999", "-o", str(capture)]
    subprocess.run([*command, "--", str(program)], capture_output=True, check=True)
    command = [sys.executable, "-m", "pinprof", "report", str(capture), "--format", "folded"]
    folded = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    weight = dict.fromkeys(("request_a", "request_b", "large"), 0)
    for line in folded.splitlines():
        for name in weight:
            weight[name] += int(line.rpartition(" ")[2]) * (f"{name} (" in line)
    total = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines())
    shares = {name: part / total for name, part in weight.items()}
    # Five thousand samples: the standard error of a share is 0.7 points at most.
    assert shares == pytest.approx({"request_a": 0.6, "request_b": 0.2, "large": 0.2}, abs=0.06)
    manifest = json.loads((capture / "manifest.json").read_text())
    (stacks,) = [one["stacks"] for one in manifest["collectors"] if "stacks" in one]
    assert stacks["deep"] > 0.9 * stacks["copied"]
    assert stacks["cut"] < 0.1 * stacks["copied"]


UNTOUCHED = r"""
#include <string.h>
volatile long sink;
__attribute__((noinline)) void spin(char *place, long turns) {
  for (long i = 0; i < turns; i++) { place[i % 64] = i; sink += place[i % 7]; }
}
__attribute__((noinline)) void large(long turns) {
  char buffer[24 << 10];
  if (FILLED) memset(buffer, 1, sizeof buffer);
  spin(buffer, turns);
  __asm__ volatile("" : : "r"(buffer) : "memory");
}
__attribute__((noinline)) void outer(long turns) { large(turns); __asm__ volatile(""); }
int main(void) { outer(150000000); return 0; }
"""


@pytest.mark.parametrize("filled", [True, False])
def test_a_copy_that_ends_at_a_page_never_touched_is_told_of(tmp_path: Path, *, filled: bool) -> None:
    program, capture = tmp_path / "large", tmp_path / "large.pinprof"
    (tmp_path / "large.c").write_text(UNTOUCHED)
    flags = ["-O1", "-g", "-fomit-frame-pointer", f"-DFILLED={int(filled)}"]
    subprocess.run(["gcc", *flags, str(tmp_path / "large.c"), "-o", str(program)], check=True)
    command = [
        sys.executable,
        "-m",
        "pinprof",
        "record",
        "--no-calibrate",
        "--no-report",
        "-o",
        str(capture),
        "--",
        str(program),
    ]
    subprocess.run(command, capture_output=True, check=True)
    found = read.read(capture)
    called = found.stacks.under(np.array(found.stacks.frames.function) == "outer")[found.samples.stack]
    share = called[found.samples.event == 0].mean()
    said = [gap for gap in gaps_of(found) if gap.kind == "stacks"]
    assert (share > 0.9, bool(said)) == (filled, not filled)


class _Counting:
    """An unwinder of which a test says what it counts."""

    def __init__(self) -> None:
        self.now = dict.fromkeys(("copied", "deep"), 0)

    def counts(self) -> dict[str, int]:
        return dict(self.now)

    def saw(self, copied: int, deep: int) -> None:
        self.now = {"copied": self.now["copied"] + copied, "deep": self.now["deep"] + deep}


def test_much_is_copied_until_it_proves_not_to_be_needed_and_again_once_it_is() -> None:
    counting = _Counting()
    depth = unwinding.Depth(counting)  # type: ignore[arg-type]
    counting.saw(49, 0)
    assert (depth.changes(), depth.deep) == (False, True)
    counting.saw(1, 2)
    assert (depth.changes(), depth.deep) == (True, False)
    counting.saw(100, 5)
    assert (depth.changes(), depth.deep) == (False, False)
    counting.saw(0, 1)
    assert (depth.changes(), depth.deep) == (True, True)
    # What was needed twice is kept.
    counting.saw(10_000, 0)
    assert (depth.changes(), depth.deep) == (False, True)
