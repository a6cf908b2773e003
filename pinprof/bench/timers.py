"""Ways to time an operation: on what is made for each call, while it is made, or repeatedly on what stays."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import TypeVar

from pinprof.scenario import HostMemory

Timer = Callable[[int], float]
"""Number of calls → the seconds they took; the `time_func` of pyperf."""
Clock = Callable[[], float]
ALONE: Clock = thread_time
"""The clock of what one thread does by itself: programs that take its processor meanwhile do not count."""
_Made = TypeVar("_Made")


def fresh(
    make: Callable[[], _Made],
    operation: Callable[[_Made], object],
    drop: Callable[[_Made], object],
    check: Callable[[_Made], object] | None = None,
    *,
    clock: Clock = perf_counter,
) -> Timer:
    """A timer of an operation on something made for each call; `check` is asked once."""
    unchecked = [check] if check else []

    def timer(loops: int) -> float:
        total = 0.0
        for _ in range(loops):
            made = make()
            start = clock()
            operation(made)
            total += clock() - start
            if unchecked:
                unchecked.pop()(made)
            drop(made)
        return total

    return timer


def free(memory: HostMemory) -> None:
    """Give memory back."""
    memory.free()


def making(make: Callable[[], HostMemory], drop: Callable[[HostMemory], None] = free) -> Timer:
    """A timer of what makes memory."""

    def timer(loops: int) -> float:
        total = 0.0
        for _ in range(loops):
            start = perf_counter()
            memory = make()
            total += perf_counter() - start
            drop(memory)
        return total

    return timer


def repeated(operation: Callable[[], object], check: Callable[[int], object], *, clock: Clock = perf_counter) -> Timer:
    """A timer of an operation on memory that stays; `check` is asked once, with the number of calls until then."""
    unchecked = [check]

    def timer(loops: int) -> float:
        start = clock()
        for _ in range(loops):
            operation()
        total = clock() - start
        if unchecked:
            unchecked.pop()(loops)
        return total

    return timer
