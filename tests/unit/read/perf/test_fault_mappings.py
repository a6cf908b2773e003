"""What lies at the address of a page fault, by perf's records, printed ones, and lists of what was mapped."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinprof import read
from pinprof.data import perf_format as perf
from pinprof.data.mapped import Mapped, mapped_as
from pinprof.data.memory_log import MappingTable
from pinprof.data.model import SampleTable
from pinprof.read.listed_mappings import with_mappings
from pinprof.read.perf.script import read_perf_script
from tests.support.perf_file import (
    BASIC,
    USER_IP,
    Features,
    Spec,
    comm,
    file_mode,
    fork,
    mmap2,
    record,
    sample,
    trailer,
)

UNKNOWN, ANONYMOUS, PRIVATE = Mapped.UNKNOWN, Mapped.ANONYMOUS, Mapped.PRIVATE_FILE
DATA = perf.MISC_USER | perf.MISC_MMAP_DATA
FAULTS = Spec(type=1, config=2, period=1, sample_type=BASIC | perf.SAMPLE_ADDR, ids=())


@pytest.mark.parametrize(
    ("path", "private", "shared"),
    [
        ("/data/big", PRIVATE, Mapped.SHARED_FILE),
        ("/data/big (deleted)", PRIVATE, Mapped.SHARED_FILE),
        ("", ANONYMOUS, Mapped.SHARED_MEMORY),
        ("//anon", ANONYMOUS, Mapped.SHARED_MEMORY),
        ("[heap]", Mapped.HEAP, Mapped.SHARED_MEMORY),
        ("[stack]", Mapped.STACK, Mapped.SHARED_MEMORY),
        ("[anon: glibc: malloc]", ANONYMOUS, ANONYMOUS),
        ("/dev/zero (deleted)", ANONYMOUS, Mapped.SHARED_MEMORY),
        ("/dev/shm/segment", PRIVATE, Mapped.SHARED_MEMORY),
        ("/memfd:pool (deleted)", PRIVATE, Mapped.SHARED_MEMORY),
        ("/anon_hugepage (deleted)", Mapped.HUGE, Mapped.SHARED_MEMORY),
        ("/dev/nvidiactl", Mapped.DEVICE, Mapped.DEVICE),
        ("/bin/app", Mapped.PROGRAM, Mapped.SHARED_FILE),
        ("/usr/lib/libtorch_cpu.so.2.1 (deleted)", Mapped.PROGRAM, Mapped.SHARED_FILE),
        ("/data/notes.so.txt", PRIVATE, Mapped.SHARED_FILE),
        ("[vdso]", UNKNOWN, UNKNOWN),
        ("//toolong", UNKNOWN, UNKNOWN),
    ],
)
def test_the_name_of_a_mapping_says_what_it_is(path: str, private: Mapped, shared: Mapped) -> None:
    assert (mapped_as(path, shared=False), mapped_as(path, shared=True)) == (private, shared)


def faulted(tmp_path: Path, *records: bytes) -> list[int] | None:
    path = tmp_path / "a.perf.data"
    begin = comm(FAULTS, "app", exec_=True), mmap2(FAULTS, 0x400000, 0x10000, "/bin/app")
    features = Features().command("app").kernel("6.1.0")
    path.write_bytes(file_mode([FAULTS], b"".join((*begin, *records)), features))
    mapped = read.read(path).samples.mapped
    return None if mapped is None else mapped.tolist()


def fault(time: int, address: int, pid: int = 7) -> bytes:
    return sample(FAULTS, (USER_IP,), time=time, pid=pid, tid=pid, addr=address)


def data(start: int, path: str, time: int) -> bytes:
    return mmap2(FAULTS, start, 0x10000, path, time=time, protection=3, misc=DATA)


def test_the_last_mapping_recorded_at_an_address_is_what_a_fault_is_of(tmp_path: Path) -> None:
    found = faulted(
        tmp_path,
        data(0x700000, "/data/big", 10), fault(20, 0x700010), fault(21, 0x710010),
        data(0x700000, "//anon", 30), fault(40, 0x700010), fault(41, 0x400010),
    )  # fmt: skip
    assert found == [PRIVATE, UNKNOWN, ANONYMOUS, Mapped.PROGRAM]


def test_a_child_begins_with_what_its_parent_has_mapped_and_a_new_program_with_nothing(tmp_path: Path) -> None:
    found = faulted(
        tmp_path,
        data(0x700000, "/data/big", 10), fork(FAULTS, 8, 7, time=20), fault(30, 0x700010, pid=8),
        comm(FAULTS, "other", exec_=True, pid=8, tid=8, time=40), fault(50, 0x700010, pid=8),
    )  # fmt: skip
    assert found == [PRIVATE, UNKNOWN]


def test_without_mappings_of_data_nothing_is_known(tmp_path: Path) -> None:
    assert faulted(tmp_path, fault(20, 0x700010), fault(21, 0x400010)) is None


def test_where_records_were_lost_nothing_is_known(tmp_path: Path) -> None:
    lost = record(perf.RECORD_LOST, bytes(8) + (5).to_bytes(8, "little") + trailer(FAULTS, time=25))
    found = faulted(tmp_path, data(0x700000, "/data/big", 10), fault(20, 0x700010), lost)
    assert found is None


PRINTED = """\
app 7 1.000000: PERF_RECORD_MMAP2 7/7: [0x700000(0x10000) @ 0 fe:00 43 20]: {access} {path}
app     7/7     [000]     1.100000:          1 page-faults:           700010
\t           2a308 main+0x8 (/bin/app)

app 7 1.200000: PERF_RECORD_COMM exec: other:7/7
other     7/7     [000]     1.300000:          1 page-faults:           700010
\t           2a308 main+0x8 (/bin/other)

"""


@pytest.mark.parametrize(
    ("access", "path", "found"),
    [
        ("rw-p", "/data/big", [PRIVATE, UNKNOWN]),
        ("rw-s", "/data/big", [Mapped.SHARED_FILE, UNKNOWN]),
        ("r-xp", "/bin/app", None),
    ],
    ids=["private", "shared", "code alone"],
)
def test_printed_records_of_mappings_say_the_same(access: str, path: str, found: list[int] | None) -> None:
    text = PRINTED.format(access=access, path=path)
    mapped = read_perf_script(text.splitlines(), "text").samples.mapped
    assert (None if mapped is None else mapped.tolist()) == found


def test_lists_before_and_after_a_fault_must_agree() -> None:
    lists = MappingTable.of(
        4,
        time_ns=(10, 20, 20, 30),
        pid=7,
        start=(0x1000, 0x1000, 0x9000, 0x1000),
        end=(0x5000, 0x3000, 0xA000, 0x3000),
        kind=(PRIVATE, PRIVATE, ANONYMOUS, ANONYMOUS),
    )
    faults = [(5, 0x1000), (12, 0x1000), (13, 0x4000), (14, 0x9000), (25, 0x1000), (35, 0x1000), (36, 0x9000)]
    times, addresses = zip(*faults, strict=True)
    samples = SampleTable.of(8, time_ns=(*times, 37), pid=(*[7] * 7, 8), address=(*addresses, 0x1000))
    mapped = with_mappings(samples, lists).mapped
    assert mapped is not None
    known = dict(zip([*times, 37], mapped.tolist(), strict=True))
    assert known == {5: UNKNOWN, 12: PRIVATE, 13: UNKNOWN, 14: UNKNOWN, 25: UNKNOWN, 35: ANONYMOUS, 36: UNKNOWN, 37: 0}
    assert with_mappings(samples, MappingTable.empty()).mapped is None
