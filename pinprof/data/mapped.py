"""What lies at an address of a process: memory of its own, a file, or memory that processes share."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class Mapped(IntEnum):
    """The mapping that an address is in."""

    UNKNOWN = 0
    """Nothing says it."""
    ANONYMOUS = 1
    HEAP = 2
    STACK = 3
    HUGE = 4
    """Pages that were set aside for the program (hugetlbfs), and are no file's."""
    PRIVATE_FILE = 5
    """What is written stays with the process: each page is copied first."""
    SHARED_FILE = 6
    SHARED_MEMORY = 7
    DEVICE = 8
    PROGRAM = 9
    """Code and data of a program or of a library, as it was loaded."""


OWN = (Mapped.ANONYMOUS, Mapped.HEAP, Mapped.STACK, Mapped.HUGE)
"""Memory that is no file's and that no other process can map: a page of it is shared after a fork alone."""
WORDS = {
    Mapped.ANONYMOUS: "anonymous memory",
    Mapped.HEAP: "the heap",
    Mapped.STACK: "a stack",
    Mapped.HUGE: "huge pages that were set aside",
    Mapped.PRIVATE_FILE: "a private mapping of a file",
    Mapped.SHARED_FILE: "a shared mapping of a file",
    Mapped.SHARED_MEMORY: "shared memory",
    Mapped.DEVICE: "a device's memory",
    Mapped.PROGRAM: "a program or a library",
}

_NAMED = {"": Mapped.ANONYMOUS, "//anon": Mapped.ANONYMOUS, "[heap]": Mapped.HEAP, "[stack]": Mapped.STACK}
_PROGRAM = re.compile(r"/.*\.so(\.[\d.]+)?|(/.*)?/s?bin/[^/]+", re.DOTALL)
_BEGINNINGS = (
    ("[anon:", Mapped.ANONYMOUS, Mapped.ANONYMOUS),
    ("[anon_shmem:", Mapped.SHARED_MEMORY, Mapped.SHARED_MEMORY),
    ("[stack:", Mapped.STACK, Mapped.STACK),
    ("/dev/zero", Mapped.ANONYMOUS, Mapped.SHARED_MEMORY),
    ("/anon_hugepage", Mapped.HUGE, Mapped.SHARED_MEMORY),
    ("/SYSV", Mapped.PRIVATE_FILE, Mapped.SHARED_MEMORY),
    ("/memfd:", Mapped.PRIVATE_FILE, Mapped.SHARED_MEMORY),
    ("/dev/shm/", Mapped.PRIVATE_FILE, Mapped.SHARED_MEMORY),  # noqa: S108 - a name that the kernel prints
    ("/dev/", Mapped.DEVICE, Mapped.DEVICE),
    ("anon_inode:", Mapped.DEVICE, Mapped.DEVICE),
    ("//", Mapped.UNKNOWN, Mapped.UNKNOWN),
    ("/", Mapped.PRIVATE_FILE, Mapped.SHARED_FILE),
)
"""How names of mappings begin, and what they are where private and where shared; the first that fits counts."""


@lru_cache(4096)
def mapped_as(path: str, *, shared: bool, huge: bool = False) -> Mapped:
    """What a mapping is, by its name in /proc/PID/maps or in a record of perf (fs/proc/task_mmu.c, perf_event_mmap)."""
    path = path.removesuffix(" (deleted)")
    if path in _NAMED:
        known = Mapped.SHARED_MEMORY if shared else _NAMED[path]
    elif not shared and _PROGRAM.fullmatch(path):
        known = Mapped.PROGRAM
    else:
        known = next((kinds[shared] for begin, *kinds in _BEGINNINGS if path.startswith(begin)), Mapped.UNKNOWN)
    return Mapped.HUGE if huge and known == Mapped.ANONYMOUS else known
