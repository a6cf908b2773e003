"""A shared copy says the same and holds no address of the kernel."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CaptureError, CollectError
from pinprof.data.uvm_events import HEADER_BYTES, UvmEvent
from pinprof.read import read
from pinprof.streams import scrubs, share, store
from tests.support import perf_file, uvm_layout

TEXT, MODULE = 0xFFFFFFFF_A1200000, 0xFFFFFFFF_C0A40000
ADDRESSES = (TEXT + 0x123, TEXT + 0x4567, MODULE + 0x10)
NAMES = ("clear_page_erms", "do_user_addr_fault", "uvm_fault")


def small(directory: Path) -> Path:
    """A sealed capture with kernel call chains."""
    spec = perf_file.Spec()
    chain = (2**64 - 128, *ADDRESSES, 2**64 - 512, 0x401000)
    records = perf_file.comm(spec, "app") + perf_file.sample(spec, chain, time=5)
    writer = store.CaptureWriter.create(directory / "run", store.new_manifest(command=("app",)))
    (writer.path / store.PERF_DATA).write_bytes(perf_file.file_mode([spec], records))
    kallsyms = "".join(f"{at & ~0xFFF:x} t {name}\n" for at, name in zip(ADDRESSES, NAMES, strict=True))
    (writer.path / store.KALLSYMS).write_bytes(gzip.compress(kallsyms.encode()))
    (writer.path / store.LOG).write_text(f"a tool saw {TEXT:x}\n")
    (writer.path / store.NSYS_REPORT).write_text("the environment")
    symbols = {
        "schema": 1,
        "names": sorted(NAMES),
        "kernel": {
            "hidden": False,
            "dsos": ["[kernel.kallsyms]"],
            "ips": list(ADDRESSES),
            "dso": [0, 0, 0],
            "name": [sorted(NAMES).index(name) for name in NAMES],
        },
        "user": [],
    }
    (writer.path / store.SYMBOLS).write_bytes(gzip.compress(json.dumps(symbols).encode()))
    return writer.finish(writer.manifest)


def stacks(capture: Path) -> list[tuple[str, ...]]:
    read_capture = read(capture)
    table = read_capture.stacks
    return [
        tuple(table.frames.symbol[int(table.frame[node])] for node in table.chain(node))
        for node in read_capture.samples.stack.tolist()
    ]


def test_the_copy_says_the_same_without_the_addresses(tmp_path: Path) -> None:
    capture = small(tmp_path)
    copy = share.share(capture, tmp_path / "given")
    assert copy.name == "given.pinprof"
    assert stacks(copy) == stacks(capture)
    assert set(NAMES) <= set(stacks(copy)[0])
    assert not {store.KALLSYMS, store.LOG, store.NSYS_REPORT} & {path.name for path in copy.iterdir()}
    everything = b"".join(path.read_bytes() for path in copy.iterdir())
    everything += gzip.decompress((copy / store.SYMBOLS).read_bytes())
    for address in ADDRESSES:
        assert struct.pack("<Q", address) not in everything
        assert str(address).encode() not in everything
        assert struct.pack("<Q", address) in (capture / store.PERF_DATA).read_bytes()


def test_what_has_the_copys_name_stays(tmp_path: Path) -> None:
    capture = small(tmp_path)
    with pytest.raises(CollectError, match="exists already"):
        share.share(capture, capture)
    assert stacks(capture)


def damaged_symbols() -> dict[str, bytes]:
    whole = gzip.compress(bytes(range(256)) * 9, mtime=0)
    kernel = b'{"schema": 1, "names": [], "user": [], "kernel": {"ips": [-5], "dsos": [], "dso": [], "name": []}}'
    return {
        "another shape": gzip.compress(b"[]"),
        "no address": gzip.compress(kernel),
        "too deep": gzip.compress(b"[" * 100_000),
        "damaged": whole[:20] + bytes(40) + whole[60:],
        "cut": whole[:-20],
    }


@pytest.mark.parametrize("content", damaged_symbols().values(), ids=damaged_symbols())
def test_nothing_is_left_of_a_copy_that_fails(content: bytes, tmp_path: Path) -> None:
    capture = small(tmp_path)
    (capture / store.SYMBOLS).write_bytes(content)
    with pytest.raises(CaptureError) as refused:
        share.share(capture, tmp_path / "given")
    assert str(capture / store.SYMBOLS) in refused.value.problem
    assert [path.name for path in tmp_path.iterdir()] == [capture.name]


@pytest.mark.parametrize("cut", [20, 0])
def test_a_text_that_is_damaged_or_unpacks_to_too_much_is_not_copied(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubs, "_MOST_TEXT", 10_000 if not cut else 10**9)
    capture = small(tmp_path)
    packed = gzip.compress(bytes(20_000))
    (capture / store.PERF_SCRIPT).write_bytes(packed[: len(packed) - cut])
    with pytest.raises(CaptureError, match=r"cannot be copied without kernel addresses: (truncated|it is too large)"):
        share.share(capture, tmp_path / "given")


def test_texts_and_tables_of_other_tools_lose_them_too(tmp_path: Path) -> None:
    capture = small(tmp_path)
    line = f"app 7 1.0: cpu-clock:\n\t{ADDRESSES[1]:x} do_user_addr_fault ([kernel.kallsyms])\n"
    (capture / store.PERF_SCRIPT).write_bytes(gzip.compress(line.encode()))
    with closing(sqlite3.connect(capture / store.NSYS_SQLITE, isolation_level=None)) as base:
        base.execute("CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER, originalIP INTEGER)")
        base.execute("INSERT INTO SAMPLING_CALLCHAINS VALUES (1, ?)", (ADDRESSES[2] - 2**64,))
        base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        base.execute("INSERT INTO StringIds VALUES (1, ?)", (f"0x{ADDRESSES[0]:x}",))
    copy = share.share(capture, tmp_path / "given")
    script = gzip.decompress((copy / store.PERF_SCRIPT).read_bytes()).decode()
    assert f"{ADDRESSES[1]:x}" not in script
    assert "do_user_addr_fault" in script
    database = (copy / store.NSYS_SQLITE).read_bytes()
    assert f"{ADDRESSES[0]:x}".encode() not in database
    assert struct.pack(">Q", ADDRESSES[2]) not in database


def test_where_code_was_that_touched_managed_memory_is_lost_too(tmp_path: Path) -> None:
    capture = small(tmp_path)
    (capture / store.UVM).mkdir()
    fault = uvm_layout.event(UvmEvent.CPU_FAULT, 2, address=5 << 12, time=9, pc=ADDRESSES[0])
    (capture / store.UVM / "7-1.bin").write_bytes(bytes(HEADER_BYTES) + fault)
    (copied,) = (share.share(capture, tmp_path / "given") / store.UVM).iterdir()
    assert struct.pack("<Q", ADDRESSES[0]) not in copied.read_bytes()
    assert copied.read_bytes()[:-40] == bytes(HEADER_BYTES) + fault[:32]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_order_and_what_is_no_address_stay(numbers: list[int]) -> None:
    words = np.unique(np.array(numbers, np.uint64))
    kernel = words[(words >= 0xFFFF << 48) & (words < 2**64 - 4096)]
    moved = scrubs.MovedAddresses(words).words(words)
    others = ~np.isin(words, kernel)
    assert (moved[others] == words[others]).all()
    assert (np.diff(moved[~others].astype(object)) > 0).all()
