"""What processes have mapped is listed large, joined, and only when it changes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from pinprof.collect import mappings
from pinprof.collect.mappings import Mappings, OwnMappings, listed
from pinprof.data.mapped import Mapped
from pinprof.read.memory import read_memory

MAPS = b"""\
00400000-00500000 r-xp 00000000 fe:00 43 /bin/app
00500000-00600000 rw-p 00100000 fe:00 43 /bin/app
00700000-00701000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000100000-7f0000200000 ---p 00000000 00:00 0 
7f0000200000-7f0000300000 rw-s 00000000 fe:00 44 /data/a b
7f0000300000-7f0000400000 r--s 00000000 00:05 45 /dev/zero (deleted)
"""  # noqa: W291 - as the kernel writes it


def test_large_mappings_are_listed_and_neighbours_that_are_alike_joined() -> None:
    assert listed(MAPS) == (
        (0x400000, 0x600000, Mapped.PROGRAM),
        (0x7F0000000000, 0x7F0000100000, Mapped.ANONYMOUS),
        (0x7F0000200000, 0x7F0000300000, Mapped.SHARED_FILE),
        (0x7F0000300000, 0x7F0000400000, Mapped.SHARED_MEMORY),
    )


def test_a_list_is_made_when_due_and_said_when_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [MAPS]
    monkeypatch.setattr(mappings, "maps_of", lambda pid, until: maps[-1])
    monkeypatch.setattr(mappings, "COST", 1e9)
    looks, first = Mappings(), listed(MAPS)
    assert [looks.look(7, now) for now in (0.0, 0.05, 0.11)] == [first, (), ()]
    maps.append(MAPS.splitlines(keepends=True)[0])
    assert [looks.look(7, now) for now in (0.2, 0.35)] == [(), listed(maps[-1])]
    looks.keep([])
    assert looks.look(7, 0.36) == listed(maps[-1]), "another process may have that number"


def test_this_process_has_a_stack_or_code_listed() -> None:
    assert {kind for _, _, kind in Mappings().look(os.getpid(), 0.0)} & {Mapped.PROGRAM, Mapped.ANONYMOUS}


def test_this_process_lists_what_it_has_mapped_now_and_nothing_stops_where_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    lists = OwnMappings(tmp_path / "memory.jsonl")
    lists.write()
    with mmap.mmap(-1, 1 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS):
        lists.write()
    lists.close()
    lists.write()
    log = read_memory(tmp_path / "memory.jsonl")
    assert log is not None
    assert log.bad_lines == 0
    first, second = (log.maps.take(log.maps.time_ns == time) for time in log.time_ns)
    assert (second.kind == Mapped.SHARED_MEMORY).sum() == (first.kind == Mapped.SHARED_MEMORY).sum() + 1
    assert set(log.maps.pid.tolist()) == {os.getpid()}
    OwnMappings(tmp_path / "none" / "memory.jsonl").write()
