"""Folded stacks as FlameGraph's `stackcollapse-perf.pl --all` writes them, for people who compare with its files.

What differs from pinprof's own spelling: the process (as perf prints it, with underscores for spaces) is the root; code
made at run time ends in `_[j]`, inlined functions in `_[i]`, the vDSO counts as kernel; functions have no parameters;
Java's classes lose the `L` of their descriptors; lines are in the order of their bytes.

Source: github.com/brendangregg/FlameGraph, stackcollapse-perf.pl (2017 and later).
"""

from __future__ import annotations

import re

import numpy as np

from pinprof.base.columns import numbered_pairs, unpack
from pinprof.data.model import KERNEL, Capture, Dso, FrameTable, Int32, Int64
from pinprof.report.rows import threads_of

SEPARATORS = re.compile(r"[;\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What separates frames and lines, and must not stand in a name."""

_GO_METHOD = re.compile(r"\.\(.*\)\.")
_PARAMETERS = re.compile(r"\((?!anonymous namespace\)).*", re.DOTALL)
_JAVA_CLASS = re.compile(r"L(?=[\w$]+(/[\w$]+)+[;:.])")
_SOURCE_FILE = re.compile(r".*\.pyx?|<[^<>]+>")


def frame_names(frames: FrameTable) -> list[str]:
    """Per frame its name, annotated; of code made at run time `a->b`, which inlined b, becomes `a;b_[i]`."""
    rows = zip(frames.symbol, frames.dso.tolist(), frames.mode.tolist(), strict=True)
    return [
        _frame_name(
            symbol, frames.dsos[dso], mode, inlined=number in frames.inlined, named=not frames.source_of(number)
        )
        for number, (symbol, dso, mode) in enumerate(rows)
    ]


def _frame_name(symbol: str, dso: Dso, mode: int, *, inlined: bool, named: bool) -> str:
    mark = "_[k]" if mode == KERNEL or dso.kind == "vdso" else "_[j]" if dso.kind == "jit" else ""
    if symbol == "[unknown kernel]":
        symbol = "[unknown]" if dso.name == "[unknown]" else f"[{dso.name}]"
    elif symbol.startswith("[") and symbol == dso.name and mark:
        symbol = f"[{symbol}]"
    elif named and not symbol.startswith("[") and not _SOURCE_FILE.fullmatch(dso.path):
        outer, *inside = symbol.split("->") if dso.kind == "jit" else [symbol]
        return ";".join([_tidy(outer) + ("_[i]" if inlined else mark), *(f"{_tidy(name)}_[i]" for name in inside)])
    return plain(symbol) + ("_[i]" if inlined else mark)


def plain(symbol: str) -> str:
    """A name without what separates frames or lines."""
    return SEPARATORS.sub(lambda found: ":" if found[0] == ";" else " ", symbol)


def _tidy(symbol: str) -> str:
    """The function alone: no parameters, no quotes, no `L` of a Java descriptor."""
    symbol = plain(symbol)
    if not _GO_METHOD.search(symbol):
        symbol = _PARAMETERS.sub("", symbol)
    return _JAVA_CLASS.sub("", symbol.replace('"', "").replace("'", ""), count=1)


def merged_by_process(capture: Capture, event: int) -> tuple[list[str], Int64, Int32, Int64]:
    """One event's samples merged by process name and stack: the names, per row the index of its name, node and weight.

    A name is empty where the recording names no thread at all: such stacks begin with the process already.
    """
    samples = capture.samples
    chosen = np.flatnonzero(samples.event == event)
    threads, thread = threads_of(samples.pid[chosen], samples.tid[chosen])
    names = [_process(capture.threads.get(key, f":{key[1]}")) if capture.threads else "" for key in threads]
    by_thread = np.argsort(thread, kind="stable")
    ends = np.cumsum(np.bincount(thread, minlength=len(threads)))
    for number, key in enumerate(threads):
        earlier = capture.renamed.get(key, ())
        if not earlier:
            continue
        rows = by_thread[ends[number - 1] if number else 0 : ends[number]]
        which = np.searchsorted([begin for begin, _ in earlier], samples.time_ns[chosen[rows]], "right") - 1
        thread[rows] = len(names) + np.maximum(which, 0)
        names += [_process(name) for _, name in earlier]
    keys, row = numbered_pairs(thread, samples.stack[chosen])
    weight = np.zeros(len(keys), np.int64)
    np.add.at(weight, row, samples.weight[chosen])
    name, node = unpack(keys)
    return names, name, node.astype(np.int32), weight


def _process(name: str) -> str:
    return SEPARATORS.sub(lambda found: ":" if found[0] == ";" else "_", name).replace(" ", "_")
