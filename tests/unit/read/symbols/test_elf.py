"""Functions of real ELF files get the names that binutils prints; broken files leave addresses unresolved."""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.read.symbols.elf import ElfSymbols, own_vdso, read_elf, read_elf_bytes, same_build_id
from pinprof.read.symbols.elf_symbols import Names, Symbols, SymbolTable, select_functions
from pinprof.read.symbols.kept import KeptSymbols
from tests.support.examples import examples

ROOT = Path("/")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "nm", "readelf", "objcopy", "strip"))), reason="gcc or binutils is not installed"
)

SOURCE = """
#include <stdio.h>
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) static int hidden(int x) { return leaf(x) + 1; }
int weak_alias(int) __attribute__((weak, alias("leaf")));
int __leaf(int) __attribute__((alias("leaf")));
__asm__(".text\\n.globl hand_written\\nhand_written:\\n.skip 64\\n"
        ".globl after\\n.type after,@function\\nafter: ret\\n.size after,.-after\\n");
int main(int argc, char **argv) { return puts(argv[0]) + hidden(argc); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "program.c").write_text(SOURCE)
    command = ["gcc", "-O1", "-Wl,-z,lazy", "-Wl,--build-id=sha1", "-o", folder / "program", folder / "program.c"]
    subprocess.run(command, check=True)
    return folder / "program"


def loaded(path: Path, root: Path = ROOT) -> ElfSymbols:
    image = read_elf(path, root)
    assert image is not None
    return image


def build_id_of(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Build ID: ([0-9a-f]+)", notes)[0]


def names_at(image: ElfSymbols, *addresses: int) -> list[str | None]:
    rows = image.table.find(np.array(addresses, np.uint64)).tolist()
    return [image.name(row) if row >= 0 else None for row in rows]


def nm(path: Path, *options: str) -> dict[str, int]:
    lines = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {fields[2].partition("@")[0]: int(fields[0], 16) for line in lines if len(fields := line.split()) == 3}


def test_functions_aliases_and_labels_of_a_compiled_program(program: Path) -> None:
    image, symbols = loaded(program), nm(program)
    assert names_at(image, symbols["hidden"], symbols["main"] + 3) == ["hidden", "main"]
    assert names_at(image, symbols["leaf"]) == ["leaf"], "not the weak alias nor the one with underscores"
    assert names_at(image, symbols["hand_written"] + 63, symbols["after"]) == ["hand_written", "after"]
    assert names_at(image, 0, 2**64 - 1, symbols["_edata"]) == [None, None, None]


def test_file_offsets_are_mapped_through_the_loaded_segments(program: Path) -> None:
    image, symbols = loaded(program), nm(program)
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    segment = re.search(r"LOAD +0x(\w+) 0x(\w+) .*R E", headers)
    assert segment is not None
    offset = symbols["main"] - int(segment[2], 16) + int(segment[1], 16)
    rows = image.find(np.array([offset, 1 << 40], np.uint64))
    assert image.name(int(rows[0])) == "main"
    assert rows[1] == -1


def test_plt_entries_are_named_for_what_they_call(program: Path) -> None:
    dump = subprocess.run(["objdump", "-d", "-j", ".plt", program], capture_output=True, text=True, check=True).stdout
    address = int(re.findall(r"^(\w+) <puts@plt>:", dump, re.MULTILINE)[0], 16)
    assert names_at(loaded(program), address, address + 15) == ["puts@plt", "puts@plt"]


def test_another_build_is_not_used(program: Path) -> None:
    own = build_id_of(program)
    image = loaded(program)
    assert image.build_id == own
    assert image.is_build(own)
    assert image.is_build("")
    assert not image.is_build(own[:-1] + ("0" if own[-1] != "0" else "1"))
    assert same_build_id("ab" * 16, "ab" * 16 + "00000000"), "padded to 20 bytes by older perf"
    assert not same_build_id("ab" * 16, "ab" * 20)


def test_symbols_of_a_stripped_program_come_from_its_debug_file(program: Path, tmp_path: Path) -> None:
    own, main = build_id_of(program), nm(program)["main"]
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    assert names_at(loaded(stripped), main) == [None]
    debug = tmp_path / f"root/usr/lib/debug/.build-id/{own[:2]}/{own[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    assert names_at(loaded(stripped, tmp_path / "root"), main) == ["main"]

    linked = tmp_path / "linked"
    shutil.copy(debug, tmp_path / "linked.debug")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path}/linked.debug", stripped, linked], check=True)
    assert names_at(loaded(linked), main) == ["main"]


def test_mini_debug_info_names_what_the_dynamic_symbols_leave_out(program: Path, tmp_path: Path) -> None:
    symbols = nm(program)
    stripped, packed, result = tmp_path / "stripped", tmp_path / "packed", tmp_path / "result"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    packed.write_bytes(lzma.compress(program.read_bytes()))
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", stripped, result], check=True)
    assert names_at(loaded(result), symbols["hidden"], symbols["main"]) == ["hidden", "main"]
    packed.write_bytes(lzma.compress(program.read_bytes())[:100] + b"rubbish" * 9)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", stripped, result], check=True)
    assert names_at(loaded(result), symbols["main"]) == [None]


def test_libc_agrees_with_nm_about_every_exported_function(tmp_path: Path) -> None:
    found = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout
    libc = Path(found.strip()).resolve()
    image = loaded(libc, root=tmp_path)  # without debug files, which name internal aliases
    lines = subprocess.run(["nm", "-D", "--defined-only", libc], capture_output=True, text=True, check=True).stdout
    exported: dict[int, set[str]] = {}
    for line in lines.splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "TWi":
            exported.setdefault(int(address, 16), set()).add(name.partition("@")[0])
    assert len(exported) > 1000
    for (address, names), name in zip(exported.items(), names_at(image, *exported), strict=True):
        assert name in names, f"{address:x}"


def test_what_is_no_elf_file_is_unresolved(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n")
    for path in (text, tmp_path, tmp_path / "absent", Path("/dev/zero"), Path("/dev/null")):
        assert read_elf(path, ROOT) is None


def test_big_endian_files_are_unresolved(program: Path, tmp_path: Path) -> None:
    data = bytearray(program.read_bytes())
    data[5] = 2
    (tmp_path / "big").write_bytes(data)
    assert read_elf(tmp_path / "big", ROOT) is None


@pytest.mark.skipif(not own_vdso(), reason="this process has no vdso")
def test_the_vdso_of_this_process_has_its_functions() -> None:
    image = read_elf_bytes(own_vdso())
    assert image is not None
    names = names_at(image, *image.table.starts.tolist())
    assert any("clock_gettime" in str(name) for name in names)
    assert not image.is_build("00" * 20)


@examples(150)
@given(data=st.data())
def test_mutated_programs_never_raise(
    program: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(program.read_bytes())
    headers = [*range(64), *range(64, 64 + 56 * 4), *range(len(whole) - 64 * 31, len(whole))]
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.sampled_from(headers) | st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.just(len(whole)) | st.integers(0, len(whole)))
    path = tmp_path_factory.getbasetemp() / "mutated"
    path.write_bytes(whole[:cut])
    image = read_elf(path, ROOT)
    if image is not None:
        rows = image.find(np.arange(0, 1 << 16, 16, dtype=np.uint64))
        assert all(isinstance(image.name(row), str) for row in set(rows.tolist()) - {-1})


CODE = [0, 220, 0, 120]
symbol = st.tuples(
    st.integers(0, 40),
    st.integers(0, 255),
    st.integers(0, 4),
    st.integers(0, 5),
    st.integers(0, 200),
    st.integers(0, 50),
)


@given(st.lists(symbol, max_size=20), st.integers(0, 250))
def test_found_functions_enclose_the_address_and_missed_ones_do_not(
    entries: list[tuple[int, int, int, int, int, int]], address: int
) -> None:
    strings = b"\0" + b"a\0_b\0__c\0dd\0$e\0" * 4
    rows = b"".join(
        name.to_bytes(4, "little") + bytes([info, other]) + section.to_bytes(2, "little")
        + value.to_bytes(8, "little") + size.to_bytes(8, "little")
        for name, info, other, section, value, size in entries
    )  # fmt: skip
    table = SymbolTable(select_functions(rows, reading(strings), len(strings), CODE, wide=True, thumb=False))
    assert (np.diff(table.starts.astype(np.int64)) > 0).all()
    row = int(table.find(np.array([address], np.uint64))[0])
    functions = by_hand(entries, strings)
    assert table.starts.tolist() == sorted(functions)
    enclosing = [start for start in sorted(functions) if start <= address < functions[start][0]]
    name = functions[enclosing[-1]][1] if enclosing else ""
    assert (table.name(row) if row >= 0 else "") == name
    assert row < 0 or table.starts[row] == enclosing[-1]


def by_hand(entries: list[tuple[int, int, int, int, int, int]], strings: bytes) -> dict[int, tuple[int, str]]:
    """By its start, each function's end and name: one symbol at a time, by the rules of perf."""
    alike: dict[int, list[tuple[tuple[int, ...], int, str]]] = {}
    for name_at, info, other, section, value, size in entries:
        code_end = CODE[section] if section < len(CODE) else 0
        function = info & 15 in (2, 10) and section != 0
        label = info & 15 == 0 and code_end and other & 3 not in (1, 2) and strings[name_at : name_at + 1] != b"$"
        if not 0 < name_at < len(strings) or not (function or label):
            continue
        name = strings[name_at : strings.index(b"\0", name_at)].decode()
        underscores = len(name) - len(name.lstrip("_"))
        order = (size == 0, info >> 4 == 2, info >> 4 != 1, underscores, -len(name))
        end = value + size if size else code_end if code_end > value else 2**64 - 1
        alike.setdefault(value, []).append((order, end if size else -end, name))
    found = {}
    for start, candidates in alike.items():
        _, end, name = min(candidates, key=lambda candidate: candidate[0])
        following = min((other for other in alike if other > start), default=2**64 - 1)
        found[start] = (end if end > 0 else min(-end, following)), name
    return found


