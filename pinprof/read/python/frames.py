"""Python's functions into the stacks of samples, in the place of the interpreter's own.

Two sources, alone or together:

- CPython's perf trampoline names functions `py::QUALIFIED.NAME:/path/file.py` in the perf map. They stand in the call
  chain already, without lines.
- `python-stacks.jsonl.gz` says which functions and lines a thread was in, and when (py-spy). The sample of a thread at
  a time gets the stack of then: what called the interpreter, Python's functions, and what its innermost evaluation loop
  called. A chain that does not reach the loop, as without frame pointers, hangs below Python's innermost function.

Where the chain has trampolines, they say which functions, and py-spy only adds the lines of those it saw too.

The interpreter's own machinery (evaluation loop, vectorcall …) is left out of stacks with Python functions, unless it
is the innermost frame: that one says what the sample was doing, and attribution never changes by what is done here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pinprof.columns import pack, pairs_of
from pinprof.model import LONGEST_NAME, NO_NODE, USER, Bool, Capture, Dso, Int32, StackTable
from pinprof.read.assembly import StackBuilder
from pinprof.read.python import stacks as python_stacks
from pinprof.read.python.stacks import NO_STACK, PythonFrame, PythonStacks
from pinprof.read.thread_names import with_python_names
from pinprof.units import format_counted, format_ns, format_share

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
_NOWHERE = ("[unknown]", "[anon]", "[heap]", "[stack]")


@dataclass(frozen=True)
class _Kinds:
    """What each frame is to Python; columns of the frame table's length."""

    function: list[tuple[str, str] | None]
    """(name, file) of a trampoline."""
    loop: list[bool]
    machinery: list[bool]
    nowhere: list[bool]


def settle(capture: Capture, stacks_file: Path | None, *, keep_interpreter: bool = False) -> Capture:
    """The capture with Python's functions as frames; the same object where it has none."""
    trampolines = any(symbol.startswith("py::") for symbol in capture.stacks.frames.symbol)
    if not trampolines and stacks_file is None:
        return capture
    kinds = _kinds(capture)
    stacks = PythonStacks()
    notes: list[str] = []
    if stacks_file is not None:
        if capture.clock.source == "monotonic":
            stacks = python_stacks.load(stacks_file)
        else:
            notes.append("Python lines were recorded, but the samples count on another clock.")
    if not trampolines and not stacks.threads:
        return capture.with_notes(*notes)
    seen = _python_of(capture, stacks)
    made = _Grafting(capture, stacks, kinds, keep_interpreter=keep_interpreter).run(seen)
    notes += _notes(capture, stacks, seen, made.named, trampolines=trampolines)
    grafted = replace(
        capture,
        samples=replace(capture.samples, stack=made.node),
        stacks=made.table,
        threads=with_python_names(capture, stacks),
        losses=replace(capture.losses, unresolved_frames=capture.losses.unresolved_frames - made.dropped),
    )
    return grafted.with_notes(*notes)


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
            self._builder.frame(symbol, frames.dsos[dso], mode)
            for symbol, dso, mode in zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
        ]
        self._blind = {number for number, symbol in enumerate(frames.symbol) if symbol.startswith("[")}
        self._blind_made = {self._native[number] for number in self._blind}
        self._chains: dict[int, list[int]] = {}
        self._python: dict[int, list[int]] = {}

    def run(self, seen: Int32) -> _Grafted:
        """`seen`: per sample its Python stack, or NO_STACK."""
        samples = self._capture.samples
        distinct, of_sample = np.unique(pack(samples.stack, seen), return_inverse=True)
        chains, named = [], np.zeros(len(distinct), np.bool_)
        dropped = np.zeros(len(distinct), np.int64)
        for row, (node, stack) in enumerate(pairs_of(distinct)):
            chain = self._chain(node)
            named[row] = any(self._kinds.function[frame] for frame in chain)
            made = self._grafted(chain, stack, named=bool(named[row]))
            chains.append(made)
            dropped[row] = sum(frame in self._blind for frame in chain)
            dropped[row] -= sum(frame in self._blind_made for frame in made)
        nodes = self._builder.stacks(chains)
        of_sample = of_sample.reshape(-1)
        return _Grafted(self._builder.table(), nodes[of_sample], named[of_sample], int(dropped[of_sample].sum()))

    def _chain(self, node: int) -> list[int]:
        """Recorded frames of a stack, outermost first; a caller's chain is kept for its other callees."""
        if node == NO_NODE:
            return []
        chain = self._chains.get(node)
        if chain is None:
            table = self._capture.stacks
            chain = [int(table.frame[inner]) for inner in table.chain(node)]
            chain.reverse()
            self._chains[node] = chain
        return chain

    def _grafted(self, chain: list[int], stack: int, *, named: bool) -> list[int]:
        if named:
            return self._with_lines(chain, stack)
        if stack == NO_STACK or not chain:
            return [self._native[frame] for frame in chain]
        loops = [place for place, frame in enumerate(chain) if self._kinds.loop[frame]]
        if loops:
            outer, inner = chain[: loops[0]], chain[loops[-1] :]
        else:
            outer, inner = [], chain
        if not self._keep:
            # Where frame pointers end, the chain does in an address that is none.
            first = next((place for place, frame in enumerate(inner) if not self._kinds.nowhere[frame]), len(inner) - 1)
            inner = inner[first:]
        return [*self._folded(outer), *self._python_chain(stack), *self._folded(inner[:-1]), self._native[inner[-1]]]

    def _folded(self, chain: Sequence[int]) -> list[int]:
        """Frames without the interpreter's machinery."""
        return [self._native[frame] for frame in chain if self._keep or not self._kinds.machinery[frame]]

    def _python_chain(self, stack: int) -> list[int]:
        chain = self._python.get(stack)
        if chain is None:
            frames = self._stacks.frames
            chain = [self._function(*frames[frame]) for frame in self._stacks.chain(stack)]
            self._python[stack] = chain
        return chain

    def _with_lines(self, chain: list[int], stack: int) -> list[int]:
        """A chain with trampolines, which get the lines of the functions that py-spy saw in the same places.

        Unwinding often ends at the innermost trampoline; its callers are then those that py-spy saw.
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

    def _function(self, name: str, file: str, line: int) -> int:
        dso = Dso(file, "", "python")
        place = f"{dso.name}:{line}" if line else dso.name
        return self._builder.frame(f"{name} ({place})", dso, USER)


def _matched(functions: list[tuple[str, str]], seen: list[PythonFrame]) -> tuple[int, list[int]]:
    """Where a chain of functions stands in what py-spy saw: how many callers it saw outside, and a line for each (0).

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


