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
_CONTENDED, _OWNER_AT = 2, 8
_DESCRIPTORS = frozenset(
    {"read", "write", "readv", "writev", "pread64", "pwrite64", "ioctl", "connect", "accept", "accept4", "sendto"}
    | {"sendmsg", "recvfrom", "recvmsg", "fsync", "fdatasync", "flock"}
)
"""Calls whose first argument is a descriptor."""
_CHILDREN = "wait4", "waitid"
_TAKES_GIL, GIL = "take_gil", "for the GIL"


class Noted(NamedTuple):
    """What the arguments of a waiting thread's system call led to, while it waited."""

    word: int = 0
    """A futex, and …"""
    owner: int = 0
    """… what is where a mutex has its owner."""
    file: str = ""
    """What the descriptor is of."""


class WaitedFor(NamedTuple):
    """What a thread waits for, as it goes on after `waits`; whom."""

    words: str
    on: tuple[int, ...] = ()


def noted(pid: int, look: ThreadLook) -> Noted:
    """Read it; what may not be read is left out."""
    if look.system_call in _DESCRIPTORS:
        return Noted(file=file_of(pid, look.call[1]))
    if look.system_call != "futex":
        return Noted()
    try:
        (word,) = struct.unpack("<I", read(pid, look.call[1], 4))
        return Noted(word, struct.unpack("<I", read(pid, look.call[1] + _OWNER_AT, 4))[0])
    except (LookupError, Gone):
        return Noted()


def waited_for(look: ThreadLook, known: Noted, names: dict[int, str], functions: Sequence[str]) -> WaitedFor | None:
    """What a thread that stands still waits for; None where its call does not say it.

    `names` are the threads of its process, `functions` its stack, innermost first.
    """
    if _TAKES_GIL in functions:
        return WaitedFor(GIL)
    if look.system_call == "futex":
        return _of_futex(look, known, names)
    if known.file:
        return WaitedFor(f"in {look.system_call} of {known.file}")
    if look.system_call in _CHILDREN:
        child = look.call[1] if look.system_call == "wait4" else look.call[2] if look.call[1] == 1 else 0
        return WaitedFor(f"for its child {child} to end", (child,)) if 0 < child < 1 << 31 else None
    return None


def _of_futex(look: ThreadLook, known: Noted, names: dict[int, str]) -> WaitedFor | None:
    operation, expected = look.call[2] & _OPERATION, look.call[3] & 0xFFFFFFFF
    owner = 0
    if operation in (_LOCK_PI, _LOCK_PI2):
        owner = known.word & _OWNER
    elif operation in (_WAIT, _WAIT_BITSET) and expected == _CONTENDED == known.word:
        owner = known.owner
    elif operation in (_WAIT, _WAIT_BITSET) and expected == known.word in names and known.word != look.tid:
        return WaitedFor(f"for {named(known.word, names)} to end", (known.word,))
    return WaitedFor(f"for a lock that {named(owner, names)} holds", (owner,)) if owner in names else None


def named(tid: int, names: dict[int, str]) -> str:
    """`thread 12 (loader)`."""
    return f"thread {tid} ({names[tid]})" if names.get(tid) else f"thread {tid}"


def only(tids: Collection[int]) -> tuple[int, ...]:
    """The one of these, where there is no other."""
    return tuple(tids) if len(tids) == 1 else ()
