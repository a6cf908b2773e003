"""Stacks are complete: callers of functions without frame pointers are found, and no byte of a stack is kept."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinprof.collect.native import perf_event as pe
from pinprof.collect.native import unwinding
from pinprof.libraries import UNWINDING
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
    command = [sys.executable, "-m", "pinprof", "record", "--no-report", "-o", str(capture), "--", str(program), "2"]
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
    # 2,000 samples: the standard error of a share is one point.
    assert {name: part / steps for name, part in weight.items()} == pytest.approx(truth, abs=0.04)


def test_no_byte_of_a_stack_is_in_any_file(recorded: tuple[Path, Mapping[str, float]]) -> None:
    capture, _ = recorded
    assert [
        path.name for path in capture.rglob("*") if path.is_file() and tells(path.read_bytes(), "stack-secret")
    ] == []


SAMPLE_TYPE = pe.SAMPLE_IDENTIFIER | pe.SAMPLE_IP | pe.SAMPLE_TID | pe.SAMPLE_CALLCHAIN | unwinding._COPY
USER, BASE = 2**64 - 512, 0x400000


def sample(chain: list[int], registers: tuple[int, int, int], stack: bytes, pid: int = 9) -> bytes:
    body = struct.pack("<QQii", 1, registers[2], pid, pid)
    body += struct.pack(f"<Q{len(chain) + 1}Q", len(chain) + 1, USER, *chain)
    body += struct.pack("<4Q", 2, *registers)
    body += struct.pack("<Q", len(stack)) + stack + struct.pack("<Q", len(stack))
    return struct.pack("<IHH", 9, 2, 8 + len(body)) + body


def mapping(path: Path, pid: int = 9, length: int = 1 << 40) -> bytes:
    name = bytes(path) + b"\0"
    name += bytes(-len(name) % 8)
    body = struct.pack("<iiQQQ", pid, pid, BASE, length, 0) + bytes(24) + struct.pack("<II", 4, 2) + name
    return struct.pack("<IHH", pe.RECORD_MMAP2, 2, 8 + len(body)) + body


class Library:
    """The library in this process, for records of one event."""

    def __init__(self) -> None:
        from pinprof.collect.native.events import EventSpec
        from pinprof.collect.native.perf_event import EventAttr

        self.unwinder = unwinding.Unwinder(str(UNWINDING.find()), [(EventSpec("e", EventAttr(1, 0, SAMPLE_TYPE)), [1])])

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
    seed = random.randrange(1 << 30)
    command = [sys.executable, "-c", code, str(program), str(tmp_path), str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert result.returncode == 0, f"seed {seed}: {result.stderr}"
