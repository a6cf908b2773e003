"""The linker's cache says where libraries lie, as ldconfig prints it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from pinprof.machine import linker_cache

NAMES = [(b"libcuda.so.1", b"/usr/lib/libcuda.so.1"), (b"libc.so.6", b"/lib/libc.so.6")]


def cache_of(rows: list[tuple[bytes, bytes]]) -> bytes:
    """A cache as glibc writes it."""
    entries, texts = b"", b""
    begin = 48 + 24 * len(rows)
    for name, path in rows:
        at = begin + len(texts)
        entries += struct.pack("=i3IQ", 0x303, at, at + len(name) + 1, 0, 0)
        texts += name + b"\0" + path + b"\0"
    return struct.pack("=20s2I20x", b"glibc-ld.so.cache1.1", len(rows), len(texts)) + entries + texts


def read(data: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    (folder / "cache").write_bytes(data)
    monkeypatch.setattr(linker_cache, "CACHE", folder / "cache")
    return [(name, str(path)) for name, path in linker_cache.libraries()]


@pytest.mark.parametrize("before", [b"", b"ld.so-1.7.0\0" + bytes(300)])
def test_names_and_files_are_read_behind_any_older_table(
    before: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read(before + cache_of(NAMES), tmp_path, monkeypatch)
    assert found == [(name.decode(), path.decode()) for name, path in NAMES]


def test_a_cache_that_is_none_or_cut_short_names_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cache_of(NAMES)
    for end in range(len(whole)):
        assert all(name in ("", "libcuda.so.1", "libc.so.6") for name, _ in read(whole[:end], tmp_path, monkeypatch))
    assert read(b"another file", tmp_path, monkeypatch) == []
    monkeypatch.setattr(linker_cache, "CACHE", tmp_path / "none")
    assert list(linker_cache.libraries()) == []


def test_this_machines_cache_is_read_as_ldconfig_reads_it() -> None:
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None or not linker_cache.CACHE.exists():
        pytest.skip("no cache of glibc's linker")
    said = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    rows = [line.strip().partition(" => ") for line in said.splitlines()]
    assert [(name.split(" ")[0], path) for name, arrow, path in rows if arrow] == [
        (name, str(path)) for name, path in linker_cache.libraries()
    ]
