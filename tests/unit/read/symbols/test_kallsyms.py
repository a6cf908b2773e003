"""Kernel addresses get the names that /proc/kallsyms gives them, module by module, and never a distant one."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CaptureError, FormatError, PinprofError
from pinprof.read.symbols import kallsyms
from pinprof.read.symbols.kallsyms import Kallsyms, KernelText, load_kallsyms, parse_kallsyms
from tests.support.work import calls

PROC = Path("/proc/kallsyms")

OVERLAPPING = b"""ffffffff81000000 T _stext
ffffffff81000100 t do_fault
ffffffffc0400000 t nvidia_open\t[nvidia]
ffffffffc0d00000 t _nv000001rm\t[nvidia]
ffffffffc080c010 t uvm_vm_fault\t[nvidia_uvm]
ffffffffc080c090 t uvm_migrate\t[nvidia_uvm]
"""


def parsed(text: bytes) -> Kallsyms:
    table = parse_kallsyms(text)
    assert table is not None
    return table


def named(table: Kallsyms, ip: int) -> tuple[str, str] | None:
    row = int(table.find(np.array([ip], np.uint64))[0])
    return None if row < 0 else (table.name(row), table.module(row))


def reference(text: bytes) -> dict[int, tuple[str, str]]:
    """The last text symbol at each address, read line by line."""
    symbols = {}
    for line in text.decode().splitlines():
        address, kind, rest = line.split(" ", 2)
        name, _, module = rest.partition("\t")
        if kind in "tTwW" and not name.startswith("$"):
            symbols[int(address, 16)] = name, module or "[kernel.kallsyms]"
    return symbols


def test_a_module_inside_the_extent_of_another_keeps_its_own_functions() -> None:
    table = parsed(OVERLAPPING)
    assert named(table, 0xFFFFFFFFC080C07F) == ("uvm_vm_fault", "[nvidia_uvm]")
    assert named(table, 0xFFFFFFFFC0D00008) == ("_nv000001rm", "[nvidia]")
    assert named(table, 0xFFFFFFFF81000180) == ("do_fault", "[kernel.kallsyms]")


def test_addresses_outside_all_functions_stay_unresolved() -> None:
    table = parsed(OVERLAPPING)
    assert named(table, 0xFFFFFFFF80FFFFFF) is None, "before the first symbol"
    assert named(table, 0xFFFFFFFF8100_2000) is None, "past the core kernel's last page"
    assert named(table, 0xFFFFFFFFC0700000) is None, "past the last page before another module"
    assert named(table, 0xFFFFFFFFC0D0_2000) is None, "past the last symbol of all"
    assert named(table, 0xFFFFFFFFFFFFFFFF) is None


def test_data_symbols_end_functions_but_name_nothing() -> None:
    table = parsed(b"ffffffff81000000 T f\nffffffff81000010 D data\nffffffff81000800 T g\n")
    assert named(table, 0xFFFFFFFF8100000F) == ("f", "[kernel.kallsyms]")
    assert named(table, 0xFFFFFFFF81000010) is None
    assert named(table, 0xFFFFFFFF81000800) == ("g", "[kernel.kallsyms]")


def test_hidden_addresses_are_recognised() -> None:
    table = parsed(b"0000000000000000 T _stext\n0000000000000000 t do_fault\n")
    assert table.hidden
    assert len(table) == 0
    assert not parsed(OVERLAPPING).hidden
    assert not parsed(b"").hidden
    assert KernelText(b"0000000000000000 T _stext\n" * 1000).hidden
    per_processor = b"0000000000000000 A per_processor\n" * 1000
    symbols = KernelText(per_processor + kernel(1000))
    assert not symbols.hidden
    assert named(symbols.around(np.array([8], np.uint64)), 8) is None
    assert not symbols.hidden


def test_32_bit_kernels_are_read() -> None:
    assert named(parsed(b"c0008000 T stext\nc0008010 T next\nc0009000 t last\n"), 0xC000800F) == (
        "stext",
        "[kernel.kallsyms]",
    )


lines = st.tuples(
    st.integers(0xFFFFFFFF81000000, 0xFFFFFFFF81000FFF) | st.integers(1, 2**64 - 2),
    st.sampled_from("tTwWdDrRbA"),
    st.from_regex(r"[A-Za-z_$][A-Za-z0-9_.]{0,40}", fullmatch=True),
    st.sampled_from(["", "\t[nvidia]", "\t[nvidia_uvm]", "\t[bpf]", "\t[__builtin__kprobes]"]),
)


@pytest.mark.slow
@given(st.lists(lines, min_size=1, max_size=60))
def test_every_start_has_the_name_a_line_by_line_reader_finds(entries: list[tuple[int, str, str, str]]) -> None:
    text = "".join(f"{address:016x} {kind} {name}{module}\n" for address, kind, name, module in entries).encode()
    expected, table = reference(text), parsed(text)
    assert table.starts.tolist() == sorted(expected)
    for row, start in enumerate(table.starts.tolist()):
        assert (table.name(row), table.module(row)) == expected[start]
    assert (table.ends > table.starts).all()
    assert (table.ends[:-1] <= table.starts[1:]).all()


@pytest.mark.slow
@given(st.lists(lines, max_size=60), st.lists(lines, max_size=5), st.integers(1, 200), st.data())
def test_what_lies_around_addresses_names_them_as_the_whole_text_does(
    core: list[tuple[int, str, str, str]], modules: list[tuple[int, str, str, str]], block: int, data: st.DataObject
) -> None:
    core = sorted(((address, kind, name, "") for address, kind, name, _ in core), key=lambda line: line[0])
    entries = [*core, *((address, kind, name, module or "\t[bpf]") for address, kind, name, module in modules)]
    text = "".join(f"{address:016x} {kind} {name}{module}\n" for address, kind, name, module in entries).encode()
    near = st.sampled_from([0, *(line[0] for line in entries)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kallsyms, "_BLOCK", block)
        symbols, whole = KernelText(text), parsed(text)
        for _ in range(2):
            ips = [(data.draw(near) + data.draw(st.integers(-20, 300_000))) % 2**64 for _ in range(4)]
            found = symbols.around(np.array(ips, np.uint64))
            assert [named(found, ip) for ip in ips] == [named(whole, ip) for ip in ips]


def kernel(lines: int) -> bytes:
    """A kernel's text of so many lines."""
    return b"".join(b"%016x t function_%d\n" % (0xFFFFFFFF81000000 + 64 * number, number) for number in range(lines))