def _kinds(capture: Capture) -> _Kinds:
    frames = capture.stacks.frames
    function: list[tuple[str, str] | None] = []
    loop, machinery, nowhere = [], [], []
    for symbol, index, mode in zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True):
        dso = frames.dsos[index]
        trampoline = _TRAMPOLINE.fullmatch(symbol) if mode == USER and symbol.startswith("py::") else None
        function.append((trampoline[1], trampoline[2]) if trampoline else None)
        ours = mode == USER and len(symbol) <= LONGEST_NAME and _INTERPRETER.fullmatch(dso.name) is not None
        name = _CLONE.sub("", symbol) if ours else ""
        loop.append(ours and _LOOP.fullmatch(name) is not None)
        machinery.append(ours and _MACHINERY.fullmatch(name) is not None)
        nowhere.append(mode == USER and dso.name in _NOWHERE)
    return _Kinds(function, loop, machinery, nowhere)


def _python_of(capture: Capture, stacks: PythonStacks) -> Int32:
    """Per sample the Python stack that its thread was in."""
    samples = capture.samples
    # The middle of an interval off the processors, in which the thread stayed where it was.
    spans = np.array([event.spans for event in capture.events], np.bool_)[samples.event]
    times = samples.time_ns + np.where(spans, samples.weight // 2, 0)
    stack = np.full(len(samples), NO_STACK, np.int32)
    order = np.lexsort((samples.tid, samples.pid))
    pid, tid = samples.pid[order], samples.tid[order]
    starts = np.flatnonzero(np.append(len(order) > 0, (np.diff(pid) != 0) | (np.diff(tid) != 0))[: len(order)])
    for rows in np.split(order, starts[1:]) if len(order) else ():
        thread = int(samples.pid[rows[0]]), int(samples.tid[rows[0]])
        if thread in stacks.threads:
            stack[rows] = stacks.at(*thread, times[rows])
    return stack


def _notes(
    capture: Capture,
    stacks: PythonStacks,
    seen: Int32,
    named: Bool,
    *,
    trampolines: bool,
) -> list[str]:
    notes = []
    if stacks.threads:
        grafted = seen != NO_STACK
        processes = np.isin(capture.samples.pid, np.unique([pid for pid, _ in stacks.threads]))
        without = int((processes & ~grafted & ~named).sum())
        notes.append(
            f"Python lines come from py-spy, and are those of the sample's time within "
            f"{format_ns(stacks.uncertainty_ns)}; {format_counted(without, 'sample', 'samples')} of Python processes "
            f"({format_share(without, int(processes.sum()))}) without any: of threads that run no Python, or before "
            "py-spy saw them."
        )
    elif trampolines:
        notes.append(
            "Python functions come from CPython's perf trampoline, which knows no lines; with py-spy installed "
            "(pip install py-spy), pinprof records them too."
        )
    if stacks.unnamed_threads:
        notes.append(
            f"{format_counted(stacks.unnamed_threads, 'Python thread', 'Python threads')} could not be told apart: "
            "CPython before 3.11 does not note the kernel's thread id."
        )
    if stacks.damaged:
        notes.append("A part of the recorded Python stacks is damaged and was left out.")
    return notes
