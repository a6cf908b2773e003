"""What CUDA calls, copies and migrations look like: each kind wears the colour of the cause it belongs to.

A style is a word for people and a level of the taxonomy, whose colour `palette` knows in both themes: what is pinned
is blue, what faults is orange, what the driver stages is yellow, managed memory that moves as asked is green.
"""

from __future__ import annotations

from collections.abc import Mapping

from pinprof.analyze.activity.results import Cause
from pinprof.analyze.course.results import PHASE_NAMES, PhaseName
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.gpu_functions import Purpose


@dataclass(frozen=True)
class Style:
    """One entry of a legend."""

    label: str
    level: str


PURPOSES: Mapping[Purpose, Style] = {
    "alloc pinned": Style("allocate pinned", "pin"),
    "register": Style("pin", "pin"),
    "alloc device": Style("allocate on the device", "rm"),
    "alloc managed": Style("allocate managed", "uvm"),
    "prefetch": Style("prefetch", "uvm"),
    "advise": Style("advise", "uvm"),
    "free pinned": Style("free pinned", "free"),
    "unregister": Style("unpin", "free"),
    "free device": Style("free", "free"),
    "copy": Style("copy", "copy"),
    "set": Style("set", "copy"),
    "launch": Style("launch", "user"),
    "sync": Style("wait", "sync"),
    "other": Style("other", "other"),
}
MEMORY: Mapping[str, Style] = {
    "pageable": Style("pageable memory", "copy"),
    "pinned": Style("pinned memory", "pin"),
    "managed": Style("managed memory", "uvm"),
    "device": Style("device memory", "dma"),
}
OTHER_MEMORY = Style("other memory", "other")
CAUSES: Mapping[Cause, Style] = {
    "prefetch": Style("prefetch: requested by the program", "uvm"),
    "fault": Style("fault: a page was accessed", "fault"),
    "speculative": Style("speculative: pages near an accessed page", "copy"),
    "eviction": Style("eviction: to make room", "rm"),
    "access counters": Style("access counters", "dma"),
    "unknown": Style("cause not recorded", "other"),
}
KERNEL = Style("kernel", "user")
FAULT_GROUP = Style("GPU faults being served", "fault")
MEMSET = Style("memset", "sys")
MARK = Style("mark", "sys")
RANGE = Style("range", "other")
PHASES: Mapping[PhaseName, Style] = {name: Style(name, f"phase-{name}") for name in PHASE_NAMES}
"""Their colours are no causes': styles/page.css has them."""
DIRECTIONS: Mapping[str, str] = {
    "H2D": "host to device", "D2H": "device to host", "D2D": "device to device", "H2H": "host to host",
    "P2P": "device to another device", "other": "unknown direction",
}  # fmt: skip


def memory_style(memory: str) -> Style:
    """The style of a kind of memory by its name."""
    return MEMORY.get(memory) or MEMORY.get(memory.split(" ")[0]) or OTHER_MEMORY
