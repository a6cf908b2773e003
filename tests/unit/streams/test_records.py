"""Files of records that are put together from pieces of another."""

from __future__ import annotations

import struct
from pathlib import Path

from pinprof.collect.native import events
from pinprof.collect.native.perf_file import PerfFile, features
from pinprof.data import perf_format as perf
from pinprof.read.perf.data import load
from pinprof.streams.records import RecordsFile, composed


def fork(child: int) -> bytes:
    body = struct.pack("<IIIIQ", child, 1, child, 1, 5) + bytes(32)
    return perf.record(perf.RECORD_FORK, 0, body)


def described(path: Path, *, whole: bool) -> bytes:
    """A file without records, finished or not."""
    listed = [(events.mappings(), [11, 12]), (events.wakeups(7), [21])]
    file = PerfFile(path, listed)
    if whole:
        named = features(listed, version="x", command=("a",), kernel_build_id=b"", times_ns=(1, 2))
        file.finish(named)
    file.close()
    return path.read_bytes()


def test_records_lie_between_the_head_and_what_is_said_behind_them(tmp_path: Path) -> None:
    for whole in (True, False):
        head = described(tmp_path / f"head-{whole}", whole=whole)
        (tmp_path / "made").write_bytes(composed(head, fork(30), fork(31)))
        made = load(tmp_path / "made")
        assert [record.pid for _, record in made.raw.tasks] == [30, 31]
        assert made.raw.corrupt_bytes == 0
        assert [source.ids for source in made.header.sources] == [(11, 12), (21,)]
        assert [source.name for source in made.header.sources] == (
            ["dummy", "sched-waking/period=1/"] if whole else ["", ""]
        )
        assert made.header.notes == ([] if whole else made.header.notes)


def test_what_is_kept_says_who_there_is_and_where_code_lies(tmp_path: Path) -> None:
    data_map = perf.record(perf.RECORD_MMAP2, perf.MISC_MMAP_DATA, bytes(8))
    sample = perf.record(perf.RECORD_SAMPLE, 0, bytes(8))
    head = described(tmp_path / "head", whole=False)
    (tmp_path / "file").write_bytes(head + fork(30) + data_map + sample + fork(31))
    file = RecordsFile(tmp_path / "file")
    file.keep_until(file.size)
    assert bytes(file.kept) == fork(30) + fork(31)
    file.keep_until(file.size)
    assert len(file.kept) == 2 * len(fork(30))


def test_what_is_kept_of_a_long_part_is_read_in_pieces(tmp_path: Path) -> None:
    head = described(tmp_path / "head", whole=False)
    sample = perf.record(perf.RECORD_SAMPLE, 0, bytes(60_000))
    (tmp_path / "file").write_bytes(head + b"".join(fork(pid) + sample for pid in range(30, 80)))
    file = RecordsFile(tmp_path / "file")
    file.keep_until(file.size)
    assert bytes(file.kept) == b"".join(map(fork, range(30, 80)))
    assert file.gathered == file.size > 2 << 20


def test_a_file_goes_as_far_as_its_whole_records(tmp_path: Path) -> None:
    head, path = described(tmp_path / "head", whole=False), tmp_path / "file"
    path.write_bytes(head[: perf.FILE_HEAD.size - 1])
    file = RecordsFile(path)
    assert file.size == 0
    path.write_bytes(head + fork(30) + fork(31)[:-1])
    assert file.size == len(head + fork(30))
    path.write_bytes(head + fork(30) + fork(31) + fork(32)[:4])
    assert file.size == len(head + fork(30) + fork(31))
    path.write_bytes(head + fork(30) + fork(31) + bytes(50))
    assert file.size == path.stat().st_size  # a damaged record, which reading names
