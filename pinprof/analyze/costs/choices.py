"""The decision tree, answered with the figures of one machine.

A branch appears when everything it rests on was measured, at the largest size where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinprof.analyze.costs.costs import BreakEven, Times, break_even_of
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_ns, format_rate, format_share
from pinprof.data.rates import Rates, prefault_threads


@dataclass(frozen=True)
class BenchAnswer:
    """One branch of the decision tree, with this machine's figures."""

    question: str
    choice: str
    """What to do when the answer is yes; a few words."""
    because: str


def answers_of(rates: Rates) -> tuple[BenchAnswer, ...]:
    """Every branch that can be answered."""
    times = Times(rates)
    rows = break_even_of(rates)
    answers = [
        _pin(rows),
        _register(times, rows),
        _prefault(rates, times),
        *(rule(times) for rule in (_staged, _write_combined, _zero_copy, _prefetch)),
        _batch(rates, times),
    ]
    return tuple(answer for answer in answers if answer is not None)


def _pin(rows: tuple[BreakEven, ...]) -> BenchAnswer | None:
    known = [row for row in rows if row.pin_ns is not None]
    if not known:
        return None
    row = known[-1]
    copies, size = row.copies(row.pin_ns), format_bytes(row.size_bytes)
    costs = f"At {size}, pinning and freeing costs {format_ns(row.pin_ns or 0)}"
    if copies is None:
        question = "Will the same buffer be copied to the device repeatedly?"
        why = f"{costs}, and a copy from pinned memory is no faster than one from pageable memory."
        return BenchAnswer(question, "leave it pageable", why)
    saved = format_ns(row.pageable_ns - row.pinned_ns)
    repaid = _counted(copies, "copy repays", "copies repay")
    why = f"{costs} and every copy from it saves {saved}: {repaid} it{_elsewhere(known[:-1], copies)}."
    return BenchAnswer(
        f"Will the same buffer be copied to the device more than {_counted(copies, 'time', 'times')}?",
        "allocate it pinned, once, and reuse it",
        why,
    )


