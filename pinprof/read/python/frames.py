"""Python's functions into the stacks of samples, in the place of the interpreter's own.

Two sources, alone or together:

- CPython's perf trampoline names functions `py::QUALIFIED.NAME:/path/file.py` in the perf map. They stand in the call
  chain already, without lines.
- `python-stacks.jsonl.gz` says which functions and lines a thread was seen in, and when. A sample gets the stack that
  its thread was in then (matching.py): what called the interpreter, Python's functions, and what its innermost
  evaluation loop called. A chain that does not reach the loop, as without frame pointers, hangs below Python's
  innermost function. What py-spy saw has no looks, and a sample gets the stack of its time.

Where the chain has trampolines, they say which functions, and looks only add the lines of those that they saw too.

A chain that does not reach the start of its thread hangs below the frames with which its thread's whole chains begin
(roots.py), so that a thread has one root.

The interpreter's own machinery (evaluation loop, vectorcall …) is left out of stacks with Python functions, unless it
is the innermost frame: that one says what the sample was doing, and attribution never changes by what is done here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from pinprof.base.columns import UInt8, numbered_pairs, pairs_of, unpack
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_counted, format_ns, format_share
from pinprof.data.model import (
    LONGEST_NAME,
    NO_NODE,
    READY,
    USER,
    Bool,
    Capture,
    Dso,
    FrameTable,
    Int32,
    Int64,
    StackTable,
)
from pinprof.read.assembly import StackBuilder
from pinprof.read.directory import Reading
from pinprof.read.python import stacks as python_stacks
from pinprof.read.python.call_lines import settle_by_sites, settle_samples, with_lines
from pinprof.read.python.matching import CERTAIN, NEARER, NONE, UNDECIDED, Matched, ThreadSamples, match
from pinprof.read.python.roots import Roots
from pinprof.read.python.stacks import NO_STACK, PythonFrame, PythonStacks
from pinprof.read.python.wakers import wakers_among_samples, wakers_apart
from pinprof.read.thread_names import with_python_names

_TRAMPOLINE = re.compile(r"py::(.*?):((?:/|<|[^:]*\.pyx?$).*)", re.DOTALL)
"""_PyPerf_Callbacks, Python/perf_trampoline.c: `py::%s:%s` of co_qualname and co_filename."""

_INTERPRETER = re.compile(r"libpython\d[\d.]*t?d?\.so[\d.]*|python\d?(\.\d+)?t?d?")
_LOOP = re.compile(r"_?PyEval_EvalFrame(Default|Ex)?|_TAIL_CALL_\w+|\[.*\]")
"""The evaluation loop; an interpreter without symbols hides it among its unnamed functions."""
_MACHINERY = re.compile(
    r"_?PyEval_\w+|_?Py(Run|Vectorcall|Context|PerfTrampoline)_\w+|_TAIL_CALL_\w+|\[.*\]|"
    r"_?PyObject_\w*([Vv]ector|Fast|Tp)?[Cc]all\w*|_?Py(Function|CFunction|Method|StaticMethod)_\w*[Cc]all\w*|"
    r"(cfunction|method|methoddescr?|method_descriptor|classmethoddescr|wrapperdescr|wrapper|partial|object|context|"
    r"builtin|bounded_lru_cache|cm|sm)_\w*(call|vacall|run)\w*|vectorcall_\w+|call_(method|function|attribute|unbound|"
    r"trampoline)\w*|do_call_core|type_call|slot_(tp|nb|sq|mp|am|bf)_\w+|gen_(send|iternext|throw|send_ex)\w*|"
    r"(async_)?gen_a?send_\w+|builtin_(exec|eval|next|__build_class__|__import__)\w*|map_next|filter_next|"
    r"Py_(Bytes|Run)?Main|pymain_\w+|run_(mod|eval_code_obj|eval_code)|pyrun_\w+|_?PyRun_\w+|main|"
    r"thread_run|t_bootstrap|pythread_wrapper|py_trampoline_evaluator|_Py_trampoline_func_start|"
    r"_?PyImport_\w+|import_(name|find_and_load|from|run_frozen)\w*|_PyFunction_FromConstructor"
)
_CLONE = re.compile(r"(\.(isra|part|constprop|cold|lto_priv|llvm)(\.\d+)*)+$|@.*$")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HIDDEN = -1
_MOST_CALLED = 12
"""Native functions below the interpreter that tell samples apart."""
_NOWHERE = ("[unknown]", "[anon]", "[heap]", "[stack]")


@dataclass(frozen=True)
class _Kinds:
    """What each frame is to Python; columns of the frame table's length."""

    function: list[tuple[str, str] | None]
    """(name, file) of a trampoline."""
    loop: list[bool]
    machinery: list[bool]
    nowhere: list[bool]

    @property
    def trampoline(self) -> list[bool]:
        """Whether it is one."""
        return [function is not None for function in self.function]


