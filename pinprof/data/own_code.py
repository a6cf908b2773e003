"""Which source files are the program's own, and which are a library's: by their paths, in every language."""

from __future__ import annotations

import re
from functools import lru_cache

_SCENARIO = re.compile(r"/pinprof/workloads/\w+\.py$")
"""Scenarios are programs, also where they are installed; the backends that they run on are a library."""
_LIBRARY = re.compile(
    r"/workloads/(backends/\w+\.py)$|"
    r"/lib(?:64)?/python\d[\d.]*t?/(?:(?:site|dist)-packages/)?(.+)|/(?:site|dist)-packages/(.+)|<frozen (.+)>",
    re.DOTALL,
)
_PACKAGE = re.compile(r".*/(?:site|dist)-packages/([^/]+)")
_HEADERS = re.compile(
    r"/usr/(?:local/)?include/(?:[^/]+-linux-gnu[^/]*/)?(?:c\+\+/[^/]+/)?(.+)|/include/c\+\+/[^/]+/(.+)|"
    r"/usr/lib/(?:gcc|llvm)[^/]*/.*/include/(.+)|"
    r"/cuda[^/]*/(?:targets/[^/]+/)?include/(.+)|/rustc/[0-9a-f]{40}/(.+)|/rustlib/src/rust/(.+)|"
    r"/\.cargo/(?:registry/src|git/checkouts)/[^/]+/(.+)|"
    r"/(torchinductor_[^/]+/.+)|/\.triton/(cache/.+)|/\.cupy/(kernel_cache/.+)",
    re.DOTALL,
)
"""Sources that are a library's: C, C++, CUDA, Rust; and what PyTorch Inductor, Triton and CuPy write and compile."""


def is_text(path: str) -> bool:
    """Whether this is code of Python that was compiled from text: no file holds it.

    Named tuples, dataclasses, `timeit` and `exec` make such code, and `python -c` has no other.
    """
    return path.startswith("<") and path.endswith(">") and not path.startswith("<frozen ")


@lru_cache(1 << 14)
def library_part(path: str) -> str:
    """The path of a source file within its library; empty for the program's own code."""
    library = None if _SCENARIO.search(path) else _LIBRARY.search(path) or _HEADERS.search(path)
    return next((part for part in library.groups() if part), "") if library else ""


def package_of(path: str) -> str:
    """The installed package of Python that a source file belongs to, as its folder or file is named; empty for none."""
    package = _PACKAGE.match(path)
    return package[1].removesuffix(".py") if package else ""
