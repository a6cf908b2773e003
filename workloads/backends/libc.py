"""The C library's memory functions, checked; ctypes lets other Python threads run during every call."""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import c_int, c_long, c_size_t, c_void_p

PROT_READ_WRITE = 0x1 | 0x2
MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_POPULATE = 0x01, 0x02, 0x20, 0x8000
MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE = 4, 14, 15
"""Linux's numbers, the same on x86-64 and arm64 (include/uapi/asm-generic/mman*.h)."""

M_MMAP_THRESHOLD = -3
MMAP_THRESHOLD_BYTES = 128 * 1024
"""glibc's initial threshold (mallopt(3)); left alone it would grow to 32 MiB with the first free."""

_libc = ctypes.CDLL(None, use_errno=True)
for _name, _result, *_arguments in (
    ("malloc", c_void_p, c_size_t),
    ("free", None, c_void_p),
    ("mallopt", c_int, c_int, c_int),
    ("mmap", c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_long),
    ("munmap", c_int, c_void_p, c_size_t),
    ("madvise", c_int, c_void_p, c_size_t, c_int),
    ("memcpy", c_void_p, c_void_p, c_void_p, c_size_t),
    ("wmemset", c_void_p, c_void_p, c_int, c_size_t),
    ("wmemchr", c_void_p, c_void_p, c_int, c_size_t),
    ("syscall", c_long),
):
    _function = getattr(_libc, _name)
    _function.restype = _result
    if _name != "syscall":
        _function.argtypes = _arguments

_MAP_FAILED = c_void_p(-1).value


def use_fresh_pages() -> None:
    """Let malloc map every block of 128 KiB and more for itself, also after earlier ones were freed.

    Otherwise glibc raises its threshold with the first free, and later iterations would reuse pages already touched.
    """
    _libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def malloc(size_bytes: int) -> int:
    """Address of a new block; MemoryError when there is none."""
    address: int | None = _libc.malloc(size_bytes)
    if not address:
        raise MemoryError
    return address


def free(address: int) -> None:
    """Give back a block of malloc."""
    _libc.free(address)


def mmap(size_bytes: int, flags: int, file: int = -1) -> int:
    """Address of a new readable and writable mapping; MemoryError when there is no room, else OSError."""
    address: int = _libc.mmap(None, size_bytes, PROT_READ_WRITE, flags, file, 0)
    if address == _MAP_FAILED:
        if ctypes.get_errno() == errno.ENOMEM:
            raise MemoryError
        raise _error("mmap")
    return address


def munmap(address: int, size_bytes: int) -> None:
    """Remove a mapping."""
    if _libc.munmap(address, size_bytes):
        raise _error("munmap")


def madvise(address: int, size_bytes: int, advice: int) -> None:
    """Advise the kernel about a page-aligned range."""
    if _libc.madvise(address, size_bytes, advice):
        raise _error("madvise")


def memcpy(target: int, source: int, size_bytes: int) -> None:
    """Copy between ranges that do not overlap."""
    _libc.memcpy(target, source, size_bytes)


def wmemset(address: int, word: int, count: int) -> None:
    """Write a 32-bit pattern `count` times."""
    _libc.wmemset(address, word, count)


def wmemchr(address: int, word: int, count: int) -> int | None:
    """Address of the first of `count` 32-bit words that equals `word`; reads all of them when none does."""
    found: int | None = _libc.wmemchr(address, word, count)
    return found


def syscall(name: str, number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """A raw system call; OSError names it. Integers are passed as longs, buffers by address."""
    converted = [c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = _libc.syscall(c_long(number), *converted)
    if result < 0:
        raise _error(name)
    return result


def _error(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")
