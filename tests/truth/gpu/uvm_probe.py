"""Every step that leads to the driver's events, asked one by one, with the answers as they came.

It takes nothing for granted that pinprof's reader does: each ioctl's structure is noted before and after, the queue's
control data as numbers, events as bytes, for both layouts.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import select
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinprof.collect.uvm import descriptors, driver
from pinprof.collect.uvm.source import KINDS
from pinprof.data.uvm_events import COUNTERS, ENTRY_BYTES, PROCESSORS, UUID_BYTES

LENGTH = 1 << 14
MOST_EVENTS, MOST_OF_A_KIND = 32, 4
Steps = list[dict[str, Any]]


def probe(command: Sequence[object]) -> Steps:
    """Start a program that prints `ready` and waits for a line, and ask for the events of what it does then."""
    steps: Steps = [_machine()]
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin
        assert program.stdout
        steps.append({"step": "the program", "said": program.stdout.readline().strip(), "pid": program.pid})
        taken = _descriptors(program.pid, steps)
        trackers = [_Tracker(uvm, layout, steps) for uvm in taken for layout in (2, 1)]
        counters = [_counters(uvm, steps) for uvm in taken]
        for uvm in taken:
            for request in (driver.UUID_TABLE_V2, driver.UUID_TABLE):
                _table(uvm, request, steps)
        clocks = _clocks()
        program.stdin.write("\n")
        program.stdin.flush()
        steps.append({"step": "the program", "said": program.stdout.readline().strip(), "status": program.wait()})
        steps.append({"step": "clocks", "raw, monotonic, real before": clocks, "after": _clocks()})
        for uvm in taken:
            asked(uvm, driver.FLUSH_EVENTS, driver.FLUSH.pack(0), "flush events", steps)
        for tracker in trackers:
            tracker.note(steps)
        for number, values in enumerate(counters):
            steps.append({"step": f"counters of descriptor {number}", "values": list(values())})
    return steps


def asked(descriptor: int, request: int, structure: bytes, what: str, steps: Steps) -> int:
    """One ioctl, noted; its errno."""
    answer, number = bytearray(structure), 0
    try:
        driver.ioctl(descriptor, request, answer, True)
    except OSError as error:
        number = error.errno or -1
    steps.append({
        "step": what, "ioctl": request, "errno": number, "error": os.strerror(number) if number else "",
        "before": structure.hex(), "after": answer.hex(),
    })  # fmt: skip
    return number


class _Tracker:
    """A queue of one layout."""

    def __init__(self, uvm: int, layout: int, steps: Steps) -> None:
        self.layout = layout
        self.entries = mmap.mmap(-1, LENGTH * ENTRY_BYTES[layout])
        self.control = mmap.mmap(-1, mmap.PAGESIZE)
        self.descriptor = driver.open_device()
        places = driver.address(self.entries), LENGTH, driver.address(self.control)
        given = driver.INIT.pack(*places, bytes(16), 1, uvm, 0, 0)
        request = driver.INIT_TRACKER_V2 if layout == 2 else driver.INIT_TRACKER
        asked(self.descriptor, request, given, f"make a queue, layout {layout}", steps)
        asked(self.descriptor, driver.SET_THRESHOLD, driver.THRESHOLD.pack(LENGTH // 4, 0), "set the threshold", steps)
        # One kind after the other: a driver that does not know one refuses all of a mask.
        for kind in KINDS:
            asked(
                self.descriptor, driver.ENABLE_EVENTS, driver.FLAGS.pack(1 << kind, 0, 0), f"enable {kind.name}", steps
            )

    def note(self, steps: Steps) -> None:
        """What there is now."""
        size = ENTRY_BYTES[self.layout]
        places = struct.unpack_from("=4I", self.control)
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        kinds: dict[int, int] = {}
        samples: dict[int, list[str]] = {}
        entries = [self.entries[at : at + size] for at in range(0, min(places[3], LENGTH) * size, size)]
        for entry in entries:
            kinds[entry[0]] = kinds.get(entry[0], 0) + 1
            if len(seen := samples.setdefault(entry[0], [])) < MOST_OF_A_KIND:
                seen.append(entry.hex())
        steps.append(
            {
                "step": f"the queue of layout {self.layout}",
                "get_ahead, get_behind, put_ahead, put_behind": places,
                "dropped": {
                    kind: lost for kind, lost in enumerate(struct.unpack_from("=64Q", self.control, 16)) if lost
                },
                "poll": poll.poll(0),
                "events": kinds,
                "first of each kind": samples,
                "first entries": [entry.hex() for entry in entries[:MOST_EVENTS]],
            }
        )


def _counters(uvm: int, steps: Steps) -> Any:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    descriptor = driver.open_device()
    given = driver.INIT.pack(0, 0, driver.address(memory), bytes(16), 1, uvm, 0, 0)
    asked(descriptor, driver.INIT_TRACKER, given, "make counters", steps)
    asked(descriptor, driver.ENABLE_COUNTERS, driver.FLAGS.pack(driver.ALL_COUNTERS, 0, 0), "enable counters", steps)
    return lambda: struct.unpack_from(f"={COUNTERS}Q", memory)


def _table(uvm: int, request: int, steps: Steps) -> None:
    table = ctypes.create_string_buffer(PROCESSORS * UUID_BYTES)
    asked(
        uvm, request, driver.TABLE.pack(ctypes.addressof(table), PROCESSORS // 8 + 1, 0), "read the processors", steps
    )
    rows = [table.raw[at : at + UUID_BYTES] for at in range(0, len(table.raw), UUID_BYTES)]
    steps.append({"step": "processors", "uuids": {number: row.hex() for number, row in enumerate(rows) if any(row)}})


def _descriptors(pid: int, steps: Steps) -> list[int]:
    """Our copies of the program's descriptors of the device, all of them."""
    links = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        links[link.name] = str(link.readlink())
    steps.append({"step": "descriptors of the program", "links": {n: to for n, to in links.items() if "nvidia" in to}})
    process, taken = os.pidfd_open(pid), []
    for number in descriptors.numbers(pid):
        try:
            taken.append(descriptors.copied(process, number))
            steps.append({"step": f"copy descriptor {number}", "ours": taken[-1]})
        except OSError as error:
            steps.append({"step": f"copy descriptor {number}", "errno": error.errno, "error": error.strerror})
    steps.append({"step": "kcmp", "same": [[descriptors.same(one, other) for other in taken] for one in taken]})
    return taken


def _machine() -> dict[str, Any]:
    facts: dict[str, Any] = {"step": "the machine", "kernel": platform.release(), "uid": os.geteuid()}
    for path in ("/proc/driver/nvidia/version", "/proc/sys/kernel/yama/ptrace_scope"):
        try:
            facts[path] = Path(path).read_text()
        except OSError as error:
            facts[path] = error.strerror
    for device in (str(driver.DEVICE), driver.MEMORY_DEVICE):
        try:
            there = Path(device).stat()
            facts[device] = f"mode {there.st_mode:o}, {os.major(there.st_rdev)}:{os.minor(there.st_rdev)}"
        except OSError as error:
            facts[device] = error.strerror
    return facts


def _clocks() -> list[int]:
    clocks = (time.CLOCK_MONOTONIC_RAW, time.CLOCK_MONOTONIC, time.CLOCK_REALTIME)
    return [time.clock_gettime_ns(clock) for clock in clocks]


def text_of(steps: Steps) -> str:
    """A line for each step, its answers below."""
    lines = []
    for step in steps:
        lines.append(str(step["step"]))
        lines += [f"  {key}: {value}" for key, value in step.items() if key != "step"]
    return "\n".join(lines) + "\n"
