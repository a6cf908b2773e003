"""Bytes of the program's memory that samples hold by accident are overwritten; everything that is read stays."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pinprof.base.errors import FormatError
from pinprof.data import perf_format as perf
from pinprof.data.gpu_functions import FUNCTIONS, READ_PIECES
from pinprof.data.model import Capture
from pinprof.read import read
from pinprof.read.perf import data, program_memory, unread_fields
from pinprof.read.perf import records as rec
from tests.support import perf_file as pf

SECRET = int.from_bytes(b"hunter2!", "little")
SHORT = int.from_bytes(b"hunter\0\0", "little")
"""As an address of the program could be, but nothing is mapped there."""
HIGH = 0x8000_7365_6372_6574
NAME = b"hunter2-thread\0\0"
SAMPLED = pf.Spec(perf.SAMPLE_IDENTIFIER | pf.BASIC, ids=(1,))
WOKEN = pf.Spec(perf.SAMPLE_IDENTIFIER | pf.BASIC | perf.SAMPLE_RAW, ids=(2,))
ENTERED = pf.Spec(perf.SAMPLE_IDENTIFIER | pf.BASIC | perf.SAMPLE_RAW, ids=(3,))
SPECS = [SAMPLED, WOKEN, ENTERED]
MAPPED = pf.comm(SAMPLED, "app") + pf.mmap2(SAMPLED, *pf.MAPPED)


def written(folder: Path, records: bytes, *names: str, specs: list[pf.Spec] = SPECS) -> Path:
    given = names or ("cpu-clock", "sched-waking/period=1/", "call-enter/batches")
    features = pf.Features().names(*((name, spec.ids) for name, spec in zip(given, specs, strict=True)))
    path = folder / "perf.data"
    path.write_bytes(pf.file_mode(specs, records, features))
    return path


def blank(path: Path, called: unread_fields.Called | None = None) -> bytes:
    program_memory.blank(data.load(path, placed=True), called)
    return path.read_bytes()


def fields(*words: int | bytes) -> bytes:
    raw = b"".join(struct.pack("<Q", word) if isinstance(word, int) else word for word in words) + bytes(4)
    return struct.pack("<I", len(raw)) + raw


def stacks(capture: Capture) -> list[list[str]]:
    return [pf.frames(capture, row) for row in range(len(capture.samples))]


def test_what_frame_pointers_led_to_is_overwritten_and_reads_the_same(tmp_path: Path) -> None:
    chains = [
        (rec.CONTEXT_KERNEL, pf.KERNEL_IP, rec.CONTEXT_USER, pf.USER_IP, SECRET, pf.USER_IP + 8, SHORT, HIGH),
        (rec.CONTEXT_USER, pf.USER_IP, pf.USER_IP + 16),
        (pf.USER_IP, SECRET),
        (rec.CONTEXT_USER, SHORT),
        (rec.CONTEXT_KERNEL, pf.KERNEL_IP),
    ]
    records = b"".join(pf.sample(SAMPLED, chain, time=100 + n, event_id=1) for n, chain in enumerate(chains))
    path = written(tmp_path, MAPPED + records)
    before, said = path.read_bytes(), stacks(read(path))
    after = blank(path)
    for word in (SECRET, HIGH):
        assert struct.pack("<Q", word) in before
        assert struct.pack("<Q", word) not in after
    # What was sampled is where the program was, whatever is mapped there.
    assert after.count(struct.pack("<Q", SHORT)) == before.count(struct.pack("<Q", SHORT)) - 2 == 1
    assert after.count(struct.pack("<Q", pf.USER_IP + 8)) == 1
    assert after.count(struct.pack("<Q", pf.KERNEL_IP)) == before.count(struct.pack("<Q", pf.KERNEL_IP))
    assert stacks(read(path)) == said
    assert blank(path) == after


def test_a_forked_process_has_the_code_of_its_parent(tmp_path: Path) -> None:
    records = (
        pf.fork(SAMPLED, 8, 7, time=50)
        + pf.sample(SAMPLED, (rec.CONTEXT_USER, pf.USER_IP, SECRET), time=60, pid=8, tid=8, event_id=1)
        + pf.sample(SAMPLED, (rec.CONTEXT_USER, pf.USER_IP, pf.USER_IP + 8), time=61, pid=8, tid=8, event_id=1)
    )
    after = blank(written(tmp_path, MAPPED + records))
    assert struct.pack("<3Q", rec.CONTEXT_USER, pf.USER_IP, 0) in after
    assert struct.pack("<3Q", rec.CONTEXT_USER, pf.USER_IP, pf.USER_IP + 8) in after


def test_the_name_of_a_woken_thread_stays_only_if_it_is_the_programs(tmp_path: Path) -> None:
    own, other = b"hunter2-own\0\0\0\0\0", NAME
    records = pf.sample(SAMPLED, time=90, event_id=1)
    for name, tid in ((own, 7), (other, 99)):
        told = fields(5, name, tid)
        records += pf.sample(WOKEN, (rec.CONTEXT_USER, pf.USER_IP), time=100 + tid, event_id=2, behind=told)
    path = written(tmp_path, MAPPED + records)
    recording = data.load(path)
    after = blank(path)
    assert own in after
    assert other not in after
    again = data.load(path)
    assert (again.raw.payload[:, 3] == recording.raw.payload[:, 3]).all()
    assert (again.raw.payload[:, 0] == recording.raw.payload[:, 0]).all()


def test_nothing_is_kept_of_fields_that_nobody_reads(tmp_path: Path) -> None:
    records = pf.sample(WOKEN, (rec.CONTEXT_USER, pf.USER_IP), time=100, event_id=2, behind=fields(5, NAME, SECRET))
    path = written(tmp_path, MAPPED + records, "cpu-clock", "syscalls:sys_enter_write", "call-enter/batches")
    assert b"hunter" not in blank(path)


@pytest.mark.parametrize("pieces", [0, 3, READ_PIECES, 5000])
def test_of_calls_arguments_and_sizes_are_kept_and_nothing_else(pieces: int, tmp_path: Path) -> None:
    kept = [*range(1, min(pieces, READ_PIECES) + 1)]
    sizes = kept + [SECRET] * (READ_PIECES - len(kept))
    told = fields(5, pf.USER_IP, SECRET, SECRET, 0x7000, pieces, *sizes)
    other = fields(5, pf.USER_IP + 8, SECRET, 1, 2, 3, *sizes)
    records = b"".join(
        pf.sample(ENTERED, (rec.CONTEXT_USER, pf.USER_IP), time=100, event_id=3, behind=behind)
        for behind in (told, other)
    )
    path = written(tmp_path, MAPPED + records)
    assert b"hunter2!" in blank(path), "a recorder that is not old has read no more than it should"
    after = blank(path, {(7, pf.USER_IP): FUNCTIONS["cuMemcpyBatchAsync"]})
    assert b"hunter2" not in after
    raw = data.load(path).raw
    assert raw.payload[0, 1:].tolist() == [pf.USER_IP, 0, 0, 0x7000, pieces]
    assert raw.batches[1][0].tolist() == kept + [0] * (READ_PIECES - len(kept))
    assert raw.payload[1, 1:].tolist() == [pf.USER_IP + 8, 0, 0, 0, 0], "of a function that is not known all is lost"


def test_a_damaged_sample_does_not_keep_others_from_being_overwritten(tmp_path: Path) -> None:
    whole = pf.sample(SAMPLED, (rec.CONTEXT_USER, pf.USER_IP, SECRET), time=100, event_id=1)
    place = whole.index(struct.pack("<2Q", 3, rec.CONTEXT_USER))
    damaged = whole[:place] + struct.pack("<Q", 9) + whole[place + 8 :]
    nobodys = whole.replace(struct.pack("<Q", 1), struct.pack("<Q", 77), 1)
    path = written(tmp_path, MAPPED + damaged + whole + nobodys + damaged + whole)
    losses = read(path).losses
    assert b"hunter2" not in blank(path)
    assert read(path).losses == losses


@pytest.mark.parametrize(
    ("spec", "records", "found"),
    [
        (pf.Spec(pf.BASIC | 1 << 12), b"", "copies of registers"),
        (pf.Spec(), struct.pack("<IHH", perf.RECORD_COMPRESSED, 0, 16) + bytes(8), "compressed"),
    ],
)
def test_what_is_laid_out_otherwise_is_refused(spec: pf.Spec, records: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(pf.file_mode([spec], records))
    with pytest.raises(FormatError, match=found):
        blank(path)
