"""What timers of CPU time do not see, as samples of the place where it happened: waits, and execve.

In execve the kernel takes a forked process's copy of the page tables apart. Its timer has ended there, and that of the
new program has not begun. The new program says what its process had used by then, and the parent says whom it forked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinprof.data.model import Int64
from pinprof.data.system_calls import kernel_functions
from pinprof.read.inside.file import InsideFile
from pinprof.read.inside.layout import Flag
from pinprof.read.inside.used import Used

_MOST_FORKS = 3
"""How many times longer than to copy page tables it may take to take them apart: what is more is of something else, as
of a program between the two in which there was no agent."""


def with_untimed(files: Sequence[InsideFile], machine: str) -> Iterator[tuple[InsideFile, Used, Int64]]:
    """The files of processes that were sampled, with all samples, and the process of each sample.

    What a forked process spent in execve stands with its parent's samples, at the place that forked it. `machine`: what
    processor they are of.
    """
    number = next((call for call, name in kernel_functions(machine).items() if name.endswith("_sys_execve")), -1)
    spent = _in_execve(files)
    for file in files:
        if file.used is None:
            continue
        row, child, ns, time = spent.get(file.token, (np.zeros(0, np.int64),) * 4)
        forked = file.forks.records[row]
        waits = file.waits
        took = waits.end_ns - waits.begin_ns
        whole = _more(file.used, waits.records, waits.end_ns, waits.tid, waited_ns=took)
        whole = _more(whole, forked, time, child, system_ns=ns, call=np.full(len(row), number))
        pids = np.full(len(whole.tid), file.pid, np.int64)
        pids[len(pids) - len(row) :] = child
        yield file, whole, pids


def _in_execve(files: Sequence[InsideFile]) -> dict[int, tuple[Int64, Int64, Int64, Int64]]:
    """By the token of a file: which of its forks, the child's process, what that spent, and when it had."""
    forked: dict[int, list[tuple[InsideFile, int]]] = {}
    for file in files:
        for row, child in enumerate(file.forks.records["address"].tolist()):
            forked.setdefault(child, []).append((file, row))
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for file in files:
        for when, ns in zip(file.begun.begin_ns.tolist(), file.begun.records["bytes"].tolist(), strict=True):
            before = [one for one in forked.get(file.pid, ()) if one[0].forks.begin_ns[one[1]] < when]
            if not before:
                continue
            parent, row = max(before, key=lambda one: int(one[0].forks.begin_ns[one[1]]))
            began, ended = int(parent.forks.begin_ns[row]), int(parent.forks.end_ns[row])
            ns = min(ns - _sampled(files, file.pid, began, when), _MOST_FORKS * (ended - began))
            # The first program after the fork: what another one executes later has no copy any more.
            if ns > 0 and (key := (parent.token, row)) not in found:
                found[key] = (file.pid, ns, when)
    columns = {token: [(row, *values) for (of, row), values in found.items() if of == token] for token, _ in found}
    return {token: tuple(np.array(rows, np.int64).T) for token, rows in columns.items()}


def _sampled(files: Sequence[InsideFile], pid: int, after: int, before: int) -> int:
    """The CPU time of a process that samples between two moments stand for."""
    mine = [file.used for file in files if file.pid == pid and file.used is not None]
    return sum(
        int((used.user_ns + used.system_ns)[(used.time_ns > after) & (used.time_ns < before)].sum()) for used in mine
    )


def _more(used: Used, records: Any, time: Int64, tid: Any, **values: Int64) -> Used:
    """The samples and, behind them, one for each record of a caller."""
    none = np.zeros(len(records), np.int64)
    columns = {
        "ticks": records["begin"],
        "time_ns": time,
        "tid": tid,
        **dict.fromkeys(("user_ns", "system_ns", "delayed_ns", "waited_ns", "faults"), none),
        "address": records["source"],
        "chain": records["extra"],
        "call": records["function"].astype(np.int64) - 1,
        "pipe": records["flags"] & Flag.PIPE > 0,
        **values,
    }
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(used, name), column.astype(getattr(used, name).dtype)])
        for name, column in columns.items()
    }
    return replace(used, **joined)