def with_python(capture: Capture, path: Path | None, reading: Reading) -> Capture:
    """The capture with Python's functions as frames, by a file's stacks or by what the interpreter made for perf."""
    return with_frames(capture, path, keep_interpreter=reading.options.interpreter_frames)


def with_frames(capture: Capture, stacks_file: Path | None, *, keep_interpreter: bool = False) -> Capture:
    """The capture with Python's functions as frames; the same object where it has none."""
    trampolines = any(symbol.startswith("py::") for symbol in capture.stacks.frames.function)
    if not trampolines and stacks_file is None:
        return capture
    kinds = _kinds(capture.stacks.frames)
    stacks = PythonStacks()
    notes: list[str] = []
    if stacks_file is not None:
        if capture.clock.source == "monotonic":
            stacks = python_stacks.load(stacks_file)
            if stacks.damaged:
                notes.append("A part of the recorded Python stacks is damaged and left out.")
            if stacks.impossible_lines:
                lines = format_counted(stacks.impossible_lines, "Python frame has", "Python frames have")
                notes.append(f"{lines} no line: the code changed while it was read.")
        else:
            notes.append("Python lines were recorded, but the samples use a different clock.")
    if not trampolines and not stacks.threads and not stacks.changes:
        return capture.with_notes(*notes)
    capture, moved = wakers_among_samples(capture)
    seen, how = _python_of(capture, stacks, kinds)
    capture, said = _with_call_lines(capture, stacks, seen, how)
    made = _Grafting(capture, stacks, kinds, keep_interpreter=keep_interpreter).run(seen)
    notes += [*_notes(capture, stacks, how, made.named, trampolines=trampolines), *said]
    grafted = replace(
        capture,
        samples=replace(capture.samples, stack=made.node),
        stacks=made.table,
        threads=with_python_names(capture, stacks),
        losses=replace(capture.losses, unresolved_frames=capture.losses.unresolved_frames - made.dropped),
    )
    return wakers_apart(grafted, moved).with_notes(*notes)


def grafted(capture: Capture, stacks: PythonStacks, seen: Int32) -> Capture:
    """The capture with Python's functions as frames where it is known which stack each sample has (`seen`)."""
    made = _Grafting(capture, stacks, _kinds(capture.stacks.frames), keep_interpreter=False).run(seen)
    return replace(capture, samples=replace(capture.samples, stack=made.node), stacks=made.table)


def _with_call_lines(
    capture: Capture, stacks: PythonStacks, seen: Int32, how: UInt8
) -> tuple[Capture, tuple[str, ...]]:
    """The capture with Python's lines as sites of its CUDA calls, and what must be said about them.

    `seen` and `how`, of the samples, follow what calls say of those inside them.
    """
    activity, native = capture.activity, capture.call_stacks
    if activity is None or native is None or not stacks.threads:
        return capture, ()
    if activity.sited:
        exact = np.isin(activity.calls.pid, list(activity.sited))
        assert activity.calls.rough is not None
        exact &= ~activity.calls.rough
        settle_by_sites(activity.calls.take(np.flatnonzero(exact)), native, capture.samples, stacks, seen, how)
        return capture, ()
    kept = capture.samples.take(np.flatnonzero(_kept(capture)))
    found = with_lines(activity.calls, native, _kinds(native.frames).loop, stacks, kept)
    settle_samples(found, capture.samples, stacks, seen, how)
    return replace(capture, activity=replace(activity, calls=found.calls)), found.notes


