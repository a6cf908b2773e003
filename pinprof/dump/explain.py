"""What was seen of threads as frames, causes and words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pinprof.analyze.attribution.attribute import attribute
from pinprof.analyze.attribution.categories import CATEGORIES
from pinprof.analyze.attribution.row import Category
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count
from pinprof.collect.python_frames.interpreter import SegmentTables
from pinprof.data.gpu_functions import is_call
from pinprof.data.mapped import WORDS, Mapped, mapped_as
from pinprof.data.model import KERNEL, Capture
from pinprof.dump import agent, system, waits
from pinprof.dump.chains import ThreadSample
from pinprof.dump.results import FrameNow, ProcessNow, ThreadNow
from pinprof.dump.seen import SeenStack, captured
from pinprof.dump.system import ENDED, RUNNING, STOPPED, ThreadLook
from pinprof.dump.waits import Noted, WaitedFor
from pinprof.dump.watched import WatchedProcess

_AS_IT_IS = ("asleep", "blocked", "idle", "inside", "ready", "stopped")
"""How the meanings of waits begin that are no name of what is waited for."""
_MEMORY = ("pin", "fault", "free", "uvm", "dma")
"""Levels of causes whose work holds the lock of the address space."""
_MANY_FAULTS = 1000
"""In a second."""
_MOSTLY = 0.5
"""The part of the time from which on it counts."""


@dataclass(frozen=True)
class _Seen:
    """A thread before what it does has words."""

    look: ThreadLook
    """At last; where it waits, while it did."""
    noted: Noted
    stack: tuple[FrameNow, ...]
    cause: Category | None
    share: float | None
    waits: bool

    @property
    def functions(self) -> tuple[str, ...]:
        """Its stack by names, innermost first."""
        return tuple(frame.function for frame in self.stack)

    @property
    def cuda_call(self) -> str:
        """The outermost call of CUDA that it is in."""
        native = [frame.function.partition("@")[0] for frame in self.stack if frame.kind == "native"]
        return next((name for name in reversed(native) if is_call(name)), "")

    @property
    def in_memory(self) -> bool:
        """Whether it works on its address space."""
        return self.cause is not None and (self.cause.level in _MEMORY or self.cause.role == "address space")


def explained(
    processes: Sequence[WatchedProcess], samples: Sequence[ThreadSample], tables: SegmentTables
) -> tuple[ProcessNow, ...]:
    """All processes; `samples` by thread and time."""
    taken, faults = (defaultdict[int, list[ThreadSample]](list) for _ in range(2))
    for one in samples:
        (faults if one.touched else taken)[one.tid].append(one)
    rows: list[SeenStack] = []
    of: dict[int, range] = {}
    for process in processes:
        for tid in process.last:
            begin = len(rows)
            rows += _rows(process, tid, taken[tid] or faults[tid])
            of[tid] = range(begin, len(rows))
    names = {(process.pid, tid): name for process in processes for tid, name in process.names.items()}
    capture = captured(rows, {one.pid: one.places for one in processes}, tables, names)
    leaves = [CATEGORIES[leaf] for leaf in attribute(capture).leaf.tolist()]
    found = []
    for process in processes:
        seen = {
            tid: _seen(process, tid, capture, rows, leaves, of[tid], clocked=bool(taken[tid]))
            for tid in sorted(process.last)
        }
        threads = [_thread(process, seen, tid, [one.touched for one in faults[tid]]) for tid in seen]
        memory = system.memory(process.pid, process.places, agent.pinned_bytes(process.places))
        found.append(ProcessNow(process.pid, process.parent, process.command, memory, tuple(threads)))
    return tuple(found)


def _rows(process: WatchedProcess, tid: int, samples: Sequence[ThreadSample]) -> list[SeenStack]:
    """The stacks that were seen of a thread in what it does most of the time: wait, or run; at least its Python."""
    looks = process.python.get(tid, [])
    ran = process.per_s(tid, "cpu_ns") + process.per_s(tid, "queued_ns")
    seen = [SeenStack(one, waits=False) for one in samples]
    if ran < _MOSTLY * 1e9 or not seen:
        if tid in process.standing:
            return [replace(process.standing[tid], python=(looks[-1][1],) * 2)] if looks else [process.standing[tid]]
        seen = process.moments.get(tid) or seen
    nothing = ThreadSample(process.pid, tid, looks[-1][0] if looks else 0, 0, ())
    seen = seen or [SeenStack(nothing, waits=False)] * bool(looks)
    return [replace(one, python=process.python_at(tid, one.sample.time_ns)) for one in seen]


def _seen(
    process: WatchedProcess,
    tid: int,
    capture: Capture,
    rows: Sequence[SeenStack],
    leaves: Sequence[Category],
    mine: range,
    *,
    clocked: bool,
) -> _Seen:
    look = process.last[tid]
    if not mine:
        return _Seen(look, Noted(), (), None, None, waits=False)
    waits_now, sampled = rows[mine[0]].waits, bool(rows[mine[0]].sample.chain)
    ((level, count),) = Counter(leaves[row].level for row in mine).most_common(1)
    ((cause, _),) = Counter(leaves[row] for row in mine if leaves[row].level == level).most_common(1)
    # The last of those with the cause, with its lines where those were seen.
    having = [row for row in mine if leaves[row] is cause]
    shown = max(having, key=lambda row: (rows[row].has_python, row))
    share = None if waits_now or not clocked else count / len(mine)
    known = sampled or bool(rows[shown].kernel)
    one = rows[shown]
    return _Seen(one.look or look, one.noted, _frames(capture, shown), cause if known else None, share, waits_now)


def _frames(capture: Capture, row: int) -> tuple[FrameNow, ...]:
    """The frames of a sample, innermost first."""
    frames, found = capture.stacks.frames, []
    for node in capture.stacks.chain(int(capture.samples.stack[row])):
        number = int(capture.stacks.frame[node])
        dso = frames.dsos[int(frames.dso[number])]
        kernel = int(frames.mode[number]) == KERNEL
        kind = "python" if dso.kind == "python" else "kernel" if kernel else "native"
        found.append(
            FrameNow(frames.function[number], frames.source_of(number) or dso.path, frames.lines[number], kind)
        )
    return tuple(found)


def _thread(process: WatchedProcess, seen: Mapping[int, _Seen], tid: int, touched: Sequence[int]) -> ThreadNow:
    one, look, per_s = seen[tid], process.last[tid], partial(process.per_s, tid)
    standing = tid in process.standing and one.waits
    if look.state in STOPPED + ENDED:
        state = "stopped" if look.state in STOPPED else "ended"
    elif standing or (look.state != RUNNING and not look.call):
        state = "waiting"
    else:
        state = "running" if look.state == RUNNING and not one.waits else "busy"
    waiting = one.waits or state not in ("running", "busy")
    doing = _waiting(process, seen, tid) if waiting else WaitedFor(_running(process, one, touched))
    call = f"in {one.cuda_call}, " if one.cuda_call else ""
    return ThreadNow(
        tid=tid,
        name=process.names[tid],
        state=state,
        doing=call + doing.words,
        cause=one.cause.name if one.cause else "",
        cause_share=one.share,
        waits_on=doing.on,
        system_call=one.look.system_call if one.waits else "",
        sleeps_in=next((frame.function for frame in one.stack if frame.kind == "kernel"), "") if one.waits else "",
        cuda_call=one.cuda_call,
        cpu=min(per_s("cpu_ns") / 1e9, 1.0),
        queued=min(per_s("queued_ns") / 1e9, 1.0),
        faults_per_s=per_s("faults"),
        major_faults_per_s=per_s("major_faults"),
        stack=one.stack,
    )


def _running(process: WatchedProcess, one: _Seen, touched: Sequence[int]) -> str:
    """What a thread does that does not stand still; `touched` are addresses of its page faults."""
    per_s = partial(process.per_s, one.look.tid)
    rate = f"{format_count(round(per_s('faults')))} a second"
    if one.cause.name.startswith("fault.") if one.cause else per_s("faults") >= _MANY_FAULTS:
        kinds = Counter(_mapped(process, address) for address in touched)
        where = next((WORDS[kind] for kind, _ in kinds.most_common(1) if kind in WORDS), "")
        return f"faults pages{' of ' * bool(where)}{where}, {rate}"
    if one.cause is None and one.look.state == RUNNING and not per_s("cpu_ns"):
        return "is ready to run, while others have the processors"
    doing = f"runs: {one.cause.meaning}" if one.cause else "runs"
    return f"{doing}; faults pages, {rate}" if per_s("faults") >= _MANY_FAULTS else doing


def _mapped(process: WatchedProcess, address: int) -> Mapped:
    place = next((each for each in process.places if each.start <= address < each.end), None)
    return mapped_as(place.path, shared=place.shared) if place else Mapped.UNKNOWN


def _waiting(process: WatchedProcess, seen: Mapping[int, _Seen], tid: int) -> WaitedFor:
    """What a thread waits for that stands still, and whom."""
    one, names = seen[tid], process.names
    if process.last[tid].state in ENDED:
        return WaitedFor("has ended")
    if process.last[tid].state in STOPPED:
        return WaitedFor("is stopped by a signal or a debugger")
    if one.cause and one.cause.role == "mmap lock":
        holders = tuple(other for other, each in seen.items() if each.in_memory and not each.waits)
        said = ", perhaps held by " + " or ".join(waits.named(other, names) for other in holders[:3]) if holders else ""
        return WaitedFor(f"waits for mmap_lock, the lock of its address space{said}", waits.only(holders))
    found = waits.waited_for(one.look, one.noted, names, one.functions)
    if found and found.words == waits.GIL:
        running = [other for other, each in seen.items() if not each.waits and other in process.python]
        holder = f", which {waits.named(running[0], names)} holds" if len(running) == 1 else ""
        return WaitedFor(f"waits {waits.GIL}{holder}", waits.only(running))
    if found:
        return WaitedFor(f"waits {found.words}", found.on)
    if one.cause is None:
        return WaitedFor("waits")
    meaning = one.cause.meaning
    return WaitedFor(f"is {meaning}" if meaning.startswith(_AS_IT_IS) else f"waits for {meaning}")
