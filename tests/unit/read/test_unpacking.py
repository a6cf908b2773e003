"""A compressed file that is refused, or cut, writes little before that; zeros take no room."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinprof.base.errors import CaptureError, FormatError
from pinprof.read import byte_source, packed, unpacking


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, and little that is usual."""
    monkeypatch.setattr(byte_source, "CHUNK", 1 << 16)
    monkeypatch.setattr(unpacking, "SPARED_BYTES", 1 << 17)


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def packed_file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def test_the_copy_is_what_was_packed(tmp_path: Path) -> None:
    content = noise(1000) + bytes(1 << 20) + noise(1000) + bytes(3 << 20)
    assert unpacking.write_plain(packed_file(tmp_path, content), tmp_path / "plain") == ""
    assert (tmp_path / "plain").read_bytes() == content
    assert (tmp_path / "plain").stat().st_blocks * 512 < 1 << 20


def test_more_than_may_be_is_refused_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SPARED_BYTES", 0)
    monkeypatch.setattr(packed, "MOST_RATIO", 100)
    path = packed_file(tmp_path, noise(50) * (1 << 18))
    with pytest.raises(FormatError, match="times their size"):
        unpacking.write_plain(path, tmp_path / "plain")
    assert (tmp_path / "plain").stat().st_size <= unpacking.usual_bytes(path) + (1 << 16)


def test_more_than_there_is_room_for_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 << 20))
    path = packed_file(tmp_path, noise(50) * (1 << 18))
    with pytest.raises(CaptureError, match="has room for 3,145,728"):
        unpacking.write_plain(path, tmp_path / "plain")
    assert (tmp_path / "plain").stat().st_size <= unpacking.usual_bytes(path) + (1 << 16)


def test_what_ends_early_is_there_up_to_its_end(tmp_path: Path) -> None:
    path = packed_file(tmp_path, noise(1 << 20))
    path.write_bytes(path.read_bytes()[:-100_000])
    assert "truncated" in unpacking.write_plain(path, tmp_path / "plain")
    assert (tmp_path / "plain").stat().st_size > 800_000