@dataclass(frozen=True)
class _Grafted:
    table: StackTable
    node: Int32
    """Per sample."""
    named: Bool
    """Per sample, whether its stack has a trampoline."""
    dropped: int
    """Sampled frames without a symbol that were left out."""


class _Grafting:
    """Builds the new tree, chain by chain: distinct pairs of a recorded stack and a Python stack."""

    def __init__(self, capture: Capture, stacks: PythonStacks, kinds: _Kinds, *, keep_interpreter: bool) -> None:
        self._capture, self._stacks, self._kinds, self._keep = capture, stacks, kinds, keep_interpreter
        self._builder = StackBuilder()
        frames = capture.stacks.frames
        self._native = [
            self._builder.frame(function, frames.dsos[dso], mode, source, line)
            for function, dso, mode, source, line in zip(
                frames.function,
                frames.dso.tolist(),
                frames.mode.tolist(),
                frames.source or [""] * len(frames),
                frames.lines,
                strict=True,
            )
        ]
        self._shown = [
            made if keep_interpreter or not hidden else _HIDDEN
            for made, hidden in zip(self._native, kinds.machinery, strict=True)
        ]
        self._parent, self._frame = capture.stacks.parent.tolist(), capture.stacks.frame.tolist()
        self._beginnings = Roots(frames, kinds.loop)
        self._chains: dict[int, list[int]] = {}
        self._python: dict[int, list[int]] = {}
        self._function = cache(self._made)

    def run(self, seen: Int32) -> _Grafted:
        """`seen`: per sample its Python stack, or NO_STACK."""
        samples = self._capture.samples
        roots, root_of_sample = self._roots()
        pairs, of_pair = numbered_pairs(samples.stack, seen)
        both, of_sample = numbered_pairs(of_pair, root_of_sample)
        of_both, root = unpack(both)
        distinct = pairs[of_both]
        node, _ = unpack(distinct)
        named = _frames_on(self._capture.stacks, list(map(bool, self._kinds.function)))[node] > 0
        chains = [
            self._grafted(self._chain(inner), stack, roots[number], named=by_name)
            for (inner, stack), number, by_name in zip(pairs_of(distinct), root.tolist(), named.tolist(), strict=True)
        ]
        nodes, before = self._builder.stacks(chains), self._capture.stacks
        after = self._builder.table()
        blind = [symbol.startswith("[") for symbol in before.frames.function]
        left = {made for made, unnamed in zip(self._native, blind, strict=True) if unnamed}
        dropped = (
            _frames_on(before, blind)[node] - _frames_on(after, [n in left for n in range(len(after.frames))])[nodes]
        )
        return _Grafted(after, nodes[of_sample], named[of_sample], int(dropped[of_sample].sum()))

    def _chain(self, node: int) -> list[int]:
        """Recorded frames of a stack, outermost first; a caller's chain is kept for its other callees."""
        if node == NO_NODE:
            return []
        chain = self._chains.get(node)
        if chain is None:
            chain, inner = [], node
            while inner != NO_NODE:
                chain.append(self._frame[inner])
                inner = self._parent[inner]
            chain.reverse()
            self._chains[node] = chain
        return chain

    def _roots(self) -> tuple[list[tuple[int, ...]], Int64]:
        """Distinct beginnings of threads, the empty one first, and per sample the number of its thread's."""
        samples = self._capture.samples
        threads, of_thread = numbered_pairs(samples.pid, samples.tid)
        rows, row = numbered_pairs(of_thread, samples.stack)
        count = np.bincount(row).tolist()
        table = [(thread, node, size) for (thread, node), size in zip(pairs_of(rows), count, strict=True)]
        beginnings = self._beginnings.of_threads(table, self._chain)
        roots: dict[tuple[int, ...], int] = {(): 0}
        numbers = [roots.setdefault(beginnings.get(number, ()), len(roots)) for number in range(len(threads))]
        return list(roots), np.array(numbers or [0], np.int64)[of_thread]

    def _grafted(self, chain: list[int], stack: int, root: tuple[int, ...], *, named: bool) -> list[int]:
        """The frames of a sample: its chain, its Python stack, and where its thread began."""
        whole = self._beginnings.whole(chain)
        if self._stacks.changes:  # what py-spy saw is shown as it was recorded
            whole, root = True, ()
        if named:
            return [*([] if whole else self._folded(root)), *self._with_lines(chain, stack)]
        if stack == NO_STACK or not chain:
            return [self._native[frame] for frame in (*(() if whole or not chain else root), *chain)]
        loops = [place for place, frame in enumerate(chain) if self._kinds.loop[frame]]
        inner = chain[loops[-1] :] if loops else chain
        outer: Sequence[int] = chain[: loops[0]] if loops and whole else root
        if not self._keep:
            # Where frame pointers end, the chain does in an address that is none.
            first = next((place for place, frame in enumerate(inner) if not self._kinds.nowhere[frame]), len(inner) - 1)
            inner = inner[first:]
        return [*self._folded(outer), *self._python_chain(stack), *self._folded(inner[:-1]), self._native[inner[-1]]]

    def _folded(self, chain: Sequence[int]) -> list[int]:
        """Frames without the interpreter's machinery."""
        shown = self._shown
        return [made for frame in chain if (made := shown[frame]) != _HIDDEN]

    def _python_chain(self, stack: int) -> list[int]:
        chain = self._python.get(stack)
        if chain is None:
            chain = [self._function(*self._stacks.frames[frame]) for frame in self._stacks.chain(stack)]
            self._python[stack] = chain
        return chain

    def _with_lines(self, chain: list[int], stack: int) -> list[int]:
        """A chain with trampolines, which get the lines of the functions that looks saw in the same places.

        Unwinding often ends at the innermost trampoline; its callers are then those that looks saw.
        """
        functions = [function for frame in chain if (function := self._kinds.function[frame]) is not None]
        seen = [self._stacks.frames[frame] for frame in self._stacks.chain(stack)]
        callers, lines = _matched(functions, seen)
        made, place = [self._function(*seen[caller]) for caller in range(callers)], 0
        for frame in chain[:-1]:
            if function := self._kinds.function[frame]:
                made.append(self._function(*function, lines[place]))
                place += 1
            else:
                made += self._folded([frame])
        last = self._kinds.function[chain[-1]]
        # The trampoline's own few instructions, if the sample hit those.
        made.append(self._function(*last, lines[place]) if last else self._native[chain[-1]])
        return made

    def _made(self, name: str, file: str, line: int) -> int:
        return self._builder.frame(name, Dso(file, "", "python"), USER, line=line)


