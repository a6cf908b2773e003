"""Captures of arbitrary stacks, and what two captures must agree in to say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from pinprof.data.model import KERNEL, NO_NODE, USER, Capture, ClockSync, Dso, Event
from pinprof.read.assembly import KERNEL_IMAGE, NVIDIA, UNKNOWN, SampleColumns, StackBuilder, foreign_capture
from pinprof.report import rows

Function = tuple[str, Dso, int]
Sample = tuple[int, int, Sequence[Function]]
"""Event, weight, functions root first."""

EVENTS = (
    Event("cpu-clock/freq=999/", "ns", None, 999),
    Event("page-faults/period=64/", "faults", 64, None),
    Event("alloc", "bytes", None, None),
    Event("hits", "samples", None, None),
)

DSOS = (
    Dso("/home/someone/bin/app", "abc123", "file"),
    Dso("/usr/lib/libc.so.6", "", "file"),
    Dso("[vdso]", "", "vdso"),
    Dso("/tmp/perf-77.map", "", "jit"),
    UNKNOWN,
)
KERNEL_DSOS = (KERNEL_IMAGE, NVIDIA, Dso("/lib/modules/6.1/extra/nvidia-uvm.ko.xz", "", "module"))

HOSTILE = (
    " ", ";", "a;b", "line\nbreak", "nul\0", "\ud800", "\udcff tail", "😀" * 3, "x" * 10_000, "trailing 12",
    "[k]", "f_[k]", "f_[i]", "lib`f", "=cmd()", "</script>", '"', "\\", "\u2028", "\x85", "\r", "entry_SYSCALL_64",
    "[a]",
)  # fmt: skip

_names = (
    st.sampled_from(HOSTILE) | st.text(st.characters(codec=None), min_size=1, max_size=8) | st.sampled_from("abcdef")
)
_functions = st.one_of(
    st.tuples(_names, st.sampled_from(DSOS), st.just(USER)),
    st.tuples(_names, st.sampled_from(KERNEL_DSOS), st.just(KERNEL)),
)
samples = st.lists(
    st.tuples(
        st.integers(0, len(EVENTS) - 1),
        st.integers(1, 10**12),
        st.lists(_functions, max_size=6),
    ),
    max_size=12,
)


def capture_of(found: Sequence[Sample], *, timed: bool = True) -> Capture:
    """A capture of these samples, a millisecond apart, in two threads of one process."""
    builder, columns = StackBuilder(), SampleColumns()
    chains = [[builder.frame(*function) for function in functions] for _, _, functions in found]
    columns.stack = builder.stacks(chains).tolist()
    columns.weight = [weight for _, weight, _ in found]
    columns.event = [event for event, _, _ in found]
    columns.pid = [77] * len(found)
    columns.tid = [77 + number % 2 for number in range(len(found))]
    columns.time_ns = [10**9 + number * 10**6 for number in range(len(found))] if timed else []
    return foreign_capture(
        "/home/someone/secret/run.pinprof",
        "test",
        EVENTS,
        columns.table(),
        builder.table(),
        threads={(77, 77): "main", (77, 78): "worker"},
        clock=ClockSync("monotonic" if timed else "none", 0, 0),
    )


def weights(capture: Capture) -> Counter[tuple[str, str, tuple[tuple[str, str, int], ...]]]:
    """(event, unit, functions root first) → weight, whatever the order of rows and nodes; no entry without weight."""
    frames = capture.stacks.frames
    dsos = rows.dso_names(frames)
    found: Counter[tuple[str, str, tuple[tuple[str, str, int], ...]]] = Counter()
    columns = (capture.samples.event, capture.samples.stack, capture.samples.weight)
    for event, node, weight in zip(*(column.tolist() for column in columns), strict=True):
        chain = rows.chain(capture.stacks, node) if node != NO_NODE else []
        functions = tuple((frames.symbol[frame], dsos[frame], int(frames.mode[frame])) for frame in chain)
        found[capture.events[event].name, capture.events[event].unit, functions] += weight
    return +found
