"""Options of a run, and the context of an iteration."""

from __future__ import annotations

import contextlib
import os
from dataclasses import field
from typing import Any, TypeVar, cast

from pinprof.base.errors import ScenarioError, UsageError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted
from pinprof.scenario.backend import Backend, Comparable, DeviceMemory, Gpu
from pinprof.scenario.ranges import OpenPhase
from pinprof.scenario.spec import ScenarioSpec

BACKENDS = ("auto", "cuda", "host")
ELEMENT_BYTES = 4
"""float32."""
MAX_THREADS = 1024
"""More than any machine has CPUs for; a typing error otherwise."""

_DISTINCT_VALUES = 1 << 16
"""After how many iterations fill values repeat; all of them, plus 2, are exact in float32."""

_PIECE_UNIT = 4096
"""Pieces of memory begin at multiples of it."""

_Memory = TypeVar("_Memory", bound=DeviceMemory)


@dataclass(frozen=True)
class Options:
    """How to run a scenario; UsageError for invalid values."""

    size_bytes: int = 256 << 20
    iterations: int = 10
    warmup: int = 1
    backend: str = "auto"
    device: int = 0
    variant: str | None = None
    """Name of one of the scenario's variants; None is the first."""
    threads: int | None = None
    """For scenarios that start threads; None means one for each CPU that this process may use."""

    def __post_init__(self) -> None:
        page_bytes = os.sysconf("SC_PAGESIZE")
        if self.size_bytes < page_bytes:
            size = format_counted(self.size_bytes, "byte", "bytes")
            problem = f"A size of {size} is less than a page of {format_bytes(page_bytes)}."
            raise UsageError(problem, "Give at least a page, for example --size 256MiB.", "size")
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            problem = f"{self.threads} is not a valid number of threads."
            raise UsageError(problem, f"Give --threads 1 to {MAX_THREADS}.", "threads")
        if self.iterations < 1:
            raise UsageError(
                f"{self.iterations} is not a valid number of iterations.", "Give --iterations 1 or more.", "usage"
            )
        if self.warmup < 0:
            raise UsageError(f"{self.warmup} is not a number of warm-ups.", "Give --warmup 0 or more.", "usage")
        if self.backend not in BACKENDS:
            problem = f"There is no backend {self.backend!r}."
            raise UsageError(problem, f"Choose one of {', '.join(BACKENDS)}.", "backend")


@dataclass
class RunContext:
    """The argument of `iterate(ctx)`."""

    spec: ScenarioSpec
    options: Options
    backend: Backend
    iteration: int = 0
    """Counts up from 0, including the warm-up."""
    recording: bool = False
    """False in the warm-up, whose phases are not recorded."""
    times_ns: dict[str, list[int]] = field(default_factory=dict)
    """Phase → its duration in each measured iteration."""
    verified: int = 0
    """Iterations in which every element was compared."""
    variant: str = ""
    """The chosen variant; empty if the scenario has none."""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """The memory that a framework reports, the maximum of each kind; shown with the run."""
    prepared: Any = None
    """The value of the scenario's `prepare`, for all iterations; None without `prepare`."""
    compared: bool = False
    """Whether this iteration has compared every element yet."""

    @property
    def gpu(self) -> Gpu:
        """The backend, for scenarios without emulation; ScenarioError without a GPU."""
        if self.backend.emulated:
            problem = f"{self.spec.name} needs a GPU."
            raise ScenarioError(problem, "Run it with --backend cuda on a machine with a GPU.", "no-gpu")
        return cast("Gpu", self.backend)

    @property
    def threads(self) -> int:
        """The number of threads: as requested, or one for each CPU that this process may use."""
        return self.options.threads or len(os.sched_getaffinity(0))

    def pieces(self, memory: _Memory, *, count: int = 0, size_bytes: int = 0) -> list[_Memory]:
        """Windows that cover the memory in order: about `count` equal ones, or windows of `size_bytes`."""
        size_bytes = size_bytes or -(-memory.size_bytes // count)
        step = -(-size_bytes // _PIECE_UNIT) * _PIECE_UNIT
        total = memory.size_bytes
        return [memory.part(start, min(step, total - start)) for start in range(0, total, step)]

    @property
    def size_bytes(self) -> int:
        """Bytes of each allocation, a multiple of the element size; never more than the scenario uses."""
        asked, most = self.options.size_bytes, self.spec.most_bytes
        return (min(asked, most) if most else asked) // ELEMENT_BYTES * ELEMENT_BYTES

    @property
    def value(self) -> float:
        """The value that `init` writes: 1.0 first, and another in each iteration, so that no stale result passes."""
        return 1.0 + self.iteration % _DISTINCT_VALUES

    def phase(self, name: str) -> contextlib.AbstractContextManager[object]:
        """A phase of the iteration: NVTX range, line of ranges.jsonl, duration in the result."""
        return OpenPhase(name, self._closed) if self.recording else contextlib.nullcontext()

    def tell_memory(self, what: str, size_bytes: int) -> None:
        """Note how much memory of a kind a framework holds now; the report shows the maximum."""
        self.memory_bytes[what] = max(size_bytes, self.memory_bytes.get(what, 0))

    def verify(self, memory: Comparable, added: float = 2) -> None:
        """Compare every element with `value` plus the sum that kernels added; ScenarioError if one differs."""
        expected = self.value + added
        with self.phase("verify"):
            wrong = memory.mismatch(expected)
        if wrong is not None:
            index, value = wrong
            problem = f"{self.spec.name} computed a wrong result: element {index} is {value}, not {expected}."
            remedy = "The times are not valid. Check the memory and the GPU of this machine, and report the problem."
            raise ScenarioError(problem, remedy, "wrong-result")
        self.compared = True

    def _closed(self, name: str, duration_ns: int) -> None:
        self.times_ns.setdefault(name, []).append(duration_ns)