def _frames_on(stacks: StackTable, counted: Sequence[bool]) -> Int64:
    """Per node, one more for NO_NODE, how many frames from the root to it count."""
    marks = np.array(counted, np.int64)
    count = np.zeros(len(stacks) + 1, np.int64)
    for nodes in stacks.levels():
        count[nodes] = count[stacks.parent[nodes]] + marks[stacks.frame[nodes]]
    return count


def _matched(functions: list[tuple[str, str]], seen: list[PythonFrame]) -> tuple[int, list[int]]:
    """Where a chain of functions stands in what a look saw: how many callers outside, and a line for each (0).

    Both are of nearly the same moment: the place is the one where the longest part agrees, from the outside in.
    """
    best, callers = 0, 0
    for start in range(len(seen)):
        equal = 0
        while equal < min(len(functions), len(seen) - start) and _same(functions[equal], seen[start + equal]):
            equal += 1
        if equal and equal >= best:
            best, callers = equal, start
    lines = [seen[callers + place][2] for place in range(best)]
    return callers, lines + [0] * (len(functions) - best)


def _same(function: tuple[str, str], seen: PythonFrame) -> bool:
    """Whether both are the same function; only newer interpreters know its class."""
    return function[1] == seen[1] and function[0].rpartition(".")[2] == seen[0].rpartition(".")[2]


