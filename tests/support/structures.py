"""Random programs of parts whose truth is known, as detectors see them, and the claims about them that are false.

Each part has a function of its own and does one thing once or in each turn, beside the others: it uses memory, forks,
waits, calls CUDA, passes data. Its truth is the cures that may be claimed of it, after how many turns; all other claims
of its place are false: in an opportunity, among what to measure, and among what is not worth changing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pinprof.analyze.blame.results import BlameResult, BlameRow, Holder, HolderKind, WaitingThread
from pinprof.analyze.blame.table import blame_of
from pinprof.analyze.blame.waits import HolderCertainty
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.opportunities.search import search
from pinprof.analyze.sites import Site
from pinprof.data.activity import Caller, MemoryKind
from tests.support.scenes import (
    COPIED,
    CREATED,
    FREE,
    HUGE,
    MAPPED,
    MIB,
    MOVED,
    MS,
    PINNED,
    SMALL,
    UVM,
    Traced,
    prices,
    ran,
    recorded,
    scene,
    to_gpu,
    to_host,
    waited,
)
from tests.support.stacks import Sample

CALL = ("entry_SYSCALL_64_after_hwframe", "do_syscall_64")
FAULTS = SMALL[1:-2]
WRITES = COPIED[1:-3]
PROTECTS = ("mprotect@/libc.so.6", "__x64_sys_mprotect", "do_mprotect_pkey", "change_protection")
FORKS = ("fork@/libc.so.6", "__x64_sys_clone", "kernel_clone", "copy_process", "dup_mmap", "copy_page_range")
DISK = ("folio_wait_bit_common", "io_schedule", "schedule")
READ = (*FAULTS, "do_fault", "__do_fault", "filemap_fault")
SLOWPATH = (*SMALL[1:-1], "vma_alloc_folio_noprof", "__alloc_pages_slowpath.constprop.0")
FREEING = ("do_try_to_free_pages", "shrink_node", "shrink_lruvec", "shrink_folio_list")
LIMITED = (
    *SMALL[1:-1],
    "__mem_cgroup_charge",
    "try_charge_memcg",
    "try_to_free_mem_cgroup_pages",
    *FREEING,
)
COMPACTS = (*SLOWPATH, "__alloc_pages_direct_compact", "try_to_compact_pages", "compact_zone_order", "compact_zone")
PYTHON = "/usr/lib/python3.12/multiprocessing"
DRIVER_LOCK = ("cuMemcpyHtoD@/usr/lib/libcuda.so.1", "__x64_sys_ioctl", "rm_ioctl[nvidia]", "down_read", "schedule")
FUTEX = ("pthread_mutex_lock@/usr/lib/libc.so.6", "__x64_sys_futex", "do_futex", "futex_wait", "schedule")
LISTENER = ("__x64_sys_ioctl", "uvm_ioctl[nvidia_uvm]", "uvm_tools_record_event[nvidia_uvm]", "schedule")
POOL = (*(f"{name}@{PYTHON}/connection.py" for name in ("Connection.recv (connection.py:250)",)),)
IO_URING = (*CALL, "__io_uring_register", "io_sqe_buffers_register", "io_sqe_buffer_register", "io_pin_pages")
CUPY = "asarray (from_data.py:90)@/venv/lib/python3.12/site-packages/cupy/_creation/from_data.py"
ANYTHING_PINNED = ("pin-less", "touch-then-register")
OTHER_PID = 4711
COPIES_PINNED, COPIES_BESIDE = "copies pinned memory", "copies pinned memory beside waits"
WRITES_CLEAN, WRITES_BACK = "writes clean pages", "writes a file back"
COW, COW_OF_CHILD = "copies on write", "copies on write beside a child"


@dataclass
class Turn:
    """What a part does in one turn: its samples and calls, as if the turn began at 0 ms."""

    samples: list[Sample] = field(default_factory=list)
    calls: list[Traced] = field(default_factory=list)
    length: int = 0
    driver: str = ""
    """Another process that ends its waits in the driver."""

    def runs(self, duration: int, *stack: str, tid: int = 100) -> Turn:
        """The thread runs for so many milliseconds."""
        self.samples += ran(self.length, self.length + duration, stack, tid=tid)
        return self._after(duration, tid)

    def waits(self, duration: int, *stack: str) -> Turn:
        """The thread waits."""
        self.samples += waited(self.length, self.length + duration, stack)
        return self._after(duration, 100)

    def beside(self, duration: int, *stack: str) -> Turn:
        """Another thread ran in the last milliseconds."""
        self.samples += ran(self.length - duration, self.length, stack, tid=101)
        return self

    def calling(self, call: Traced) -> Turn:
        """A call, whose times are those since the last milliseconds began that it lies in."""
        self.calls.append(call)
        return self

    def _after(self, duration: int, tid: int) -> Turn:
        self.length += duration if tid == 100 else 0
        return self


@dataclass(frozen=True)
class Part:
    """One place of a program."""

    does: Callable[[random.Random, str, int], Turn]
    """By its function's frame and its number."""
    true: tuple[str, ...] = ()
    """The cures that may be claimed of it."""
    least: int = 1
    """In this number of turns or more."""
    once: bool = False
    waits: bool = False
    """For the GPU, beside its own copies."""


