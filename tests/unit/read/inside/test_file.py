"""Files of the agent: who called what and when, by the processor's clock, and what is left out of damaged ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinprof.read.inside import file as inside_file
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import NOT_KNOWN, Kind
from pinprof.read.inside.texts import AgentSite, NativeFrame, PythonFrame
from tests.support import agent_file
from tests.support.agent_file import anchor, call, chunk, header, record, site, total

T = 2_000_000


def parsed(*parts: bytes) -> InsideFile:
    file = inside_file.parse(b"".join(parts))
    assert file is not None
    return file


def test_calls_have_their_thread_times_and_names() -> None:
    file = parsed(
        header(pid=9, token=5, lost=3),
        chunk(call(T, T + 500, bytes=12), tid=70),
        chunk(call(T + 100, T + 900, "cuMemAlloc"), tid=71, taking=2),
    )
    assert (file.pid, file.token, file.lost, file.damaged) == (9, 5, 3, 0)
    assert file.tid.tolist() == [70, 71]
    assert file.begin_ns.tolist() == [T, T + 100]
    assert file.took_ns.tolist() == [500, 800]
    assert [file.names[row] for row in file.records["function"]] == ["cuLaunchKernel", "cuMemAlloc"]


def test_a_threads_chunks_are_in_the_order_in_which_it_took_them() -> None:
    later, first = chunk(call(T + 9, T + 10), taking=5), chunk(call(T, T + 1), taking=2)
    assert parsed(header(), later, first).begin_ns.tolist() == [T, T + 9]


def test_a_chunk_passes_from_thread_to_thread() -> None:
    handed = record(Kind.THREAD, address=2 << 32 | 71)
    file = parsed(header(), chunk(call(T, T + 1), handed, call(T + 5, T + 6), tid=70))
    assert file.tid.tolist() == [70, 71]


def test_anchors_say_how_fast_ticks_are() -> None:
    slow = [anchor(T + 1000 * n, T + 1100 * n) for n in range(1, 9)]
    file = parsed(header(), chunk(*slow, call(T + 2000, T + 3000), call(T + 20_000, T + 21_000)))
    assert file.begin_ns.tolist() == [T + 2200, T + 22_000]
    assert file.took_ns.tolist() == [1100, 1100]
    assert file.damaged == 0


def test_anchors_that_go_back_are_not_used() -> None:
    file = parsed(header(), chunk(anchor(T, 5), anchor(T + 10, 2**63), call(T, T + 500)))
    assert (file.begin_ns.tolist(), file.took_ns.tolist()) == ([T], [500])


def test_sites_have_lines_of_python_and_places_in_files() -> None:
    text = "P\t12\tstep\t/home/a b/ünit.py\nP\t3\t<module>\tmain.py\nN\t1fc0\t/lib/libx.so\nN\t10\t\n"
    file = parsed(header(), chunk(site(4, text), call(T, T + 1, site=4)))
    assert file.sites == {
        4: AgentSite(
            (PythonFrame("step", "/home/a b/ünit.py", 12), PythonFrame("<module>", "main.py", 3)),
            (NativeFrame("/lib/libx.so", 0x1FC0), NativeFrame("", 16)),
        )
    }
    assert len(file.records) == 1


@pytest.mark.parametrize("text", ["P\tx\tf\tfile\n", "P\t1\tf\n", "N\tzz\tfile\n", "Q\t1\n", "P\t1\tf\tcut o"])
def test_lines_of_a_site_that_make_no_sense_are_left_out(text: str) -> None:
    file = parsed(header(), chunk(site(1, text)))
    assert file.sites == {1: AgentSite((), ())}


@pytest.mark.parametrize(
    "unit",
    [
        call(T + 5, T),
        call(T, T + 1, function=99),
        call(T, T + 1, bytes=2**50),
        record(Kind.CALL, T, T + 1, "cuMemAlloc")[:54] + b"M" + bytes(9),
        total(T, T + 100, 0, 10),
        total(T, T + 100, 2**41, 10),
        total(T, T + 100, 5, 1000),
        call(T, T + 1, begin=1),
    ],
)
def test_a_record_that_makes_no_sense_is_counted(unit: bytes) -> None:
    file = parsed(header(), chunk(unit, call(T, T + 1)))
    assert (len(file.records), file.damaged) == (1, 1)


def test_only_counted_units_are_read() -> None:
    file = parsed(header(), chunk(call(T, T + 1), call(T + 2, T + 3), counted=2))
    assert len(file.records) == 1


def test_a_chunk_that_says_too_much_is_read_to_its_end() -> None:
    file = parsed(header(), chunk(call(T, T + 1), counted=100_000))
    assert (len(file.records), file.damaged > 0) == (1, True)


def test_pages_that_are_no_chunk_are_counted_unless_they_are_empty() -> None:
    file = parsed(header(), bytes(4096), chunk(call(T, T + 1)), b"x" * 4096)
    assert (len(file.records), file.damaged) == (1, 1)


@pytest.mark.parametrize("data", [b"", b"PINPCALL", b"x" * 5000, header(version=2)])
def test_other_files_are_none(data: bytes, tmp_path: Path) -> None:
    assert inside_file.parse(data) is None
    (tmp_path / "1-1.bin").write_bytes(data)
    assert inside_file.load(tmp_path / "1-1.bin") is None


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    (tmp_path / "7-1.bin").write_bytes(header() + chunk(call(T, T + 1)))
    file = inside_file.load(tmp_path / "7-1.bin")
    assert file is not None
    assert file.begin_ns.tolist() == [T]
    assert file.tid.tolist() == [agent_file.TID]
    assert np.all(file.records["bytes"] == NOT_KNOWN)