def is_machinery(function: str, dso: str) -> bool:
    """Whether a native function is the interpreter's own, which Python's functions stand for."""
    return _is_interpreter(function, dso) and _MACHINERY.fullmatch(_CLONE.sub("", function)) is not None


def _is_interpreter(function: str, dso: str) -> bool:
    return len(function) <= LONGEST_NAME and _INTERPRETER.fullmatch(dso) is not None


def _kinds(frames: FrameTable) -> _Kinds:
    function: list[tuple[str, str] | None] = []
    loop, machinery, nowhere = [], [], []
    for symbol, index, mode in zip(frames.function, frames.dso.tolist(), frames.mode.tolist(), strict=True):
        dso = frames.dsos[index]
        trampoline = _TRAMPOLINE.fullmatch(symbol) if mode == USER and symbol.startswith("py::") else None
        function.append((trampoline[1], trampoline[2]) if trampoline else None)
        ours = mode == USER and _is_interpreter(symbol, dso.name)
        loop.append(ours and _LOOP.fullmatch(_CLONE.sub("", symbol)) is not None)
        machinery.append(mode == USER and is_machinery(symbol, dso.name))
        nowhere.append(mode == USER and dso.name in _NOWHERE)
    return _Kinds(function, loop, machinery, nowhere)


def _kept(capture: Capture) -> Bool:
    """Which samples are times in which others kept the thread from running."""
    samples = capture.samples
    if samples.wait is None:
        return np.zeros(len(samples), np.bool_)
    return capture.spans[samples.event] & ((samples.wait & READY) > 0)


