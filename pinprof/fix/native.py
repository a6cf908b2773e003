"""C, C++ and CUDA: only lines at the end of a file are added, which run before main; the compiler judges the rest.

What a buffer's life is, and who else has its address, the text of such a program does not tell. So no line of it
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinprof.base.lazy_dataclass import dataclass
from pinprof.fix.source import Marks

SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu"})
_INSERTED = {
    "kept_memory": """
#include <malloc.h>

/* malloc keeps freed memory (pinprof fix) */
__attribute__((constructor)) static void keep_freed_memory(void)
{
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 2147483647);
}
"""
}
"""By the name of the file of `inserted/` that does the same in Python."""


@dataclass(frozen=True)
class NativeFile:
    """A source that is compiled into the program."""

    text: str

    def imports(self, _: str) -> bool:
        """It has no modules of Python."""
        return False

    def changed(self, _: Marks, inserted: Sequence[str]) -> str:
        """The text with lines at its end."""
        end = "" if self.text.endswith("\n") or not self.text else "\n"
        return self.text + end + "".join(_INSERTED[name] for name in dict.fromkeys(inserted))