def test_of_a_kernels_text_only_what_lies_around_addresses_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(kallsyms, "parse_kallsyms", lambda text: (read.append(len(text)), parse_kallsyms(text))[1])
    symbols = KernelText(text := kernel(20_000))
    for times in range(3):
        found = symbols.around(np.array([0xFFFFFFFF81000000 + 64 * 7_000 + times], np.uint64))
        assert named(found, 0xFFFFFFFF81000000 + 64 * 7_000 + times) == ("function_7000", "[kernel.kallsyms]")
    assert len(read) == 1
    assert read[0] < len(text) / 50
    for number in range(0, 20_000, 50):
        symbols.around(np.array([0xFFFFFFFF81000000 + 64 * number], np.uint64))
    assert sum(read) < 3 * len(text)
    prepared = KernelText(text)
    assert prepared.parse()
    read.clear()
    prepared.around(np.array([0xFFFFFFFF81000000], np.uint64))
    assert read == []


def test_lines_that_are_not_sorted_are_all_parsed() -> None:
    text = b"".join(reversed(kernel(5_000).splitlines(keepends=True)))
    ip = 0xFFFFFFFF81000000 + 64 * 3_000
    assert named(KernelText(text).around(np.array([ip], np.uint64)), ip) == ("function_3000", "[kernel.kallsyms]")


@given(st.binary(max_size=400) | st.text("0123456789abcdef tT[]\t\n_x", max_size=400).map(str.encode))
def test_any_bytes_parse_or_are_refused(text: bytes) -> None:
    assert KernelText(text).around(np.array([1], np.uint64)) is not None
    table = parse_kallsyms(text)
    if table is not None:
        for row in table.find(np.array([0, 1, 2**63, 2**64 - 1], np.uint64)).tolist():
            if row >= 0:
                table.name(row), table.module(row)


@pytest.mark.slow
@pytest.mark.skipif(not PROC.exists(), reason="no /proc/kallsyms")
def test_this_kernel_parses_without_a_step_per_line_and_as_a_line_by_line_reader_reads_it() -> None:
    text = PROC.read_bytes()
    table = parsed(text)
    assert calls(lambda: parsed(text)) < 1000 < text.count(b"\n")
    if table.hidden:
        pytest.skip("kptr_restrict hides this kernel's addresses")
    expected = reference(text)
    assert table.starts.tolist() == sorted(expected)
    rows = range(0, len(table), max(1, len(table) // 5000))
    assert [(table.name(row), table.module(row)) for row in rows] == [expected[int(table.starts[row])] for row in rows]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_compressed_files_read_like_plain_ones(compress: type[bytes], tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_bytes(compress(OVERLAPPING))
    table = load_kallsyms(path).around(np.array([0xFFFFFFFF81000100], np.uint64))
    assert named(table, 0xFFFFFFFF81000100) == ("do_fault", "[kernel.kallsyms]")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_cut_compressed_files_are_an_error_that_says_so(compress: type[bytes], tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_bytes(compress(OVERLAPPING)[:-20])
    with pytest.raises(CaptureError, match=r"kallsyms cannot be read: truncated"):
        load_kallsyms(path)


def test_other_files_are_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("milk\nbread\n")
    with pytest.raises(FormatError, match="ADDRESS TYPE NAME"):
        load_kallsyms(path)
    with pytest.raises(CaptureError, match="No such file"):
        load_kallsyms(tmp_path / "absent")


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08\0", b"\xfd7zXZ\0"]))
def test_any_file_loads_or_is_a_pinprof_error(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, magic: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "kallsyms-any"
    path.write_bytes(magic + body)
    try:
        symbols = load_kallsyms(path)
    except PinprofError:
        return
    there = np.array([2**63], np.uint64)
    assert len(symbols.around(there).find(there)) == 1
