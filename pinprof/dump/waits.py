"""What a thread waits for, and on whom: by its system call's arguments, a lock's own memory, and its stack.

A pthread mutex has its owner's thread id behind its lock word, which is 2 while others wait (nptl/lowlevellock.h,
sysdeps/nptl/bits/struct_mutex.h); a futex with priority inheritance has it in the word itself (futex(2)). Whoever joins
a thread waits for a word with that one's id to become 0.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pinprof.collect.python_frames.memory import Gone, read
from pinprof.dump.system import ThreadLook, file_of

_WAIT, _WAIT_BITSET, _LOCK_PI, _LOCK_PI2 = 0, 9, 6, 13
"""Operations of futex(2)."""
_OPERATION, _OWNER = 127, 0x3FFFFFFF
_CONTENDED = 2
_DESCRIPTORS = frozenset(
    {"read", "write", "readv", "writev", "pread64", "pwrite64", "ioctl", "connect", "accept", "accept4", "sendto"}
    | {"sendmsg", "recvfrom", "recvmsg", "fsync", "fdatasync", "flock"}
)
"""Calls whose first argument is a descriptor."""
_CHILDREN = "wait4", "waitid"
_TAKES_GIL, GIL = "take_gil", "for the GIL"


class WaitedFor(NamedTuple):
    """What a thread waits for, as it goes on after `waits`; whom."""

    words: str
    on: tuple[int, ...] = ()


def waited_for(pid: int, look: ThreadLook, names: dict[int, str], functions: Sequence[str]) -> WaitedFor | None:
    """What a thread that stands still waits for; None where its call does not say it.

    `names` are the threads of its process, `functions` its stack, innermost first.
    """
    if _TAKES_GIL in functions:
        return WaitedFor(GIL)
    if look.system_call == "futex":
        return _of_futex(pid, look, names)
    if look.system_call in _DESCRIPTORS and (path := file_of(pid, look.call[1])):
        return WaitedFor(f"in {look.system_call} of {path}")
    if look.system_call in _CHILDREN:
        child = look.call[1] if look.system_call == "wait4" else look.call[2] if look.call[1] == 1 else 0
        return WaitedFor(f"for its child {child} to end", (child,)) if 0 < child < 1 << 31 else None
    return None


def _of_futex(pid: int, look: ThreadLook, names: dict[int, str]) -> WaitedFor | None:
    address, operation, expected = look.call[1], look.call[2] & _OPERATION, look.call[3] & 0xFFFFFFFF
    try:
        (word,) = struct.unpack("<I", read(pid, address, 4))
        owner = struct.unpack("<I", read(pid, address + 8, 4))[0] if expected == _CONTENDED else 0
    except (LookupError, Gone):
        return None
    if operation in (_LOCK_PI, _LOCK_PI2):
        return _held(word & _OWNER, names)
    if operation not in (_WAIT, _WAIT_BITSET):
        return None
    if expected == _CONTENDED == word:
        return _held(owner, names)
    if expected == word and word in names and word != look.tid:
        return WaitedFor(f"for {named(word, names)} to end", (word,))
    return None


def _held(owner: int, names: dict[int, str]) -> WaitedFor | None:
    if owner not in names:
        return None
    return WaitedFor(f"for a lock that {named(owner, names)} holds", (owner,))


def named(tid: int, names: dict[int, str]) -> str:
    """`thread 12 (loader)`."""
    return f"thread {tid} ({names[tid]})" if names.get(tid) else f"thread {tid}"


def only(tids: Collection[int]) -> tuple[int, ...]:
    """The one of these, where there is no other."""
    return tuple(tids) if len(tids) == 1 else ()
