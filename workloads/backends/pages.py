"""Private pages of a chosen size: what a program prepares by itself before it pins them."""

from __future__ import annotations

import contextlib
import errno
import os

from . import libc
from .memory import Allocations, HostArray

HUGE_PAGE_BYTES = 2 << 20
"""The size on x86-64, and on arm64 with pages of 4 KiB."""


def private_pages(owner: Allocations, size_bytes: int, *, huge: bool) -> HostArray:
    """Anonymous memory at a multiple of 2 MiB, with MADV_HUGEPAGE or MADV_NOHUGEPAGE; nothing of it exists yet.

    madvise(2): a kernel built without huge pages answers EINVAL. Then there are only small ones, which is what
    `huge=False` asks for; for `huge=True` the OSError goes on.
    """
    page = os.sysconf("SC_PAGESIZE")
    length = -(-size_bytes // page) * page
    reserved = length + HUGE_PAGE_BYTES
    with contextlib.ExitStack() as undo:
        start = libc.mmap(reserved, libc.MAP_PRIVATE | libc.MAP_ANONYMOUS)
        undo.callback(libc.munmap, start, reserved)
        address = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        try:
            libc.madvise(address, length, libc.MADV_HUGEPAGE if huge else libc.MADV_NOHUGEPAGE)
        except OSError as error:
            if huge or error.errno != errno.EINVAL:
                raise
        memory = HostArray(owner, address, size_bytes, undo.pop_all().close)
        memory.pageable = True
        return memory
