"""What `pinprof fix` inserts for memory that is allocated and freed again and again: glibc's malloc keeps it.

The same as the cure `glibc-keep-memory` of `pinprof try`, with functions instead of variables. What a program computes
does not depend on where malloc takes memory from. Without glibc nothing changes. M_MMAP_MAX is -4 and M_TRIM_THRESHOLD
is -1 in malloc.h; the GNU C Library manual, section 3.2.3, explains them. The text below the marker is inserted as is.
"""

# fmt: off
# ---- inserted
import ctypes as _ctypes
import sys as _sys

if _sys.platform == "linux" and hasattr(_ctypes.CDLL(None), "mallopt"):  # malloc keeps freed memory (pinprof fix)
    _ctypes.CDLL(None).mallopt(-4, 0)  # M_MMAP_MAX: large blocks come from the heap too
    _ctypes.CDLL(None).mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap stays as it is
