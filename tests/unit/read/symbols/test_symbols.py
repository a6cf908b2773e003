"""A resolver names what lies on this machine when recording, seals it, and later needs nothing but the sealed file."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.errors import CaptureError
from pinprof.data.model import Dso, Int32, UInt64
from pinprof.read.symbols.demangle import demangle
from pinprof.read.symbols.perf_map import parse_perf_map
from pinprof.read.symbols.resolver import Resolver
from pinprof.read.symbols.sealed import SealedAddresses, SealedSymbols
from tests.unit.read.symbols.test_kallsyms import OVERLAPPING

needs_gcc = pytest.mark.skipif(not all(map(shutil.which, ("g++", "c++filt", "nm"))), reason="g++ is not installed")

CPP = """
#include <map>
#include <string>
#include <vector>
namespace lib { template <class T> struct Box { T value; Box(T v) : value(v) {} virtual ~Box() {} bool operator<(const Box &o) const { return value < o.value; } }; }
int main(int argc, char **argv) {
  std::map<std::string, std::vector<lib::Box<int>>> boxes;
  for (int i = 0; i < argc; i++) boxes[argv[i]].emplace_back(i);
  return boxes.begin()->second[0] < boxes.begin()->second[0];
}
"""  # noqa: E501 — a program, not prose


def u64(*values: int) -> UInt64:
    return np.array(values, np.uint64)


def texts(resolver: Resolver, names: Int32) -> list[str | None]:
    return [resolver.names[name] if name >= 0 else None for name in names.tolist()]


@pytest.fixture
def kallsyms(tmp_path: Path) -> Path:
    path = tmp_path / "kallsyms"
    path.write_bytes(OVERLAPPING)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "boxes.cpp").write_text(CPP)
    subprocess.run(["g++", "-O0", "-no-pie", "-Wl,--build-id=sha1", "boxes.cpp", "-o", "boxes"], cwd=folder, check=True)
    return folder / "boxes"


def build_id_of(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Build ID: ([0-9a-f]+)", notes)[0]


def functions_of(path: Path) -> dict[int, str]:
    """File offset → mangled name of the functions of a program linked at 0x400000, where offset and address agree."""
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [line.split(" ", 2) for line in lines if re.match(r"\w+ [tTW] _Z", line)]
    return {int(address, 16) - 0x400000: name for address, _, name in pairs}


def test_kernel_addresses_are_named_with_their_module(kallsyms: Path) -> None:
    resolver = Resolver(kallsyms=kallsyms)
    names, dsos, which = resolver.kernel(u64(0xFFFFFFFFC080C010, 0xFFFFFFFF81000101, 0xFFFFFFFF90000000))
    assert texts(resolver, names) == ["uvm_vm_fault", "do_fault", None]
    assert [dsos[index] for index in which] == [
        Dso("[nvidia_uvm]", "", "module"),
        Dso("[kernel.kallsyms]", "", "kernel"),
        Dso("[kernel.kallsyms]", "", "kernel"),
    ]


def test_without_any_source_nothing_is_resolved() -> None:
    resolver = Resolver()
    names, _, _ = resolver.kernel(u64(2**63, 2**64 - 1))
    assert names.tolist() == [-1, -1]
    assert resolver.user(Dso("/nowhere/at/all", "", "file"), u64(0, 4096), 1).tolist() == [-1, -1]
    assert resolver.kernel(u64())[0].tolist() == []


def test_hidden_kernel_symbols_are_known_as_such(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_bytes(b"0000000000000000 T _stext\n0000000000000000 T do_fault\n")
    resolver = Resolver(kallsyms=path, recording=True)
    assert resolver.kernel(u64(2**63))[0].tolist() == [-1]
    assert resolver.kernel_hidden
    sealed = resolver.seal()
    assert Resolver(sealed=sealed).kernel_hidden
    path.write_bytes(OVERLAPPING)
    assert not Resolver(sealed=sealed, kallsyms=path).kernel_hidden


@pytest.mark.slow
@needs_gcc
def test_cpp_functions_are_named_as_cxxfilt_names_them(program: Path) -> None:
    functions = functions_of(program)
    assert len(functions) > 50
    resolver = Resolver()
    dso = Dso(str(program), build_id_of(program), "file")
    found = texts(resolver, resolver.user(dso, u64(*functions), 1))
    plain = subprocess.run(["c++filt", *functions.values()], capture_output=True, text=True, check=True).stdout
    by_name = dict(zip(functions.values(), plain.splitlines(), strict=True))
    aliases = re.compile(r"([CD])[1-5]E")  # constructors and destructors of one body
    for name, expected in zip(found, by_name.values(), strict=True):
        assert name is not None
        assert name == expected or aliases.search(next(m for m, p in by_name.items() if p == expected)), expected
    assert len(set(found) & set(by_name.values())) > 0.9 * len(set(by_name.values()))


SHIFTED = """
#include <errno.h>
#include <stdint.h>
#include <string.h>
#define ROOM 64
void *__libc_malloc(size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t), __libc_free(void *);
static void *past(char *start) { return start ? start + ROOM : 0; }
void *malloc(size_t size) { return past(__libc_malloc(size + ROOM)); }
void *calloc(size_t count, size_t size)
{
    void *made = malloc(count * size);
    return made ? memset(made, 0, count * size) : 0;
}
void *realloc(void *old, size_t size) { return past(__libc_realloc(old ? (char *)old - ROOM : 0, size + ROOM)); }
void *memalign(size_t to, size_t size) { return to <= ROOM ? past(__libc_memalign(ROOM, size + ROOM)) : 0; }
void *aligned_alloc(size_t to, size_t size) { return memalign(to, size); }
int posix_memalign(void **made, size_t to, size_t size) { return (*made = memalign(to, size)) ? 0 : ENOMEM; }
void free(void *old) { if (old) __libc_free((char *)old - ROOM); }
"""
"""An allocator whose blocks the C library's own `free` does not know."""