def reading(strings: bytes) -> Names:
    return lambda places: [strings[place:].partition(b"\0")[0] for place in places]


@given(st.binary(max_size=300), st.binary(max_size=60), st.booleans(), st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_any_bytes_make_a_symbol_table(symbols: bytes, strings: bytes, wide: bool, code: list[int]) -> None:
    table = SymbolTable(select_functions(symbols, reading(strings), len(strings), code, wide=wide, thumb=True))
    for row in table.find(np.array([0, 1 << 31, 2**64 - 1], np.uint64)).tolist():
        assert row == -1 or isinstance(table.name(row), str)


def test_the_first_part_of_a_table_wins() -> None:
    one = functions([16, 64], 16, [b"one", b"other"])
    two = functions([16, 32], 8, [b"two", b"more"])
    both = SymbolTable(one, two)
    assert both.find(np.array([31, 39, 40, 79], np.uint64)).tolist() == [0, 1, -1, 2]
    assert [both.name(row) for row in range(3)] == ["one", "more", "other"]


def functions(starts: list[int], size: int, names: list[bytes]) -> Symbols:
    begins = np.array(starts, np.uint64)
    return Symbols.of_names(begins, begins + np.uint64(size), names)


def test_names_are_read_of_the_file_that_was_loaded_alone(program: Path, tmp_path: Path) -> None:
    replaced, symbols = tmp_path / "program", nm(program)
    shutil.copy(program, replaced)
    image = loaded(replaced)
    assert names_at(image, symbols["main"]) == ["main"]
    replaced.unlink()
    assert names_at(image, symbols["main"], symbols["hidden"]) == ["main", None]
    shutil.copy(shutil.which("true") or "", replaced)
    assert names_at(image, symbols["leaf"]) == [None]


def test_a_file_with_two_names_is_loaded_once_and_anew_when_somebody_writes_to_it(
    program: Path, tmp_path: Path
) -> None:
    first, second, kept = tmp_path / "first", tmp_path / "second", KeptSymbols()
    shutil.copy(program, first)
    second.symlink_to(first)
    image = kept.elf(first, ROOT)
    assert image is not None
    assert kept.elf(second, ROOT) is image
    first.write_bytes(first.read_bytes() + b"\0")
    assert kept.elf(second, ROOT) is not image
    first.unlink()
    assert kept.elf(first, ROOT) is None
