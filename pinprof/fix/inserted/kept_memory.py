"""What `pinprof fix` inserts for memory that is allocated and freed repeatedly: glibc's malloc keeps it.

The same as the cure `glibc-keep-memory` of `pinprof try`, with functions instead of variables. What a program computes
does not depend on where malloc takes memory from. Without glibc nothing changes. M_MMAP_MAX is -4 and M_TRIM_THRESHOLD
is -1 in malloc.h; the GNU C Library manual, section 3.2.3, explains them. The text below the marker is inserted as is.
"""


# fmt: off
# ---- inserted
def _keep_memory():
    """The C library keeps freed memory: M_MMAP_MAX, M_TRIM_THRESHOLD (pinprof fix)."""
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-4, 0)
        libc.mallopt(-1, 2**31 - 1)


_keep_memory()
