"""Files of the agent of which the last seconds alone are kept say of these what the whole files say."""

from __future__ import annotations

import lzma
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pinprof.data.activity import ApiCallTable
from pinprof.portions.agent_files import AgentFiles
from pinprof.portions.inside_kept import InsideKept
from pinprof.read import cupti, cupti_file
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside import file as inside_file
from pinprof.read.inside.layout import CHUNK, Kind
from pinprof.read.nvtx import file as nvtx_file
from pinprof.read.nvtx import injection
from pinprof.read.nvtx.file import NvtxKind
from pinprof.read.symbols.resolver import Resolver
from tests.support import agent_file
from tests.support.agent_file import BEGUN_NS, PAGE, block, call, chunk, header, record, ticks
from tests.support.nvtx_events import Writer

DATA = Path(__file__).parents[2] / "data" / "gpu"
NOBODY = 0x7FFF_FFFF
"""No process has that number: it has ended."""


def kept(tmp_path: Path, folder: str, data: bytes) -> tuple[AgentFiles, Callable[[int], bytes], Path]:
    """A file that was looked at, what it would be from a time on, and where it is."""
    path = tmp_path / folder / "1.bin"
    path.parent.mkdir()
    path.write_bytes(data)
    shortened: dict[Path, Callable[[int], bytes]] = {}
    files = AgentFiles(tmp_path, shortened)
    files.look()
    files.look()  # which finds that nobody writes there any more
    return files, shortened[path], path


def said(*ranges: tuple[int, int, str], seed: int = 0) -> bytes:
    writer = Writer(pid=NOBODY)
    events: list[tuple[int, NvtxKind, int, str | None]] = []
    for number, (start, end, name) in enumerate(ranges):
        events += [(start, NvtxKind.START, number + 1, name), (end, NvtxKind.END, number + 1, None)]
    for time, kind, number, text in sorted(events, key=lambda each: each[0]):
        writer.say(kind, time, text, value=number, tid=random.Random(seed + time).randrange(3) + 1)
    return writer.bytes()


def ranges_of(data: bytes) -> list[tuple[object, ...]]:
    file = nvtx_file.parse(data)
    assert file is not None
    assert file.damaged == 0
    table = injection.combine([file]).ranges
    return sorted(
        zip(table.name, table.domain, table.start_ns.tolist(), table.end_ns.tolist(), table.tid.tolist(), strict=True)
    )


def pushed(seed: int, count: int = 4000) -> bytes:
    """Ranges of three threads in two domains, whose names are their own or registered ones."""
    chosen, writer = random.Random(seed), Writer(pid=NOBODY)
    writer.say(NvtxKind.DOMAIN, 1, "library", value=7, domain=7)
    writer.say(NvtxKind.STRING, 2, "registered", value=5)
    open_ones: dict[tuple[int, int], int] = {}
    for time in range(10, 10 + count):
        tid, domain = chosen.randrange(3) + 1, chosen.choice((0, 7))
        depth = open_ones.get((tid, domain), 0)
        if depth and chosen.random() < (0.02 if depth == 1 else 0.55):
            writer.say(NvtxKind.POP, time, tid=tid, domain=domain)
            open_ones[tid, domain] = depth - 1
        elif chosen.random() < 0.5:
            writer.say(NvtxKind.PUSH, time, tid=tid, domain=domain, registered=5)
            open_ones[tid, domain] = depth + 1
        else:
            writer.say(NvtxKind.PUSH, time, f"range {chosen.randrange(40)}", tid=tid, domain=domain)
            open_ones[tid, domain] = depth + 1
    return writer.bytes()


@pytest.mark.parametrize("seed", range(5))
def test_ranges_of_nvtx_that_reach_a_window_are_those_of_the_whole(tmp_path: Path, seed: int) -> None:
    data = pushed(seed)
    files, cut, _ = kept(tmp_path, "nvtx", data)
    for begin in (500, 1700, 3900):
        assert ranges_of(cut(begin)) == [one for one in ranges_of(data) if one[3] >= begin]  # type: ignore[operator]
        files.give_back(begin - 100)
    assert len(cut(3900)) < len(data) * 2


def test_a_range_of_nvtx_that_another_thread_ends_reaches_a_window(tmp_path: Path) -> None:
    data = said((100, 900, "long"), (200, 300, "gone"), (250, 5000, "open"), (4000, 4100, "late"))
    files, cut, _ = kept(tmp_path, "nvtx", data)
    files.give_back(800)
    assert [one[0] for one in ranges_of(cut(850))] == ["late", "long", "open"]
    files.give_back(3000)
    assert [one[0] for one in ranges_of(cut(3500))] == ["late", "open"]


