"""What is measured: a row of `TRIALS` for each measure of `rates.MEASURES`.

A trial prepares its memory and returns a timer, the `time_func` of pyperf: seconds that these calls took. Only the
named operation is timed. What must not find warm memory (allocating, touching, pinning, migrating) gets new memory in
every call, made and dropped outside the clock; copies and kernels repeat on memory that stays. Where data moves, the
first call of a process compares every element with what it must be.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TypeVar, cast

from pinprof.base.errors import ScenarioError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.bench.files import copied_on_write, map_touched, read_whole
from pinprof.bench.refills import Refill
from pinprof.bench.timers import ALONE, Clock, Timer, free, fresh, making, repeated
from pinprof.data.rates import prefault_threads
from pinprof.scenario import Backend, DeviceMemory, Gpu, HostMemory, MemoryKind, Place, Stream, StreamEvent

SAME = "the same"
"""`Trial.emulation` of what needs no GPU in the first place."""
HUGE_PAGE_BYTES = 2 << 20
RING_SLOTS, RING_SLOT_BYTES = 4, 4 << 20
"""The ring of `h2d.staged`, that of the scenario `staged`."""
SMALL_BYTES = 4096
"""The copies of `h2d.small`."""

_Memory = TypeVar("_Memory", bound=DeviceMemory)


@dataclass(frozen=True)
class TrialSite:
    """Where a trial takes place."""

    backend: Backend
    size_bytes: int
    threads: int
    """Those of `prefault.tN`, 1 for all others."""
    value: float
    """What memory is filled with; another one in every trial, so that nothing stale passes for a result."""

    @property
    def gpu(self) -> Gpu:
        """The backend of a measure that has no emulation."""
        return cast("Gpu", self.backend)

    def touched(self, memory: HostMemory) -> HostMemory:
        """The memory with all its pages."""
        self.backend.touch(memory, self.threads)
        return memory

    def resident(self, memory: HostMemory) -> HostMemory:
        """The memory with all its pages, filled."""
        memory.fill(self.value)
        return memory

    def expect(self, memory: HostMemory, value: float) -> None:
        """ScenarioError unless every element has that value."""
        wrong = memory.mismatch(value)
        if wrong is not None:
            problem = f"A measured operation returned a wrong result: element {wrong[0]} is {wrong[1]}, not {value}."
            remedy = "The times are not valid. Check the memory and the GPU of this machine, and report the problem."
            raise ScenarioError(problem, remedy, "wrong-result")

    def expect_on_device(self, device: DeviceMemory, value: float) -> None:
        """The same for memory of the device, copied back."""
        back = self.backend.pageable(device.size_bytes)
        # Memory of malloc may hold the value from before.
        back.fill(value + 1)
        self.backend.copy_to_host(back, device)
        self.expect(back, value)
        back.free()


@dataclass(frozen=True)
class Trial:
    """How one measure is taken."""

    prepare: Callable[[TrialSite], Timer]
    memory: tuple[MemoryKind, ...]
    """Kinds of memory of its size that are alive at the same time, those of the check included."""
    emulation: str | None = SAME
    """What the host backend does; None where only a GPU can do it."""
    smallest_bytes: int = 1
    one_size: bool = False
    """No memory takes part, or always as much: it is taken once, as of size 0."""


def trial_of(measure: str) -> tuple[Trial, int]:
    """The trial of a measure and its number of threads."""
    if threads := prefault_threads(measure):
        return TRIALS["prefault.tN"], threads
    return TRIALS[measure], 1


def names() -> tuple[str, ...]:
    """Every measure of this machine: `prefault` by 1, 2, 4, … threads, and by as many as there are CPUs."""
    cores = len(os.sched_getaffinity(0))
    threads = sorted({*(1 << power for power in range(cores.bit_length())), cores})
    prefaults = [f"prefault.t{count}" for count in threads]
    return tuple(measure for name in TRIALS for measure in (prefaults if name == "prefault.tN" else [name]))


def _freed(make: Callable[[], HostMemory], clock: Clock = perf_counter) -> Timer:
    """A timer of what drops memory."""
    return fresh(make, free, lambda _: None, clock=clock)


def _seen(memory: HostMemory) -> HostMemory:
    """The memory with its numpy array, which is made when first asked for and would be timed otherwise."""
    getattr(memory, "array", None)
    return memory


def _touched(site: TrialSite, make: Callable[[], HostMemory], clock: Clock = perf_counter) -> Timer:
    return fresh(lambda: _seen(make()), lambda memory: site.backend.touch(memory, 1), free, clock=clock)


def _pageable(site: TrialSite, *, touched: bool) -> HostMemory:
    memory = _seen(site.backend.pageable(site.size_bytes))
    return site.touched(memory) if touched else memory


def _unpin(site: TrialSite, memory: HostMemory) -> None:
    site.backend.unregister(memory)
    memory.free()


def _registered(site: TrialSite, *, touched: bool) -> Timer:
    return fresh(lambda: _pageable(site, touched=touched), site.backend.register, lambda memory: _unpin(site, memory))


def _free_unregister(site: TrialSite) -> Timer:
    def make() -> HostMemory:
        memory = _pageable(site, touched=True)
        site.backend.register(memory)
        return memory

    return fresh(make, site.backend.unregister, free)


def _free_munmap(site: TrialSite) -> Timer:
    return _freed(lambda: site.touched(site.backend.pages(site.size_bytes, huge=False)), ALONE)


def _prefault(site: TrialSite) -> Timer:
    def make() -> HostMemory:
        memory = site.touched(site.backend.pages(site.size_bytes, huge=True))
        site.backend.register(memory)
        return memory

    return making(make, lambda memory: _unpin(site, memory))


def _to_device(site: TrialSite, memory: HostMemory) -> Timer:
    source, device = site.resident(memory), site.backend.device(site.size_bytes)
    return repeated(
        lambda: site.backend.copy_to_device(device, source), lambda _: site.expect_on_device(device, site.value)
    )


def _h2d_staged(site: TrialSite) -> Timer:
    source, device = site.resident(site.backend.pageable(site.size_bytes)), site.backend.device(site.size_bytes)
    ring = site.backend.pinned(min(RING_SLOTS * RING_SLOT_BYTES, site.size_bytes))
    slots = _windows(ring)
    pairs = list(zip(_windows(source), _windows(device), strict=True))

    def copy(stream: Stream) -> None:
        filled: deque[StreamEvent] = deque()
        for number, (piece, target) in enumerate(pairs):
            if len(filled) == len(slots):
                filled.popleft().synchronize()
            slot = slots[number % len(slots)].part(0, piece.size_bytes)
            slot.copy_from(piece)
            stream.copy_to_device(target, slot)
            filled.append(stream.record())
        stream.synchronize()

    # A stream for each call, because its events live as long as it does.
    return fresh(
        site.backend.stream, copy, lambda stream: stream.free(), lambda _: site.expect_on_device(device, site.value)
    )


def _h2d_small(site: TrialSite) -> Timer:
    source = site.resident(site.backend.pinned(SMALL_BYTES))
    device, stream = site.backend.device(SMALL_BYTES), site.backend.stream()

    def check(_calls: int) -> None:
        stream.synchronize()
        site.expect_on_device(device, site.value)

    return repeated(lambda: stream.copy_to_device(device, source), check)


def _windows(memory: _Memory) -> list[_Memory]:
    total = memory.size_bytes
    return [memory.part(at, min(RING_SLOT_BYTES, total - at)) for at in range(0, total, RING_SLOT_BYTES)]


def _to_host(site: TrialSite, memory: HostMemory) -> Timer:
    target, device = site.resident(memory), site.backend.device(site.size_bytes)
    site.backend.copy_to_device(device, target)
    # What the device holds is not what the target is filled with: the check sees whether anything arrived.
    site.backend.add_two(device)
    return repeated(lambda: site.backend.copy_to_host(target, device), lambda _: site.expect(target, site.value + 2))


def _managed(site: TrialSite, place: Place = "host") -> HostMemory:
    memory = site.resident(site.backend.managed(site.size_bytes))
    if place == "device" and site.backend.emulated:
        site.backend.add_two(memory)
    elif place == "device":
        site.gpu.prefetch(memory, "device")
    return memory


def _moved(site: TrialSite, place: Place, operation: Callable[[HostMemory], object], added: float = 0) -> Timer:
    """A timer of what moves managed memory from a place, and adds to it."""
    return fresh(
        lambda: _seen(_managed(site, place)), operation, free, lambda memory: site.expect(memory, site.value + added)
    )


def _uvm_prefetched_kernel(site: TrialSite) -> Timer:
    memory = _managed(site, "device")

    def check(calls: int) -> None:
        site.expect(memory, site.value + 2 * calls)
        # Looking at it from the CPU has moved it.
        site.gpu.prefetch(memory, "device")

    return repeated(lambda: site.backend.add_two(memory), check)


def _zerocopy_pass(site: TrialSite) -> Timer:
    memory = site.resident(site.backend.mapped(site.size_bytes))
    return repeated(lambda: site.backend.add_two(memory), lambda calls: site.expect(memory, site.value + 2 * calls))


def _kernel_launch_sync(site: TrialSite) -> Timer:
    host, device = site.resident(site.backend.pageable(4)), site.backend.device(4)
    site.backend.copy_to_device(device, host)

    def check(calls: int) -> None:
        site.backend.copy_to_host(host, device)
        site.expect(host, site.value + 2 * calls)

    return repeated(lambda: site.backend.add_two(device), check)


def _memcpy_host(site: TrialSite) -> Timer:
    source, target = (site.backend.pageable(site.size_bytes) for _ in range(2))
    site.resident(source)
    target.fill(0)
    return repeated(lambda: target.copy_from(source), lambda _: site.expect(target, site.value), clock=ALONE)


def _refilled(prepare: Callable[[TrialSite], Timer]) -> Trial:
    return Trial(prepare, ("pageable",) * 4, smallest_bytes=HUGE_PAGE_BYTES)


_PINNING = "memfd pages created and pinned by an io_uring registered buffer"
_REGISTERING = "an io_uring registered buffer"
_RELEASING = "unpinning an io_uring registered buffer"
TRIALS: Mapping[str, Trial] = {
    "alloc.malloc": Trial(lambda at: making(lambda: at.backend.pageable(at.size_bytes)), ("pageable",)),
    "touch.first": Trial(lambda at: _touched(at, lambda: at.backend.pageable(at.size_bytes), ALONE), ("pageable",)),
    "touch.huge": Trial(
        lambda at: _touched(at, lambda: at.backend.pages(at.size_bytes, huge=True), ALONE),
        ("pageable",),
        smallest_bytes=HUGE_PAGE_BYTES,
    ),
    "touch.cow": Trial(lambda at: copied_on_write(at.size_bytes), ("pageable", "pageable")),
    "pin.alloc": Trial(lambda at: making(lambda: at.backend.pinned(at.size_bytes)), ("pinned",), _PINNING),
    "pin.hostalloc": Trial(lambda at: making(lambda: at.gpu.host_alloc(at.size_bytes, "default")), ("pinned",), None),
    "pin.register-touched": Trial(lambda at: _registered(at, touched=True), ("pageable",), _REGISTERING),
    "pin.register-untouched": Trial(lambda at: _registered(at, touched=False), ("pageable",), _REGISTERING),
    "free.pinned": Trial(
        lambda at: _freed(lambda: at.backend.pinned(at.size_bytes)), ("pinned",), f"{_RELEASING}, and unmapping it"
    ),
    "free.unregister": Trial(_free_unregister, ("pageable",), _RELEASING),
    "free.pageable": Trial(lambda at: _freed(lambda: _pageable(at, touched=True), ALONE), ("pageable",)),
    "free.munmap": Trial(_free_munmap, ("pageable",)),
    "prefault.tN": Trial(_prefault, ("pageable",), f"huge pages touched, then {_REGISTERING}", HUGE_PAGE_BYTES),
    "h2d.pageable": Trial(
        lambda at: _to_device(at, at.backend.pageable(at.size_bytes)),
        ("pageable", "device", "pageable"),
        "memcpy twice, through 2 MiB slots",
    ),
    "h2d.pinned": Trial(
        lambda at: _to_device(at, at.backend.pinned(at.size_bytes)), ("pinned", "device", "pageable"), "memcpy"
    ),
    "h2d.staged": Trial(_h2d_staged, ("pageable", "pinned", "device", "pageable"), "memcpy twice, 4 MiB slots"),
    "h2d.write-combined": Trial(
        lambda at: _to_device(at, at.gpu.host_alloc(at.size_bytes, "write-combined")),
        ("pinned", "device", "pageable"),
        None,
    ),
    "h2d.small": Trial(_h2d_small, ("pinned", "device", "pageable"), None, one_size=True),
    "d2h.pageable": Trial(
        lambda at: _to_host(at, at.backend.pageable(at.size_bytes)),
        ("pageable", "device"),
        "memcpy twice, through 2 MiB slots",
    ),
    "d2h.pinned": Trial(lambda at: _to_host(at, at.backend.pinned(at.size_bytes)), ("pinned", "device"), "memcpy"),
    "uvm.first-touch": Trial(lambda at: _touched(at, lambda: at.backend.managed(at.size_bytes)), ("managed",), None),
    "uvm.ondemand": Trial(
        lambda at: _moved(at, "host", at.backend.add_two, 2),
        ("managed",),
        "2 MiB blocks copied away and dropped, then numpy adds",
    ),
    "uvm.prefetch": Trial(
        lambda at: _moved(at, "host", lambda memory: at.gpu.prefetch(memory, "device")), ("managed",), None
    ),
    "uvm.prefetch-back": Trial(
        lambda at: _moved(at, "device", lambda memory: at.gpu.prefetch(memory, "host")), ("managed",), None
    ),
    "uvm.prefetched-kernel": Trial(_uvm_prefetched_kernel, ("managed",), None),
    "uvm.cpu-readback": Trial(
        lambda at: _moved(at, "device", lambda memory: memory.read(), 2 if at.backend.emulated else 0),
        ("managed",),
        "userfaultfd serves missing pages, 2 MiB at a time",
    ),
    "zerocopy.pass": Trial(_zerocopy_pass, ("mapped",), "numpy adds in the pinned memory"),
    "kernel.launch-sync": Trial(_kernel_launch_sync, ("pageable", "device"), None, one_size=True),
    "memcpy.host": Trial(_memcpy_host, ("pageable", "pageable")),
    "file.read": Trial(lambda at: read_whole(at.size_bytes, at.value), ("pageable", "pageable")),
    "file.map-touch": Trial(lambda at: map_touched(at.size_bytes), ("pageable",)),
    "refill.copy-new": _refilled(lambda at: Refill.copy(at.size_bytes, at.value).new()),
    "refill.copy-kept": _refilled(lambda at: Refill.copy(at.size_bytes, at.value).kept()),
    "refill.add-new": _refilled(lambda at: Refill.add(at.size_bytes, at.value).new()),
    "refill.add-kept": _refilled(lambda at: Refill.add(at.size_bytes, at.value).kept()),
}
"""In the order in which they are shown."""