def _python_of(capture: Capture, stacks: PythonStacks, kinds: _Kinds) -> tuple[Int32, UInt8]:
    """Per sample the Python stack that its thread was in, and how that is known (matching.NONE …)."""
    samples = capture.samples
    spans = capture.spans[samples.event]
    waits = spans & ~_kept(capture)
    # A thread that another one kept from running stayed where it was: the middle of that time is as good as any.
    middle = samples.time_ns + np.where(spans, samples.weight // 2, 0)
    times = np.where(waits, samples.time_ns, middle)
    numbers, callers = _called(capture, kinds)
    called = np.append(numbers, 0)[samples.stack]
    clock = np.array([event.clocks for event in capture.events], np.bool_)[samples.event]
    stack, how = np.full(len(samples), NO_STACK, np.int32), np.zeros(len(samples), np.uint8)
    order = np.lexsort((times, samples.tid, samples.pid))
    pid, tid = samples.pid[order], samples.tid[order]
    starts = np.flatnonzero(np.append(len(order) > 0, (np.diff(pid) != 0) | (np.diff(tid) != 0))[: len(order)])
    parts, threads = [], []
    for rows in np.split(order, starts[1:]) if len(order) else ():
        thread = int(samples.pid[rows[0]]), int(samples.tid[rows[0]])
        if thread in stacks.threads:
            running, waiting = rows[~waits[rows]], rows[waits[rows]]
            start, kept = samples.time_ns[waiting], rows[spans[rows] & ~waits[rows]]
            kept = kept[np.argsort(samples.time_ns[kept], kind="stable")]
            parts.append((running, waiting))
            threads.append(
                ThreadSamples(
                    *stacks.looks(*thread), times[running], called[running], clock[running],
                    start, start + samples.weight[waiting], called[waiting],
                    samples.time_ns[kept], samples.time_ns[kept] + samples.weight[kept],
                )
            )  # fmt: skip
        elif thread in stacks.changes:
            stack[rows] = stacks.at(*thread, middle[rows])
            how[rows] = np.where(stack[rows] == NO_STACK, NONE, CERTAIN)
    for both, matched in zip(parts, match(threads, 2 * stacks.uncertainty_ns, callers), strict=True):
        for mine, result in zip(both, matched, strict=True):
            stack[mine] = _decided(result, stacks)
            how[mine] = np.where(stack[mine] == NO_STACK, NONE, result.how)
    return stack, how


def _decided(matched: Matched, stacks: PythonStacks) -> Int32:
    """The stack of each sample; where it is undecided, one that says so."""
    decided = matched.stack.copy()
    rows = np.flatnonzero((matched.how == UNDECIDED) & (matched.stack != NO_STACK) & (matched.other != NO_STACK))
    pairs, which = numbered_pairs(matched.stack[rows], matched.other[rows])
    decided[rows] = np.array([stacks.either(*pair) for pair in pairs_of(pairs)], np.int32)[which]
    return decided


def _called(capture: Capture, kinds: _Kinds) -> tuple[Int64, Int64]:
    """Per node a number of the native functions below the interpreter's innermost loop, or what the chain has of them;
    and per number that of the same functions without the innermost one, -1 where there is none.

    A chain without frame pointers ends in an address that is none: what lies outside of that does not count.
    """
    table = capture.stacks
    barrier = np.array([*map(any, zip(kinds.loop, kinds.nowhere, kinds.trampoline, strict=True))], np.bool_)
    called, callers = np.zeros(len(table) + 1, np.uint64), np.zeros(len(table) + 1, np.uint64)
    depth = np.zeros(len(table) + 1, np.int64)
    for nodes in table.levels():
        frame, parent = table.frame[nodes], table.parent[nodes]
        deeper = (called[parent] + frame.astype(np.uint64) + np.uint64(1)) * _FACTOR
        depth[nodes] = np.where(barrier[frame], 0, depth[parent] + 1)
        far = depth[nodes] > _MOST_CALLED
        called[nodes] = np.where(barrier[frame], np.uint64(0), np.where(far, called[parent], deeper))
        callers[nodes] = np.where(far, callers[parent], called[parent])
    known, first, number = np.unique(called, return_index=True, return_inverse=True)
    outside = np.where(known == 0, -1, np.searchsorted(known, callers[first]))
    return number.reshape(-1)[:-1].astype(np.int64), outside.astype(np.int64)


def _notes(
    capture: Capture,
    stacks: PythonStacks,
    how: UInt8,
    named: Bool,
    *,
    trampolines: bool,
) -> list[str]:
    notes = []
    if stacks.processes:
        processes = np.isin(capture.samples.pid, stacks.processes)
        count = int(processes.sum())
        without = int((processes & (how == NONE) & ~named).sum())
        between, undecided = (int((processes & (how == way)).sum()) for way in (NEARER, UNDECIDED))
        unseen = format_counted(without, "sample", "samples")
    if stacks.threads:
        notes.append(
            f"Python was sampled every {format_ns(2 * stacks.uncertainty_ns)}. {format_share(between, count)} of the "
            "samples of Python processes are between Python samples with different lines. They get the more likely "
            f"line, which is right on average but not for each sample. For {format_share(undecided, count)}, the line "
            f"is undecided. {unseen} ({format_share(without, count)}) have no line: their threads run no Python, or "
            "were not seen yet."
        )
    elif stacks.changes:
        notes.append(
            f"Python lines come from py-spy, with an error in time of up to "
            f"{format_ns(stacks.uncertainty_ns)}. {unseen} of Python processes ({format_share(without, count)}) "
            "have no line: their threads run no Python, or py-spy had not seen them yet."
        )
    elif trampolines:
        notes.append(
            "Python functions come from CPython's perf trampoline, which has no lines. To record lines too, use "
            "--python both."
        )
    if stacks.unnamed_threads:
        notes.append(
            f"{format_counted(stacks.unnamed_threads, 'Python thread', 'Python threads')} could not be identified: "
            "CPython before 3.11 does not store the kernel's thread id."
        )
    return notes