def _elsewhere(rows: Sequence[BreakEven], copies: int) -> str:
    """How many copies it takes at other sizes, where that is another number."""
    counts = [row.copies(row.pin_ns) for row in rows]
    known = [count for count in counts if count is not None]
    never = [format_bytes(row.size_bytes) for row, count in zip(rows, counts, strict=True) if count is None]
    parts = []
    if known and {*known} != {copies}:
        span = f"{min(known):,} to {max(known):,}" if min(known) < max(known) else f"{known[0]:,}"
        parts.append(f"{span} at smaller sizes")
    if never:
        parts.append(f"never at {', '.join(never)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _register(times: Times, rows: tuple[BreakEven, ...]) -> BenchAnswer | None:
    known = [row for row in rows if row.register_ns is not None and row.copies(row.register_ns) is not None]
    both = times.largest("pin.register-touched", "pin.alloc")
    if not known or both is None:
        return None
    row, (size, (register, alloc)) = known[-1], both
    copies = row.copies(row.register_ns) or 0
    repaid = _counted(copies, "copy repays", "copies repay")
    why = (
        f"Registering {format_bytes(size)} whose pages exist takes {format_ns(register)}, a new pinned allocation "
        f"{format_ns(alloc)}, most of it for creating and zeroing pages. {repaid} "
        f"registering and unregistering {format_bytes(row.size_bytes)}."
    )
    return BenchAnswer(
        "Does the memory exist already, allocated and filled by other code?", "register it in place", why
    )


def _prefault(rates: Rates, times: Times) -> BenchAnswer | None:
    counts = sorted({prefault_threads(rate.measure) for rate in rates.rates} - {0})
    both = times.largest("pin.alloc", *(f"prefault.t{count}" for count in counts)) if counts else None
    if both is None:
        return None
    size, (alloc, *prefaults) = both
    best, threads = min(zip(prefaults, counts, strict=True))
    figures = (
        f"{format_bytes(size)} take {format_ns(alloc)} as a pinned allocation and {format_ns(best)} when "
        f"{_counted(threads, 'thread touches', 'threads touch')} huge pages and the memory is then registered"
    )
    question = "Does a large pinned allocation delay the start of the program?"
    if best >= alloc:
        return BenchAnswer(question, "allocate it pinned", f"{figures}. There is no gain on this machine.")
    choice = f"touch huge pages with {_counted(threads, 'thread', 'threads')}, then register"
    return BenchAnswer(question, choice, f"{figures}: {alloc / best:.1f} × faster.")


def _staged(times: Times) -> BenchAnswer | None:
    largest = times.largest("h2d.staged", "h2d.pageable", "h2d.pinned")
    if largest is None:
        return None
    size, (staged, pageable, pinned) = largest
    rates = [format_rate(size, time) for time in (staged, pageable, pinned)]
    figures = (
        f"At {format_bytes(size)}, a ring of 16 MiB pinned memory moves {rates[0]}, pageable memory {rates[1]}, "
        f"pinned memory {rates[2]}."
    )
    question = "Is there more data than you can pin?"
    choice = "copy it through a small pinned ring" if staged < 0.95 * pageable else "leave it pageable"
    return BenchAnswer(question, choice, figures)


def _write_combined(times: Times) -> BenchAnswer | None:
    largest = times.largest("h2d.write-combined", "h2d.pinned")
    if largest is None:
        return None
    size, (combined, pinned) = largest
    gain = pinned / combined - 1
    moved = format_rate(size, combined), format_rate(size, pinned)
    figures = f"At {format_bytes(size)} it moves {moved[0]}, plain pinned memory {moved[1]}"
    question = "Does the CPU only write the buffer, and never read it?"
    if gain < 0.03:
        return BenchAnswer(
            question, "use plain pinned memory", f"{figures}, so there is no gain, and CPU reads are very slow."
        )
    return BenchAnswer(
        question, "allocate it write-combined", f"{figures}: {format_share(gain, 1)} more, but CPU reads are very slow."
    )


def _zero_copy(times: Times) -> BenchAnswer | None:
    largest = times.largest("zerocopy.pass", "h2d.pinned", "d2h.pinned", "uvm.prefetched-kernel")
    if largest is None:
        return None
    size, (mapped, there, back, kernel) = largest
    copied = there + kernel + back
    passes = math.floor((there + back) / (mapped - kernel)) if mapped > kernel else None
    figures = (
        f"One pass over {format_bytes(size)} in mapped memory takes {format_ns(mapped)}; copying it there and back "
        f"around the same kernel {format_ns(copied)}, each further pass {format_ns(kernel)}."
    )
    if passes is None:
        return BenchAnswer("Does the GPU access the data only once?", "let the kernel access mapped memory", figures)
    if passes < 1:
        return BenchAnswer("Does the GPU access the data only once?", "copy it anyway", figures)
    often = "only once" if passes == 1 else f"{passes:,} times at most"
    question = f"Does the GPU access the data {often}?"
    return BenchAnswer(question, "let the kernel access mapped memory", figures)


def _prefetch(times: Times) -> BenchAnswer | None:
    largest = times.largest("uvm.ondemand", "uvm.prefetch", "uvm.prefetched-kernel")
    if largest is None:
        return None
    size, (demand, prefetch, kernel) = largest
    figures = (
        f"At {format_bytes(size)}, a kernel that faults in its data takes {format_ns(demand)}; a prefetch takes "
        f"{format_ns(prefetch)} and the kernel then {format_ns(kernel)}: {demand / (prefetch + kernel):.1f} × faster "
        f"in total, {demand / kernel:.0f} × in the kernel."
    )
    return BenchAnswer("Is the memory managed, and do you know what the GPU will touch?", "prefetch it", figures)


def _batch(rates: Rates, times: Times) -> BenchAnswer | None:
    launch, copies = times("kernel.launch-sync", 0), rates.of("h2d.pinned")
    if launch is None or len(copies) < 2:
        return None
    smallest, best = copies[0], max(copy.size_bytes / copy.median_ns for copy in copies)
    equal = 1 << int(best * launch).bit_length() - 1
    figures = (
        f"A launch and its wait cost {format_ns(launch)}, in which the link moves more than {format_bytes(equal)}. "
        f"A copy of "
        f"{format_bytes(smallest.size_bytes)} takes {format_ns(smallest.median_ns)}: "
        f"{format_share(smallest.size_bytes / smallest.median_ns, best)} of the best rate."
    )
    return BenchAnswer(f"Are the pieces of work smaller than {format_bytes(equal)}?", "batch them", figures)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