def read_out(name: str) -> bytes:
    """A file that was recorded on an H200."""
    return lzma.decompress((DATA / f"{name}.xz").read_bytes())


def grown(data: bytes, size: int) -> bytes:
    """What the file of a process that lives was when it had so many bytes."""
    head = np.frombuffer(data, cupti_file.HEADER, 1).copy()
    head["written"], head["pid"] = size - head.itemsize, os.getpid()
    return head.tobytes() + data[head.itemsize : size]


def work_of(data: bytes, since_ns: int) -> Counter[tuple[object, ...]]:
    """Work of the GPU, faults and allocations that end after a time."""
    file = cupti_file.parse(data)
    assert file is not None
    assert file.damaged == 0
    work = cupti.combine([file], ApiCallTable.empty())
    found = Counter[tuple[object, ...]]()
    for table, name in ((work.operations, "name"), (work.faults, "count"), (work.memory, "size_bytes")):
        columns = {key: column.tolist() for key, column in vars(table).items() if isinstance(column, np.ndarray)}
        if table is work.operations:
            columns["name"] = [work.operations.names[number] if number >= 0 else "" for number in columns["name"]]
        time = columns["end_ns" if "end_ns" in columns else "time_ns"]
        found.update((name, *row) for end, *row in zip(time, *columns.values(), strict=True) if end >= since_ns)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["not_async", "managed", "not_async-traced"])
