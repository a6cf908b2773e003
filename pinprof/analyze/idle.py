"""Waits of threads without work, apart from the waits of threads that have some.

A pool of a numerical library has a thread for each processor; all wait for nearly the whole run, and their waits would
be nearly all time off the CPU. Nothing waits for them. So they are an event of their own, `idle-threads`, and
`off-cpu` is about threads that work. A thread is idle where it

- is no process's main thread, opened no range and made no CUDA call,
- lived for a good part of the recording, and nearly all of that waited in one place,
- waited there for somebody to bring work (a condition, a poll, a pipe): not for a lock, a disk, the GPU or a set time.

Threads that the CUDA driver library starts for itself wait for work too, whatever their place is called.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pinprof.analyze.attribution.attribute import Attribution
from pinprof.analyze.attribution.categories import CATEGORIES, LEAF
from pinprof.analyze.groups import Groups, group
from pinprof.analyze.ranges.spans import IDLE_EVENT
from pinprof.base.columns import looked_up, numbered, numbered_pairs, pack
from pinprof.data.model import NO_NODE, READY, USER, Bool, Capture, Event, Int32, Int64, StackTable

IDLE = LEAF["wait.idle"]

IDLE_SHARE = 0.95
"""From this share of its recorded life in one waiting place on, a thread is idle."""

LIFE_SHARE = 0.25
"""The least part of its process's recorded time that an idle thread lives; a thread for one request waits for that."""

_FOR_WORK = np.isin([row.name for row in CATEGORIES], ["wait.lock", "wait.poll", "wait.ipc", "wait.other"])
_DRIVER_THREAD = LEAF["wait.cuda_thread"]

_HAND_OVER = re.compile(
    r"(__)?(GI_)?_*(pthread_(mutex|rwlock|spin)_\w*lock\w*|lll_\w*lock_wait\w*|pthread_\w*join\w*)(@.*)?|take_gil|"
    r"\w*([Mm]utex|[Ss]pin[Ll]ock|rwlock)\w*([Ll]ock|acquire)\w*|std::thread::join.*|[\w:]*[Mm]utex::[Ll]ock.*"
)
"""Functions that wait until another thread lets go of something or ends: it has the work, this one needs it."""

_WAITING_MODULES = re.compile(r"(threading|queue|thread|pool|selectors|socket|connection|synchronize|base_events)\.py")
"""Files of Python's library in which a thread waits for work; a lock taken in a program's own line is a lock."""


def idle_apart(capture: Capture, attribution: Attribution) -> tuple[Capture, Attribution]:
    """The capture with the waits of idle threads as an event of their own, and the leaf `wait.idle` for them."""
    samples = capture.samples
    spans = capture.spans
    waiting = looked_up(spans, samples.event)
    if not waiting.any():
        return capture, attribution
    names = [event.name for event in capture.events]
    if IDLE_EVENT in names:
        idle = samples.event == names.index(IDLE_EVENT)
        leaf = np.where(idle & (attribution.leaf != _DRIVER_THREAD), np.int16(IDLE), attribution.leaf)
        return capture, replace(attribution, leaf=leaf)
    idle = _idle(capture, attribution, waiting)
    driver = waiting & (attribution.leaf == _DRIVER_THREAD)
    if not (idle | driver).any():
        return capture, attribution
    event = np.where(idle | driver, np.int16(len(capture.events)), samples.event)
    leaf = np.where(idle & ~driver, np.int16(IDLE), attribution.leaf)
    events = (*capture.events, Event(IDLE_EVENT, "ns", None, None, spans=True))
    return (
        replace(capture, events=events, samples=replace(samples, event=event)),
        replace(attribution, leaf=leaf),
    )


def _idle(capture: Capture, attribution: Attribution, waiting: Bool) -> Bool:
    """Per sample, whether an idle thread waits for work there; its other waits are waits like any."""
    samples = capture.samples
    threads = group(numbered_pairs(samples.pid, samples.tid)[1])
    end = samples.time_ns + np.where(waiting, samples.weight, 0)
    life = threads.max(end) - threads.min(samples.time_ns)
    candidate = (life > 0) & (life >= LIFE_SHARE * _of_process(capture, end, threads))
    candidate &= threads.first(samples.pid.astype(np.int64)) != threads.first(samples.tid.astype(np.int64))
    candidate &= ~np.isin(threads.first(pack(samples.pid, samples.tid)), _active(capture))
    if not candidate.any():
        return np.zeros(len(samples), np.bool_)
    for_work = looked_up(np.append(_waits_for_work(capture.stacks), False), samples.stack) & _FOR_WORK[attribution.leaf]
    able = samples.wait & READY > 0 if samples.wait is not None else np.zeros(len(samples), np.bool_)
    for_work &= waiting & candidate[threads.of] & ~able
    rows = np.flatnonzero(for_work)
    place = np.append(_innermost_user(capture.stacks), NO_NODE)[samples.stack[rows]] + 1
    at_place = group(threads.of[rows], place.astype(np.int64))
    longest = np.zeros(len(threads), np.int64)
    np.maximum.at(longest, at_place.keys[0], at_place.sum(samples.weight[rows]))
    return np.asarray(for_work & (longest >= IDLE_SHARE * life)[threads.of])


def _of_process(capture: Capture, end: Int64, threads: Groups) -> Int64:
    """Per thread the recorded time of its process."""
    processes = group(numbered(capture.samples.pid)[1])
    lasted = processes.max(end) - processes.min(capture.samples.time_ns)
    return threads.first(lasted[processes.of])


def _active(capture: Capture) -> Int64:
    """The threads that did something that the program's ranges or CUDA calls show: (pid, tid) packed."""
    known = [pack(capture.ranges.pid, capture.ranges.tid)]
    if capture.activity is not None:
        known.append(pack(capture.activity.calls.pid, capture.activity.calls.tid))
    return np.concatenate(known)


def _innermost_user(stacks: StackTable) -> Int32:
    """Per node the innermost function of the program on its chain: where a thread waits, however the kernel does it."""
    node = np.where(stacks.frames.mode[stacks.frame] == USER, np.arange(len(stacks), dtype=np.int32), stacks.parent)
    # A caller in the kernel has its own answer; by jumps, as callers precede their callees.
    while ((further := np.where(node == NO_NODE, NO_NODE, node[node])) != node).any():
        node = further
    return node.astype(np.int32)


def _waits_for_work(stacks: StackTable) -> Bool:
    """Per node, whether a thread that leaves the processor there may be waiting for work."""
    frames = stacks.frames
    python = np.array([dso.kind == "python" for dso in frames.dsos], np.bool_)[frames.dso]
    hands_over = frames.named(_HAND_OVER)
    library = np.array([_WAITING_MODULES.fullmatch(dso.name) is not None for dso in frames.dsos], np.bool_)[frames.dso]
    result = np.ones(len(stacks) + 1, np.bool_)
    line = np.ones(len(stacks) + 1, np.bool_)
    for nodes in stacks.levels():
        frame, caller = stacks.frame[nodes], stacks.parent[nodes]
        line[nodes] = np.where(python[frame], library[frame], line[caller])
        result[nodes] = ~hands_over[frame] & (result[caller] | python[frame])
    return (result & line)[:-1]