def _kernel(*stack: str, least: int = 8, most: int = 30) -> Callable[[random.Random, str, int], Turn]:
    return lambda draw, at, _: Turn().runs(draw.randint(least, most), at, *stack)


def _again(made: Sequence[str], freed: Sequence[str] = FREE[1:]) -> Callable[[random.Random, str, int], Turn]:
    def does(draw: random.Random, at: str, _: int) -> Turn:
        length = draw.randint(8, 30)
        return Turn().runs(length, at, *made).runs(max(length // 4, 2), at, *freed)

    return does


def _disk(*stack: str) -> Callable[[random.Random, str, int], Turn]:
    return lambda draw, at, _: Turn().waits(draw.randint(3, 12), at, *stack, *DISK).runs(1, at, *stack)


def _pair(opens: str, closes: str, size: int = 4 * MIB) -> Callable[[random.Random, str, int], Turn]:
    def does(draw: random.Random, at: str, number: int) -> Turn:
        takes, place = draw.randint(2, 8), (number + 1) << 40
        turn = Turn().runs(takes + 1, at, *PINNED[1:])
        turn.calling(Traced(opens, 0, takes, size, number, address=place))
        return turn.calling(Traced(closes, takes, takes + 1, -1, number, address=place)) if closes else turn

    return does


def _copies(
    count: int, size: int, kind: MemoryKind, *, back: bool = False, fixed: float = 0.02, file: bool = False
) -> Callable[[random.Random, str, int], Turn]:
    """Each takes its price and something more."""
    rest = 0.001

    def does(_: random.Random, at: str, number: int) -> Turn:
        each = fixed + (0.02 if kind == MemoryKind.PINNED else 0.1) * size / MIB
        turn = Turn().runs(int(count * (each + rest)) + 1, at)
        for index in range(count):
            begin = index * (each + rest)
            copy = (to_host if back else to_gpu)(begin, begin + each, size, kind)
            turn.calling(replace(copy, site=number, address=(number + 1) << 40, from_file=file))
        return turn

    return does


def _pieces(host: int) -> Callable[[random.Random, str, int], Turn]:
    """Ten pieces go to the GPU, are worked on, and come back; the thread then works for `host` ms."""

    def does(_: random.Random, at: str, number: int) -> Turn:
        size, length = 64 * MIB, 4 + host
        turn = Turn().runs(10 * length, at)
        for index in range(10):
            begin, place = float(index * length), (number + 1) << 40 | index << 30
            turn.calling(to_gpu(begin, begin + 1.28, size, MemoryKind.PINNED, site=number, address=place))
            turn.calling(Traced("cuCtxSynchronize", begin + 1.29, begin + 2.6, site=number))
            turn.calling(to_host(begin + 2.61, begin + 3.98, size, MemoryKind.PINNED, site=number, address=place))
        return turn

    return does


def _round_trip(spare: float) -> Callable[[random.Random, str, int], Turn]:
    def does(_: random.Random, at: str, number: int) -> Turn:
        place, size = (number + 1) << 40, 64 * MIB
        turn = Turn().runs(6 + int(spare), at)
        down = to_host(0.1, 1.4, size, MemoryKind.PINNED, site=number, address=place)
        up = to_gpu(1.41 + spare, 2.7 + spare, size, MemoryKind.PINNED, site=number, address=place)
        return turn.calling(down).calling(up).calling(Traced("cuCtxSynchronize", 2.71 + spare, 4 + spare, site=number))

    return does


def _pins_beside(*stack: str) -> Callable[[random.Random, str, int], Turn]:
    """Another thread pins at this place for long, while the critical thread waits here or there."""

    def does(_: random.Random, at: str, number: int) -> Turn:
        turn = Turn().waits(60, at, *stack).beside(60, at, *CREATED[1:])
        return turn.calling(Traced("cudaMallocHost", 0, 60, 1 << 30, number, tid=101, address=(number + 1) << 40))

    return does


def _in_driver(driver: str, *stack: str) -> Callable[[random.Random, str, int], Turn]:
    def does(_: random.Random, at: str, __: int) -> Turn:
        turn = Turn(driver=driver)
        return turn.waits(40, at, *stack)

    return does


PARTS: dict[str, Part] = {
    "computes": Part(_kernel()),
    "waits for a lock": Part(lambda draw, at, _: Turn().waits(draw.randint(5, 30), at, *FUTEX)),
    "fills once": Part(_kernel(*SMALL[1:], least=30, most=90), ("huge-pages",), once=True),
    "fills huge pages once": Part(_kernel(*HUGE[1:], least=30, most=90), once=True),
    "fills again": Part(_again(SMALL[1:]), ("reuse-memory", "huge-pages"), 1),
    "fills huge pages again": Part(_again(HUGE[1:]), ("reuse-memory",), 2),
    "fills zeros again": Part(
        _again((*WRITES, "vma_alloc_folio_noprof", "clear_page_erms")), ("reuse-memory", "huge-pages")
    ),
    "fills shared memory again": Part(
        _again(
            (*MAPPED[1:-1], "shmem_fault", "shmem_get_folio_gfp", "clear_page_erms"),
            ("__x64_sys_munmap", "task_work_run", "__fput", "evict", "shmem_evict_inode", "shmem_undo_range"),
        ),
        ("reuse-shared-memory", "map-at-once"),
    ),
    "frees what was made before": Part(_kernel(*FREE[1:], least=2, most=6)),
    "drops lazily": Part(
        _kernel("madvise@/libc.so.6", "__x64_sys_madvise", "do_madvise", "madvise_free_single_vma"), ("keep-pages",)
    ),
    "protects": Part(_kernel(*PROTECTS), ("protect-less",)),
    "takes signals": Part(
        lambda draw, at, _: (
            Turn()
            .runs(6, at, "asm_exc_page_fault", "exc_page_fault", "bad_area_access_error", "force_sig_fault")
            .runs(8, at, "__restore_rt@/libc.so.6", "handler@/libc.so.6", *PROTECTS)
        ),
        ("track-writes",),
    ),
    "forks": Part(_kernel(*FORKS), ("spawn",)),
    "forks with pinned pages": Part(
        lambda draw, at, _: Turn().runs(9, at, *FORKS).runs(6, at, *FORKS, "copy_mc_enhanced_fast_string"),
        ("dont-fork",),
    ),
    "reads a mapped file": Part(_kernel(*MAPPED[1:]), ("map-at-once",)),
    "writes a private file": Part(
        lambda draw, at, _: (
            Turn().runs(7, at, *READ).runs(9, at, *FAULTS, "do_fault", "do_cow_fault", "copy_mc_fragile")
        ),
        ("read-file",),
    ),
    COW: Part(_kernel(*COPIED[1:]), ("record-mappings",)),
    COW_OF_CHILD: Part(_kernel(*COPIED[1:]), ("spawn", "record-mappings")),
    WRITES_CLEAN: Part(_kernel(*WRITES, "do_page_mkwrite", "ext4_page_mkwrite")),
    WRITES_BACK: Part(
        lambda draw, at, _: (
            Turn()
            .runs(12, at, *WRITES, "do_page_mkwrite", "ext4_page_mkwrite")
            .runs(3, at, "msync@/libc.so.6", "__x64_sys_msync", "ext4_sync_file", "file_write_and_wait_range")
        ),
        ("sync-file-less",),
    ),
    "at a limit": Part(_kernel(*LIMITED), ("memory-limit",)),
    "without free memory": Part(_kernel(*SLOWPATH, "try_to_free_pages", *FREEING), ("memory-limit",)),
    "compacts": Part(_kernel(*COMPACTS), ("defer-compaction",)),
    "compacts hardly": Part(_kernel(*COMPACTS, least=4, most=4), once=True),
    "is balanced": Part(_kernel(*FAULTS, "do_numa_page", "numa_migrate_check"), ("bind-memory",)),
    "touches a cold file": Part(_disk(*READ, "filemap_read_folio"), ("read-ahead", "map-at-once")),
    "reads a cold file": Part(_disk(*CALL, "ksys_read", "vfs_read", "filemap_read"), ("read-ahead",)),
    "reads a warm file": Part(_kernel(*CALL, "ksys_read", "vfs_read", "filemap_read", "_copy_to_iter")),
    "writes to the disk": Part(_disk(*CALL, "ksys_write", "vfs_write", "balance_dirty_pages")),
    "gets pickles": Part(
        lambda draw, at, _: (
            Turn()
            .runs(6, at, *POOL, "read@/libc.so.6", "ksys_read", "vfs_read", "anon_pipe_read", "_copy_to_iter")
            .runs(8, at, *POOL, "_pickle_loads@/usr/bin/python3.12")
        ),
        ("share-memory",),
    ),
    "gets names": Part(_kernel(*POOL, "_pickle_loads@/usr/bin/python3.12")),
    "uses a pipe": Part(_kernel("read@/libc.so.6", "ksys_read", "vfs_read", "anon_pipe_read", "_copy_to_iter")),
    "is staged by a library": Part(_kernel(CUPY, "__memmove_avx_unaligned@/libc.so.6"), ("pinned-buffer",)),
    "fetches managed memory": Part(_kernel(*MOVED[1:]), ("prefetch",)),
    "fills managed memory": Part(_kernel(*UVM[1:])),
    "pins and frees": Part(_pair("cudaMallocHost", "cudaFreeHost"), ("pool-pinned",), 3),
    "pins": Part(_pair("cudaMallocHost", "")),
    "pins without CUDA": Part(_kernel(*IO_URING, "pin_user_pages", "__get_user_pages")),
    "pins and makes pages without CUDA": Part(
        _kernel(*IO_URING, "pin_user_pages", "__get_user_pages", "handle_mm_fault", "do_anonymous_page"),
        ("touch-then-register", "pool-pinned"),
    ),
    "registers and unregisters": Part(_pair("cudaHostRegister", "cudaHostUnregister"), ("register-once",), 3),
    "allocates and frees device memory": Part(_pair("cudaMalloc", "cudaFree"), ("pool-device",), 3),
    "allocates device memory": Part(_pair("cudaMalloc", "")),
    "allocates and frees managed memory": Part(_pair("cudaMallocManaged", "cudaFree"), ("pool-managed",), 3),
    "copies pageable memory": Part(_copies(2, 64 * MIB, MemoryKind.PAGEABLE), ("pin-source", "pinned-buffer")),
    "copies into pageable memory": Part(_copies(2, 64 * MIB, MemoryKind.PAGEABLE, back=True), ("pinned-buffer",)),
    COPIES_PINNED: Part(_copies(2, 16 * MIB, MemoryKind.PINNED)),
    COPIES_BESIDE: Part(_copies(2, 16 * MIB, MemoryKind.PINNED), ("use-streams",)),
    "copies tiny pieces": Part(_copies(1100, 8 << 10, MemoryKind.PINNED), ("batch-copies",), once=True),
    "copies few tiny pieces": Part(_copies(900, 8 << 10, MemoryKind.PINNED), once=True),
    "reads values": Part(_copies(250, 4, MemoryKind.PINNED, back=True, fixed=0.3), ("sync-less",), once=True),
    "reads few values": Part(_copies(150, 4, MemoryKind.PINNED, back=True, fixed=0.3), once=True),
    "copies a mapped file": Part(_copies(2, 64 * MIB, MemoryKind.PAGEABLE, file=True), ("map-at-once",)),
    "works on independent pieces": Part(_pieces(host=0), ("use-streams",), waits=True),
    "works on pieces that it reads": Part(_pieces(host=6), waits=True),
    "sends back at once": Part(_round_trip(0.01), ("keep-resident",), 3, waits=True),
    "sends back what it may have changed": Part(_round_trip(5), waits=True),
    "pins while another waits for the driver": Part(
        _pins_beside(*DRIVER_LOCK), ("pin-in-pieces", *ANYTHING_PINNED), once=True
    ),
    "pins while another waits for a lock": Part(_pins_beside(*FUTEX), ANYTHING_PINNED, once=True),
    "waits for another process": Part(_in_driver("server", *DRIVER_LOCK), ("other-process",), once=True),
    "waits for the recorder": Part(_in_driver("pinprof-uvm", *DRIVER_LOCK), once=True),
    "waits for the recorder's listener": Part(_in_driver("server", *LISTENER), once=True),
}
"""By what each does."""

CURES = frozenset(cure for part in PARTS.values() for cure in part.true)


@dataclass(frozen=True)
class Claim:
    """What is said of a place, and what that place does."""

    does: str
    """Empty where the place is none of the program's."""
    turns: int
    cure: str
    title: str

    @property
    def false(self) -> bool:
        """Whether the place's truth does not have it."""
        part = PARTS.get(self.does)
        return part is None or self.cure not in part.true or self.turns < part.least


def claims(seed: int) -> list[Claim]:
    """What is said of the program of this seed."""
    draw = random.Random(seed)
    return _claimed(draw, draw.choices(sorted(PARTS), k=draw.randint(1, 5)), draw.randint(1, 8), draw.randint(0, 25))


def alone(does: str) -> list[Claim]:
    """What is said of a program that does one thing, eight times."""
    return _claimed(random.Random(0), [does], 8, 5)


def _claimed(draw: random.Random, chosen: list[str], turns: int, other: int) -> list[Claim]:
    if COW_OF_CHILD in chosen:
        # Nothing tells whose pages are copied where a child shares all of them.
        chosen = [COW_OF_CHILD if name == COW else name for name in chosen]
    if any(PARTS[name].waits for name in chosen):
        # Its copies can overlap with what another part waits for.
        chosen = [COPIES_BESIDE if name == COPIES_PINNED else name for name in chosen]
    if WRITES_BACK in chosen:
        # Nor whose file is written back between two writes.
        chosen = [WRITES_BACK if name == WRITES_CLEAN else name for name in chosen]
    found = search(_scene(draw, chosen, turns, other))
    said = [(one.site, one.title, one.cure.id) for one in (*found.found, *found.to_measure)]
    said += [(one.site, one.title, one.reason.partition("the cure (")[2].partition(")")[0]) for one in found.refused]
    return [Claim(_does(chosen, site), _turns(chosen, site, turns), cure, title) for site, title, cure in said]


def _number(site: Site) -> int:
    place = site.function or site.place
    return int(place.removeprefix("part")) if place.startswith("part") else -1


def _does(chosen: Sequence[str], site: Site) -> str:
    number = _number(site)
    return chosen[number] if 0 <= number < len(chosen) else ""


def _turns(chosen: Sequence[str], site: Site, turns: int) -> int:
    does = _does(chosen, site)
    return 1 if does and PARTS[does].once else turns


def _scene(draw: random.Random, chosen: Sequence[str], turns: int, other: int) -> Scene:
    samples: list[Sample] = []
    calls: list[Traced] = []
    drivers: list[tuple[int, str, int]] = []
    now = 0
    when = [draw.randrange(turns) for _ in chosen]
    for turn in range(turns):
        for number, name in enumerate(chosen):
            if PARTS[name].once and turn != when[number]:
                continue
            done = PARTS[name].does(draw, f"part{number} (app.py:{number + 1})@/app/app.py", number)
            samples += [replace(one, time_ns=one.time_ns + now * MS) for one in done.samples]
            calls += [replace(one, start=one.start + now, end=one.end + now) for one in done.calls]
            drivers += [(now, done.driver, number)] if done.driver else []
            now += done.length
            samples += ran(now, now + other, ("main@/app",))
            now += other
    samples += ran(now, now + 20, ("main@/app",))
    samples += [one for _, name, _ in drivers for one in ran(now, now + 1, _holding(name), OTHER_PID, OTHER_PID)]
    if COW_OF_CHILD in chosen:
        samples += ran(now + 1, now + 4, ("child@/app",), 200, 200)
    sites = tuple(Caller(f"part{number}", "app.py", number + 1, "/app/app.py") for number in range(len(chosen)))
    threads = {(100, 100): "app"} | ({(OTHER_PID, OTHER_PID): "server"} if drivers else {})
    threads |= {(200, 200): "app"} if COW_OF_CHILD in chosen else {}
    made = recorded(sorted(samples, key=lambda one: one.time_ns), calls, sites=sites, threads=threads)
    if drivers:
        everything = ({"name": "native", "options": {"system_wide": True}},)
        made = replace(made, manifest=replace(made.manifest, collectors=everything))
    shown = scene(made, _BOOK)
    blame = _blame(shown, drivers) if drivers else blame_of(shown.capture, shown.attribution, shown.sites)
    return replace(shown, blame=blame)


_BOOK = prices(touch_huge=25_000)


def _holding(name: str) -> tuple[str, ...]:
    return ("down_write", "pin_user_pages", "os_lock_user_pages") if name == "server" else ("down_write",)


def _blame(shown: Scene, drivers: Sequence[tuple[int, str, int]]) -> BlameResult:
    """Who ended the waits in the driver."""
    rows = []
    samples = shown.capture.samples
    node = int(samples.stack[samples.pid == OTHER_PID][0])
    waits = {
        (shown.waiting_site(np.array([row])), wait)
        for wait in ("wait.driver", "wait.uvm")
        for row in np.flatnonzero(shown.caused_by(wait)).tolist()
    }
    for _, name, number in drivers:
        holder = Holder(HolderKind.PROCESS, OTHER_PID, OTHER_PID, name, Site("", "", 0, name), {}, node)
        rows += [
            BlameRow(
                WaitingThread(100, 100, "main", site), wait, holder, {HolderCertainty.WAKER: 40 * MS}, 40 * MS, 1,
                40 * MS, 10 * MS,
            )
            for site, wait in waits
            if site.function == f"part{number}"
        ]  # fmt: skip
    return BlameResult(tuple(rows), 40 * MS, 0, 0, 0, True, 1.0, (), 0)