@needs_gcc
def test_names_are_read_where_the_user_preloads_another_allocator(tmp_path: Path) -> None:
    source, library = tmp_path / "shifted.c", tmp_path / "shifted.so"
    source.write_text(SHIFTED)
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    script = (
        "from pinprof.read.symbols.demangle import demangle; print([demangle('_ZN1a1bEv') for _ in range(100)][-1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "a::b()\n"), done.stderr


@needs_gcc
def test_another_build_of_the_file_is_unresolved_not_misnamed(program: Path) -> None:
    offset = next(iter(functions_of(program)))
    assert Resolver().user(Dso(str(program), "ab" * 20, "file"), u64(offset), 1).tolist() == [-1]


@needs_gcc
@pytest.mark.parametrize("place", ["opt/tool/boxes", "boxes"])
def test_symfs_holds_files_by_path_or_by_name(program: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, tmp_path / place)
    offset = next(iter(functions_of(program)))
    dso = Dso("/opt/tool/boxes", build_id_of(program), "file")
    assert Resolver(symfs=tmp_path).user(dso, u64(offset), 1).tolist() == [0]
    assert Resolver().user(dso, u64(offset), 1).tolist() == [-1]


@needs_gcc
def test_sealed_symbols_need_neither_kernel_nor_program(program: Path, kallsyms: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copy(program, copy)
    offsets = u64(*list(functions_of(program))[:9], 1 << 40)
    ips = u64(0xFFFFFFFFC080C010, 0xFFFFFFFF81000101, 0xFFFFFFFF90000000)
    dso = Dso(str(copy), "", "file")
    recording = Resolver(kallsyms=kallsyms, recording=True)
    expected = texts(recording, recording.user(dso, offsets, 7)), texts(recording, recording.kernel(ips)[0])
    assert None not in expected[0][:9]
    recording.seal().save(tmp_path / "symbols.json.gz")
    copy.unlink()
    kallsyms.unlink()

    later = Resolver(sealed=SealedSymbols.load(tmp_path / "symbols.json.gz"))
    names, dsos, which = later.kernel(ips)
    assert (texts(later, later.user(dso, offsets, 7)), texts(later, names)) == expected
    assert [dsos[index].path for index in which] == ["[nvidia_uvm]", "[kernel.kallsyms]", "[kernel.kallsyms]"]


def test_equal_symbols_make_equal_bytes_in_whatever_order_they_were_asked(kallsyms: Path, tmp_path: Path) -> None:
    asked = [0xFFFFFFFFC080C010, 0xFFFFFFFF81000101, 0xFFFFFFFF81000000, 0xFFFFFFFFC0400001]
    for index, order in enumerate((asked, asked[::-1])):
        resolver = Resolver(kallsyms=kallsyms, recording=True)
        for ip in order:
            resolver.kernel(u64(ip, asked[0]))
        resolver.seal().save(tmp_path / str(index))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


@needs_gcc
def test_files_of_another_machine_do_not_name_sealed_captures(program: Path) -> None:
    offset = u64(next(iter(functions_of(program))))
    sealed = SealedSymbols()
    assert Resolver(sealed=sealed).user(Dso(str(program), "", "file"), offset, 1).tolist() == [-1]
    assert Resolver(sealed=sealed).user(Dso(str(program), build_id_of(program), "file"), offset, 1).tolist() == [0]
    assert Resolver(sealed=sealed, symfs=Path("/")).user(Dso(str(program), "", "file"), offset, 1).tolist() == [0]


def test_code_made_at_run_time_is_named_per_process(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/perf-41.map").write_text("7f0000001000 20 py::main:/app/@x/main.py\n")
    (tmp_path / "tmp/perf-42.map").write_text("7f0000001000 20 other function\n")
    resolver = Resolver(symfs=tmp_path, recording=True)
    dso = Dso("//anon", "", "anon")
    named = [texts(resolver, resolver.user(dso, u64(0x7F0000001010), pid))[0] for pid in (41, 42, 43)]
    assert named == ["py::main:/app/@x/main.py", "other function", None]
    later = Resolver(sealed=resolver.seal())
    assert [texts(later, later.user(dso, u64(0x7F0000001010), pid))[0] for pid in (41, 42, 43)] == named


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_perf_map_of_another_user_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    path = tmp_path / "tmp/perf-41.map"
    path.write_text("1000 20 planted\n")
    os.chown(path, 12345, 12345)
    assert Resolver(symfs=tmp_path).user(Dso("//anon", "", "anon"), u64(0x1010), 41).tolist() == [-1]


def test_perf_map_lines_that_are_none_are_skipped_and_later_ones_win() -> None:
    table = parse_perf_map(b"1000 10 first\nrubbish\n1000 20 second one\nzz 1 x\n0x2000 0x8 third\n3000 10\n")
    rows = table.find(u64(0x101F, 0x1020, 0x2007, 0x3001))
    assert [table.name(row) if row >= 0 else None for row in rows.tolist()] == ["second one", None, "third", None]


@given(st.binary(max_size=300) | st.text("0123456789abcdefx \n\t\0", max_size=300).map(str.encode))
def test_any_perf_map_parses(text: bytes) -> None:
    table = parse_perf_map(text)
    rows = table.find(u64(0, 1, 2**64 - 1))
    assert all(row == -1 or isinstance(table.name(row), str) for row in rows.tolist())


def test_rust_names_lose_hash_and_escapes_and_unknown_manglings_stay() -> None:
    assert demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE") == "core::fmt::Formatter::pad"
    assert (
        demangle("_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE")
        == "<alloc::string::String as core::fmt::Display>::fmt"
    )
    assert (
        demangle("_ZNSt6vectorIiSaIiEE9push_backEOi@plt")
        == "std::vector<int, std::allocator<int> >::push_back(int&&)@plt"
    )
    for name in ("main", "_Z", "_Zrubbish", "_ZN", "_Z\0\n", "_Z" + "P" * 100_000, ""):
        assert demangle(name) == name


@pytest.mark.parametrize("levels", [10, 24, 400])
def test_a_name_that_would_explode_stays_mangled(levels: int) -> None:
    """Each level is X of the level before, twice: its readable form doubles."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    back = [f"S{digits[level // 36]}{digits[level % 36]}_".replace("S0", "S") for level in range(1, levels + 1)]
    name = "_Z1f1A1XIS_S_E" + "".join(f"S0_I{reference}{reference}E" for reference in back)
    assert demangle(name) == name
    assert demangle("_Z1f1A1XIS_S_ES0_IS1_S1_E") == "f(A, X<A, A>, X<X<A, A>, X<A, A> >)"


@given(st.text(max_size=40))
def test_any_name_demangles_to_text(name: str) -> None:
    for text in (name, "_Z" + name, f"_ZN{len(name)}{name}17h0123456789abcdefE"):
        demangle(text).encode("utf-8", "surrogatepass")


sealed_symbols = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, unique=True
).flatmap(
    lambda names: st.builds(
        lambda ips, user: SealedSymbols(
            names=tuple(sorted(names)),
            kernel=SealedAddresses(u64(*sorted(ips)), np.array([ips[ip] for ip in sorted(ips)], np.int32)),
            kernel_dso=np.zeros(len(ips), np.int32),
            kernel_dsos=("[kernel.kallsyms]",),
            kernel_hidden=False,
            user={
                (path, "", "file", 0): SealedAddresses(
                    u64(*sorted(at)), np.array([at[ip] for ip in sorted(at)], np.int32)
                )
                for path, at in user.items()
            },
        ),
        st.dictionaries(st.integers(0, 2**64 - 1), st.integers(-1, len(names) - 1)),
        st.dictionaries(
            st.text(max_size=5).map(lambda text: text.encode("utf-8", "replace").decode()),
            st.dictionaries(st.integers(0, 2**40), st.integers(-1, len(names) - 1)),
            max_size=3,
        ),
    )
)


@pytest.mark.slow
@given(sealed_symbols)
def test_sealed_symbols_survive_the_file(tmp_path_factory: pytest.TempPathFactory, sealed: SealedSymbols) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.json.gz"
    sealed.save(path)
    again = SealedSymbols.load(path)
    assert (again.names, again.kernel_dsos, set(again.user)) == (sealed.names, sealed.kernel_dsos, set(sealed.user))
    for key, addresses in sealed.user.items():
        assert again.user[key].addresses.tolist() == addresses.addresses.tolist()
        assert again.user[key].names.tolist() == addresses.names.tolist()
    assert again.kernel.names.tolist() == sealed.kernel.names.tolist()


VALID = {
    "schema": 1,
    "names": ["f"],
    "kernel": {"hidden": False, "dsos": ["[nvidia]"], "ips": [1], "dso": [0], "name": [0]},
    "user": [{"path": "/a", "build_id": "", "kind": "file", "pid": 0, "offsets": [1, 2], "name": [0, -1]}],
    "lines": {
        "paths": ["/a.c"],
        "runs": [[0, 0, 3], [0, 0, 3, 0, 0, 7]],
        "left": 0,
        "user": [{"path": "/a", "build_id": "", "kind": "file", "pid": 0, "offsets": [1, 2], "run": [0, 1]}],
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"names": "f"},
        {"names": [1]},
        {"names": []},
        {"kernel": None},
        {"kernel": VALID["kernel"] | {"dso": [1]}},
        {"kernel": VALID["kernel"] | {"dso": [-1]}},
        {"kernel": VALID["kernel"] | {"ips": [-1]}},
        {"kernel": VALID["kernel"] | {"ips": [2**64]}},
        {"kernel": VALID["kernel"] | {"ips": [1, 2]}},
        {"kernel": VALID["kernel"] | {"ips": [[1]]}},
        {"user": [{"path": "/a"}]},
        {"user": [VALID["user"][0] | {"offsets": [2, 1]}]},
        {"user": [VALID["user"][0] | {"path": 3}]},
        {"user": [VALID["user"][0] | {"name": [0, 1]}]},
        {"lines": None},
        {"lines": VALID["lines"] | {"paths": []}},
        {"lines": VALID["lines"] | {"runs": [[0, 0]]}},
        {"lines": VALID["lines"] | {"runs": [[1, 0, 3], [0, 0, 3]]}},
        {"lines": VALID["lines"] | {"runs": [[0, 0, -3], [0, 0, 3]]}},
        {"lines": VALID["lines"] | {"runs": [[0, 0, 3], [0, 0, 3] * 1000]}},
        {"lines": VALID["lines"] | {"runs": [[0, 0, 3]]}},
        {"lines": VALID["lines"] | {"left": "many"}},
    ],
)
def test_sealed_files_that_contradict_themselves_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "symbols.json.gz"
    path.write_bytes(gzip.compress(json.dumps(VALID).encode()))
    assert SealedSymbols.load(path).names == ("f",)
    path.write_bytes(gzip.compress(json.dumps(VALID | change).encode()))
    with pytest.raises(CaptureError, match="symbols"):
        SealedSymbols.load(path)


@given(st.binary(max_size=100), st.booleans())
def test_any_sealed_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, compressed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json.gz"
    path.write_bytes(gzip.compress(body) if compressed else body)
    with pytest.raises(CaptureError):
        SealedSymbols.load(path)


def own(path: str = "/home/me/prog") -> Dso:
    return Dso(path, "", "file")


def test_sealed_lines_read_back_and_captures_without_them_are_as_before(tmp_path: Path) -> None:
    path = tmp_path / "symbols.json.gz"
    path.write_bytes(gzip.compress(json.dumps(VALID).encode()))
    resolver = Resolver(sealed=SealedSymbols.load(path))
    assert resolver.lines.wanted
    runs = resolver.runs(own("/a"), u64(2, 1, 9))
    assert [len(resolver.lines.runs[run]) if run >= 0 else 0 for run in runs.tolist()] == [2, 1, 0]
    name, source, line = resolver.lines.runs[int(runs[0])][1]
    assert (resolver.names[name], resolver.lines.paths[source], line) == ("f", "/a.c", 7)
    SealedSymbols.load(path).save(tmp_path / "again.json.gz")
    assert SealedSymbols.load(tmp_path / "again.json.gz").lines.runs == SealedSymbols.load(path).lines.runs
    old = {key: value for key, value in VALID.items() if key != "lines"}
    path.write_bytes(gzip.compress(json.dumps(old).encode()))
    resolver = Resolver(sealed=SealedSymbols.load(path))
    assert not resolver.lines.wanted
    assert resolver.runs(own("/a"), u64(1, 2)).tolist() == [-1, -1]
    SealedSymbols.load(path).save(path)
    assert "lines" not in json.loads(gzip.decompress(path.read_bytes()))


def test_names_are_interned_once(kallsyms: Path) -> None:
    resolver = Resolver(kallsyms=kallsyms)
    resolver.kernel(u64(0xFFFFFFFF81000101, 0xFFFFFFFF81000102))
    resolver.kernel(u64(0xFFFFFFFF81000103))
    assert Counter(resolver.names) == {"do_fault": 1}