def test_work_of_the_gpu_in_windows_of_a_file_that_grows_is_that_of_the_whole(
    tmp_path: Path, name: str, seed: int
) -> None:
    data, chosen = read_out(f"{name}.bin"), random.Random(seed)
    path = tmp_path / "gpu" / "1.bin"
    path.parent.mkdir()
    shortened: dict[Path, Callable[[int], bytes]] = {}
    files = AgentFiles(tmp_path, shortened)
    size, given_back, seen = cupti_file.HEADER.itemsize, 0, 0
    while size < len(data):
        gained = data[size:][: chosen.randrange(1, len(data) // 400) * cupti_file.RECORD.itemsize]
        size += len(gained)
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(grown(data, size)[: cupti_file.HEADER.itemsize])
            file.seek(size - len(gained))
            file.write(gained)
        files.look()
        now = parsed(grown(data, size)).records["end_ns"]
        for begin in sorted(np.quantile(now, [chosen.random(), chosen.random()]).astype(int).tolist()):
            if begin >= given_back:
                wanted = work_of(grown(data, size), begin)
                assert work_of(shortened[path](begin), begin) == wanted
                seen += wanted.total()
        given_back = max(given_back, begin - chosen.randrange(10**8))
        files.give_back(given_back)
    assert seen > 500


def test_copies_in_a_window_have_the_calls_that_they_have_in_the_whole(tmp_path: Path) -> None:
    folders = {"gpu": read_out("not_async-traced.bin"), "inside": read_out("not_async-traced.inside")}
    cuts = [kept(tmp_path, folder, data)[1] for folder, data in folders.items()]
    whole = joined(*folders.values())
    assert len(whole) == 63
    ends = sorted(end for _, end in whole)
    for begin in (ends[10] - 1, ends[20], ends[40] + 1, ends[-1]):
        part = joined(*(cut(begin) for cut in cuts))
        assert part == {copy: call for copy, call in whole.items() if copy[1] >= begin}
        assert part


def joined(gpu: bytes, inside: bytes) -> dict[tuple[int, int], int]:
    """By when copies began and ended, when their calls began."""
    file, calls_file = parsed(gpu), inside_file.parse(inside)
    assert calls_file is not None
    calls = inside_calls.combine([calls_file], Resolver(recording=True)).activity.calls
    work = cupti.combine([file], calls).operations
    of = dict(zip(calls.correlation_id.tolist(), calls.start_ns.tolist(), strict=True))
    rows = zip(work.start_ns.tolist(), work.end_ns.tolist(), work.correlation_id.tolist(), strict=True)
    return {(start, end): of[call] for start, end, call in rows if call}


def parsed(data: bytes) -> cupti_file.GpuFile:
    file = cupti_file.parse(data)
    assert file is not None
    return file


def blocks_of(data: bytes) -> list[tuple[int, int]]:
    file = inside_file.parse(data)
    assert file is not None
    assert file.damaged == 0
    return list(zip(file.blocks.records["address"].tolist(), file.blocks.records["kind"].tolist(), strict=True))


def us(number: int) -> int:
    return BEGUN_NS + 1000 * number


def left(data: bytes) -> bytes:
    """A chunk into which nobody writes any more."""
    head = np.frombuffer(data[: CHUNK.itemsize], CHUNK).copy()
    head["left"] = 1
    return head.tobytes() + data[CHUNK.itemsize :]


def test_memory_that_was_given_back_is_forgotten_with_its_chunk_and_other_memory_is_not(tmp_path: Path) -> None:
    site = agent_file.site(3, "P\t5\tmade\t/p.py\n")
    early = [
        site,
        agent_file.site(4, "P\t6\tunused\t/p.py\n"),
        block(Kind.MADE, us(10), us(11), address=1 << 20, site=3),
        block(Kind.MADE, us(12), us(13), address=2 << 20, site=3),
        block(Kind.GIVEN, us(10), us(20), address=1 << 20, extra=3),
    ]
    late = [call(us(90), us(91)), block(Kind.GIVEN, us(12), us(95), address=2 << 20)]
    data = header(pid=NOBODY) + left(chunk(*early)) + chunk(*late, taking=2)
    files, cut, path = kept(tmp_path, "inside", data)
    files.give_back(us(50))
    assert path.read_bytes()[PAGE : 2 * PAGE] == bytes(PAGE), "the file system has it back"
    found = inside_file.parse(cut(us(60)))
    assert found is not None
    assert blocks_of(cut(us(60))) == [(2 << 20, Kind.MADE), (2 << 20, Kind.GIVEN)]
    assert len(found.records) == 1
    assert [site.python[0].function for site in found.sites.values()] == ["made"]
    files.give_back(us(99))
    assert not path.exists(), "its process has ended, and all of it lies before"


def test_mappings_are_kept_without_what_later_ones_cover(tmp_path: Path) -> None:
    def mapped(kind: Kind, time: int, first: int, last: int, name: str = "") -> bytes:
        text = name.encode()
        unit = record(kind, begin=ticks(us(time)), address=first, source=last, bytes=len(text), stream=0)
        return unit + text.ljust(-(-len(text) // 64) * 64, b"\0")

    events = [
        mapped(Kind.MAPPED, 1, 0x1000, 0x9000, "/all"),
        mapped(Kind.MAPPED, 2, 0x3000, 0x5000, "/in the midst"),
        mapped(Kind.UNMAPPED, 3, 0x8000, 0xA000),
        mapped(Kind.MAPPED, 4, 0x20000, 0x30000, "/gone"),
        mapped(Kind.UNMAPPED, 5, 0x10000, 0x40000),
    ]
    data = header(pid=NOBODY) + chunk(*events) + chunk(call(us(90), us(91)), taking=2)
    files, cut, _ = kept(tmp_path, "inside", data)
    files.give_back(us(50))
    file = inside_file.parse(cut(us(60)))
    assert file is not None
    assert sorted((area.start, area.end, area.path) for area in file.areas) == [
        (0x1000, 0x3000, "/all"), (0x3000, 0x5000, "/in the midst"), (0x5000, 0x8000, "/all"),
    ]  # fmt: skip


def test_what_was_lost_before_a_window_is_not_lost_in_it(tmp_path: Path) -> None:
    path = tmp_path / "inside" / "1.bin"
    path.parent.mkdir()
    parts = [chunk(call(us(10), us(11))), chunk(call(us(80), us(81)), taking=2)]
    file = InsideKept(path)
    for number, lost in ((1, 5), (2, 7)):
        path.write_bytes(header(pid=NOBODY, lost=lost) + b"".join(parts[:number]))
        file.look()
    cuts = [inside_file.parse(file.cut(us(time))) for time in (0, 50)]
    assert [cut.lost for cut in cuts if cut is not None] == [7, 2]


def test_what_a_fork_inherits_is_kept_as_long_as_it_lives(tmp_path: Path) -> None:
    for name, pid, token, parent in (("parent", NOBODY, 5, 0), ("child", os.getpid(), 6, 5)):
        writer = Writer(pid=pid, token=token, parent=parent)
        if name == "parent":
            writer.say(NvtxKind.STRING, 10, "registered", value=9)
        else:
            writer.say(NvtxKind.START, 5000, value=1, registered=9)
        (tmp_path / "nvtx").mkdir(exist_ok=True)
        (tmp_path / "nvtx" / f"{name}.bin").write_bytes(writer.bytes())
    shortened: dict[Path, Callable[[int], bytes]] = {}
    files = AgentFiles(tmp_path, shortened)
    for _ in range(3):
        files.look()
        files.give_back(1000)
    parts = [nvtx_file.parse(cut(2000)) for cut in shortened.values()]
    table = injection.combine([file for file in parts if file is not None]).ranges
    assert table.name == ("registered",)
