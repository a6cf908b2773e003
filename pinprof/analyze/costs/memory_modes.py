"""The ways to give a GPU data, as sums of measured operations (`rates.MEASURES`): one row a mode.

A buffer of a mode is allocated by the measures in `buffer`, once each; a copy of it to or from the device is one of
`to_device` and `to_host`; `kernel` is what a kernel costs that works in it, empty where it works in the GPU's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Mode:
    """One way."""

    key: str
    title: str
    """`with …`: how a sentence goes on."""
    buffer: tuple[str, ...]
    to_device: str = ""
    to_host: str = ""
    kernel: str = ""
    once: tuple[str, ...] = ()
    """Paid once for a buffer, whatever the number of iterations."""
    creates_on_write: bool = False
    """Whether the program's own first write creates the pages: then it writes to what the kernel left in the cache."""
    managed: bool = False
    assumes: str = ""
    """What the figure takes for granted; one sentence, empty when nothing."""


_MALLOC = ("alloc.malloc", "touch.first", "free.pageable")
_MANAGED = ("uvm.first-touch",)

MODES: tuple[Mode, ...] = (
    Mode("pageable", "pageable memory", _MALLOC, "h2d.pageable", "d2h.pageable", creates_on_write=True),
    Mode(
        "staged", "pageable memory staged through reused pinned chunks", _MALLOC, "h2d.staged", "d2h.pageable",
        creates_on_write=True, assumes="assumes that copies back use the driver's staging.",
    ),
    Mode("pinned", "cudaMallocHost memory", ("pin.alloc", "free.pinned"), "h2d.pinned", "d2h.pinned"),
    Mode(
        "register", "malloc memory registered after its first touch",
        (*_MALLOC, "pin.register-touched", "free.unregister"), "h2d.pinned", "d2h.pinned", creates_on_write=True,
    ),
    Mode(
        "prefault", "huge pages touched by {threads}, then registered", ("prefault.tN", "free.unregister"),
        "h2d.pinned", "d2h.pinned", assumes="releasing the huge pages is not included.",
    ),
    Mode("pooled", "pinned memory that is allocated once and reused", (), "h2d.pinned", "d2h.pinned",
         once=("pin.alloc",)),
    Mode(
        "zerocopy", "mapped pinned memory that the kernel accesses over the link (zero-copy)",
        ("pin.alloc", "free.pinned"), kernel="zerocopy.pass",
        assumes="assumes that each kernel reads and writes every element once.",
    ),
    Mode(
        "managed", "managed memory, migrated on demand", _MANAGED, to_host="uvm.cpu-readback", kernel="uvm.ondemand",
        managed=True, assumes="assumes that each kernel accesses every element once. Allocating and freeing are "
            "not included.",
    ),
    Mode(
        "prefetch", "managed memory, prefetched both ways", _MANAGED, "uvm.prefetch", "uvm.prefetch",
        "uvm.prefetched-kernel",
        managed=True,
        assumes="assumes that both directions are equally fast. Allocating and freeing are not included.",
    ),
)  # fmt: skip
"""In the order in which reports show them where they cost the same."""

MODE = {mode.key: mode for mode in MODES}

_BY_CALLS: tuple[tuple[str, str], ...] = (
    ("prefetch", r"cudaMemPrefetchAsync"),
    ("managed", r"cudaMallocManaged|UFFDIO_REGISTER"),
    ("zerocopy", r"cudaHostAlloc\(Mapped\)"),
    ("prefault", r"madvise\(MADV_\w*HUGEPAGE\)"),
    ("register", r"\bregister: "),
    ("staged", r"\bring: "),
    ("pinned", r"cudaMallocHost|cudaHostAlloc|memfd \+ IORING_REGISTER_BUFFERS"),
    ("pageable", r"\bmalloc\b"),
)
"""Mode → what shows it in the text `phase: call` of the phases that make memory; the first match counts."""
_MAKING = ("alloc", "ring", "touch", "register", "prefetch")


def mode_of(scenario: Mapping[str, Any]) -> Mode | None:
    """The mode that a scenario runs in, by the calls of its phases; None when they tell no mode."""
    calls = scenario.get("calls")
    if not isinstance(calls, Mapping):
        return None
    text = "\n".join(f"{phase}: {calls[phase]}" for phase in _MAKING if phase in calls)
    key = next((key for key, pattern in _BY_CALLS if re.search(pattern, text)), "")
    if key == "pinned" and "h2d" not in calls and "d2h" not in calls:
        # The host backend has one kind of pinned memory; without copies it is worked in directly.
        key = "zerocopy"
    return MODE.get(key)
