"""User call chains in records of their own, as Linux 6.19 and later write them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pinprof import read
from pinprof.data import perf_format as perf
from pinprof.data.model import Capture
from pinprof.read.perf import records as rec
from tests.support import perf_file as pf

SPEC = pf.Spec()
MAPS = pf.mmap2(SPEC, 0x400000, 0x10000, "/opt/app") + pf.mmap2(SPEC, 0x7F0000000000, 0x10000, "/lib/libc.so.6")
IN_APP, IN_LIBC = 0x401000, 0x7F0000001000
COOKIE = 3 << 48 | 17


def foretold(cookie: int = COOKIE, *, time: int = 100, tid: int = 7) -> bytes:
    return pf.sample(SPEC, (rec.CONTEXT_KERNEL, pf.KERNEL_IP, rec.CONTEXT_USER_DEFERRED, cookie), time=time, tid=tid)


def arrives(
    *chain: int, cookie: int = COOKIE, time: int = 200, tid: int = 7, count: int | None = None, marked: bool = True
) -> bytes:
    entries = (rec.CONTEXT_USER, *chain) if marked else chain
    body = struct.pack(f"<QQ{len(entries)}Q", cookie, len(entries) if count is None else count, *entries)
    return pf.record(perf.RECORD_CALLCHAIN_DEFERRED, body + pf.trailer(SPEC, time=time, tid=tid))


def capture_of(folder: Path, *records: bytes) -> Capture:
    path = folder / "perf.data"
    path.write_bytes(pf.file_mode([SPEC], MAPS + b"".join(records)))
    return read.read(path)


def stacks(capture: Capture) -> list[list[str]]:
    table = capture.stacks
    chains = [list(table.chain(node)) for node in capture.samples.stack.tolist()]
    return [[table.frames.symbol[int(table.frame[node])] for node in reversed(chain)] for chain in chains]


WHOLE = ["[app]", "[libc.so.6]", "[unknown kernel]"]


@pytest.mark.parametrize("marked", [True, False])
def test_samples_get_the_callers_that_arrive_with_their_cookie(tmp_path: Path, marked: bool) -> None:
    plain = pf.sample(SPEC, time=150)
    late = arrives(IN_LIBC, IN_APP, marked=marked)
    capture = capture_of(tmp_path, foretold(), foretold(time=120), plain, late, foretold(time=300, cookie=COOKIE + 1))
    assert stacks(capture) == [WHOLE, WHOLE, ["[app]"], ["[unknown kernel]"]]
    assert capture.losses.unknown_records == capture.losses.corrupt_bytes == 0
    assert any(note.startswith("1 samples lost their callers") for note in capture.losses.notes)


def test_chains_of_one_thread_are_no_other_threads(tmp_path: Path) -> None:
    own, other = arrives(IN_APP), arrives(IN_LIBC, tid=8)
    capture = capture_of(tmp_path, foretold(), foretold(tid=8, time=110), other, own)
    assert stacks(capture) == [["[app]", "[unknown kernel]"], ["[libc.so.6]", "[unknown kernel]"]]


def test_record_may_come_before_its_sample(tmp_path: Path) -> None:
    assert stacks(capture_of(tmp_path, arrives(IN_APP), foretold())) == [["[app]", "[unknown kernel]"]]


@pytest.mark.parametrize("cookie", [0, 1, 2**64 - 512, 2**64 - 1])
def test_cookies_are_never_addresses_or_markers(tmp_path: Path, cookie: int) -> None:
    capture = capture_of(tmp_path, foretold(cookie), arrives(IN_APP, cookie=cookie))
    assert stacks(capture) == [["[app]", "[unknown kernel]"]]


def test_marker_without_a_cookie_is_left_out(tmp_path: Path) -> None:
    cut = pf.sample(SPEC, (rec.CONTEXT_KERNEL, pf.KERNEL_IP, rec.CONTEXT_USER_DEFERRED), time=100)
    capture = capture_of(tmp_path, cut, pf.sample(SPEC, time=150), arrives(IN_APP))
    assert stacks(capture) == [["[unknown kernel]"], ["[app]"]]


@pytest.mark.parametrize("count", [3, 1 << 40])
def test_record_shorter_than_it_says_is_damage(tmp_path: Path, count: int) -> None:
    capture = capture_of(tmp_path, foretold(), arrives(IN_APP, count=count))
    assert stacks(capture) == [["[unknown kernel]"]]
    assert capture.losses.corrupt_bytes > 0


@pytest.mark.parametrize("words", [0, 1])
def test_record_shorter_than_its_head_is_counted_and_nothing_else(tmp_path: Path, words: int) -> None:
    short = pf.record(perf.RECORD_CALLCHAIN_DEFERRED, bytes(8 * words) + pf.trailer(SPEC, time=200, tid=7))
    capture = capture_of(tmp_path, foretold(), short)
    assert stacks(capture) == [["[unknown kernel]"]]
    assert capture.losses.corrupt_bytes == len(short)
