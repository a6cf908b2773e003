"""A capture that was just recorded is read once, with what was loaded while the program ran."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from pinprof.read.directory import Reading
from pinprof.read.reader import ReadOptions, untold
from pinprof.read.symbols import kept
from pinprof.recording import FreshReading
from pinprof.streams.store import KALLSYMS

KERNEL = "ffffffff81000000 T {}\nffffffff81000040 T next_one\nffffffff81000080 T last_one\n"


def name_of(capture: Path, reading: FreshReading, address: int) -> str:
    """The kernel's function at an address."""
    resolver = Reading(capture, ReadOptions(kept=reading.kept), fresh=True).resolver
    (name,), _, _ = resolver.kernel(np.array([address], np.uint64))
    return resolver.names[name]


def test_kernel_symbols_are_loaded_once_and_again_where_they_were_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []
    load = kept.load_kallsyms
    monkeypatch.setattr(kept, "load_kallsyms", lambda path: (loaded.append(path), load(path))[1])
    (tmp_path / KALLSYMS).write_text(KERNEL.format("before"))
    reading = FreshReading(nullcontext(untold))
    reading.prepare(tmp_path)
    assert name_of(tmp_path, reading, 0xFFFFFFFF81000010) == "before"
    assert len(loaded) == 1
    # As `kallsyms.save` does when modules came or went.
    (tmp_path / "anew").write_text(KERNEL.format("after"))
    (tmp_path / "anew").replace(tmp_path / KALLSYMS)
    assert name_of(tmp_path, reading, 0xFFFFFFFF81000010) == "after"
    assert len(loaded) == 2


def test_what_is_not_there_yet_is_not_missed(tmp_path: Path) -> None:
    reading = FreshReading(nullcontext(untold))
    reading.prepare(tmp_path)
    assert Reading(tmp_path, ReadOptions(kept=reading.kept), fresh=True).resolver.kernel_hidden is False
