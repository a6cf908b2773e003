"""What can be tried without a change of code, as rows; `fix/` makes such rows of changed code.

A row answers opportunities by the ids of their cures (`analyze/opportunities/catalogue.py`). Where the row does what
that cure does, the opportunity's saving is its prediction; where it is another way round the same trouble, it is tried
without one.

Sources are named in the rows. The settings of glibc, PyTorch and CUDA are their makers'; what the agent does
(`inside/cures.h`) is pinprof's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pinprof.analyze.opportunities.knobs import setting
from pinprof.analyze.sites import Site
from pinprof.base.lazy_dataclass import dataclass
from pinprof.trial.environment import Setting

_GLIBC = "The GNU C Library manual, sections 3.2.3 (malloc tunable parameters) and 39.1 (tunables)"
_TORCH = "docs.pytorch.org/docs/stable/notes/cuda.html, “Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF”"
_OURS = "pinprof/inside"

MEMORY_VARIABLE, CUDA_VARIABLE = "PINPROF_TRY_MEMORY", "PINPROF_TRY_CUDA"
"""What the agent is to do: words separated by commas."""


@dataclass(frozen=True)
class TrialCure:
    """One thing to try."""

    id: str
    title: str
    """As the subject of `… saves 0.4 s`."""
    changes: str
    """What it does to the run, one sentence."""
    settings: tuple[Setting, ...]
    predicted_by: frozenset[str]
    """Cures of opportunities that it carries out: their savings are its prediction."""
    tried_for: frozenset[str]
    """Cures of opportunities whose trouble it may spare in another way."""
    costs: str
    """What it takes in memory."""
    permanent: str
    """How to keep it."""
    source: str
    by_agent: bool = False
    """Whether the agent carries it out, loaded into the program."""
    needs: Literal["", "torch", "cuda"] = ""
    """What the program must use for it to act."""
    command: tuple[str, ...] = ()
    """What runs instead of the program: a changed copy of it; empty: the program itself."""
    places: frozenset[str] = frozenset()
    """Where the opportunities are whose savings are its prediction (`FILE:LINE`); empty: anywhere."""

    @property
    def answers(self) -> frozenset[str]:
        """Cures of opportunities for which it is tried."""
        return self.predicted_by | self.tried_for

    def is_at(self, site: Site) -> bool:
        """Whether it acts on what an opportunity is about."""
        return not self.places or site.place in self.places


def _settings(knob: str) -> tuple[Setting, ...]:
    """The variables of a row of the table of options, each as one value."""
    parts = (words.partition("=") for words in setting(knob).split())
    return tuple(Setting(name, value) for name, _, value in parts)


def _entries(knob: str, separator: str, between: str, *others: str) -> tuple[Setting, ...]:
    """The same, each entry of their lists by itself."""
    return tuple(
        Setting(one.name, entry, separator, between, others)
        for one in _settings(knob)
        for entry in one.value.split(separator)
    )


_HUGE, _KEEP = _entries("glibc-huge-pages", ":", "="), _settings("glibc-keep-memory")
_FRESH = frozenset({"huge-pages", "reuse-memory"})
"""Cures of first writes to new memory."""
_PAGEABLE = frozenset({"pinned-buffer", "pin-source"})
"""Cures of copies from and to pageable memory."""


def _export(*settings: Setting) -> str:
    return "export " + " ".join(setting.text for setting in settings)


_ROWS = (
    TrialCure(
        "glibc-huge-pages",
        "huge pages for malloc",
        "glibc requests huge pages for the heap and for mapped blocks.",
        _HUGE,
        predicted_by=frozenset({"huge-pages"}),
        tried_for=frozenset({"reuse-memory"}) | _PAGEABLE,
        costs="Up to 2 MiB more for each large block.",
        permanent=_export(*_HUGE),
        source=f"{_GLIBC}; glibc 2.35 or later",
    ),
    TrialCure(
        "glibc-keep-memory",
        "keeping freed memory",
        "malloc takes large blocks from the heap and returns no memory to the kernel.",
        _KEEP,
        predicted_by=frozenset({"reuse-memory"}),
        tried_for=frozenset({"huge-pages"}) | _PAGEABLE,
        costs="Freed memory stays with the process; the heap grows in steps of 256 MiB of addresses.",
        permanent=_export(*_KEEP),
        source=_GLIBC,
    ),
    TrialCure(
        "glibc-keep-huge-pages",
        "huge pages that malloc keeps",
        "Combines both: the heap also holds large blocks, uses huge pages and returns no memory to the kernel.",
        (*_HUGE, *_KEEP),
        predicted_by=_FRESH,
        tried_for=_PAGEABLE,
        costs="Freed memory stays with the process, in pages of 2 MiB.",
        permanent=_export(*_HUGE, *_KEEP),
        source=f"{_GLIBC}; glibc 2.35 or later",
    ),
    TrialCure(
        "torch-huge-pages",
        "huge pages for PyTorch's CPU tensors",
        "PyTorch's CPU allocator aligns large tensors and requests huge pages.",
        _settings("torch-huge-pages"),
        predicted_by=frozenset({"huge-pages"}),
        tried_for=frozenset({"reuse-memory"}) | _PAGEABLE,
        costs="Up to 2 MiB more for each large tensor.",
        permanent=_export(*_settings("torch-huge-pages")),
        source="PyTorch's c10/core/impl/alloc_cpu.cpp",
        needs="torch",
    ),
    TrialCure(
        "torch-register-pins",
        "registering what PyTorch pins",
        "PyTorch touches pinned memory with 8 threads and then registers it, instead of cudaHostAlloc.",
        _entries("torch-registers-pins", ",", ":", "PYTORCH_ALLOC_CONF"),
        predicted_by=frozenset({"touch-then-register"}),
        tried_for=frozenset({"pool-pinned"}),
        costs="None.",
        permanent=_export(*_settings("torch-registers-pins")),
        source=_TORCH,
        needs="torch",
    ),
    TrialCure(
        "torch-exact-pins",
        "pinning the exact size",
        "PyTorch no longer rounds pinned blocks above 64 MiB up to a power of two.",
        _entries("torch-pins-exactly", ",", ":", "PYTORCH_CUDA_ALLOC_CONF"),
        predicted_by=frozenset({"pin-exact"}),
        tried_for=frozenset({"pin-less"}),
        costs="None: it pins less.",
        permanent=_export(*_settings("torch-pins-exactly")),
        source="PyTorch's pull request 171662 of 2026; only later releases",
        needs="torch",
    ),
    TrialCure(
        "cuda-lazy-loading",
        "lazy loading of kernels",
        "CUDA loads each kernel at its first launch, instead of all kernels at the start.",
        (Setting("CUDA_MODULE_LOADING", "LAZY"),),
        predicted_by=frozenset(),
        tried_for=frozenset({"context-early"}),
        costs="None: it loads less.",
        permanent=_export(Setting("CUDA_MODULE_LOADING", "LAZY")),
        source="CUDA C++ Programming Guide, “Lazy Loading”; the default since CUDA 12.2",
        needs="cuda",
    ),
    TrialCure(
        "large-blocks",
        "a pool of huge pages for large blocks",
        "malloc takes blocks of 1 MiB or more from huge pages, and keeps them after they are freed.",
        (Setting(MEMORY_VARIABLE, "blocks"),),
        predicted_by=_FRESH,
        tried_for=_PAGEABLE,
        costs="Freed blocks stay with the process. Each block takes whole 2 MiB pages, up to an eighth more memory.",
        permanent="Allocate large buffers once and reuse them, or " + _export(*_HUGE, *_KEEP),
        source=f"{_OURS}/cure_memory.c",
        by_agent=True,
    ),
    TrialCure(
        "populate-files",
        "mapping files at once",
        "mmap of a file maps all of its pages at once (MAP_POPULATE).",
        (Setting(MEMORY_VARIABLE, "files"),),
        predicted_by=frozenset({"map-at-once"}),
        tried_for=frozenset({"read-file"}),
        costs="A private mapping that can be written has a copy of the whole file.",
        permanent="Add MAP_POPULATE to the flags of mmap; Python has mmap.MAP_POPULATE.",
        source=f"{_OURS}/cure_memory.c; mmap(2)",
        by_agent=True,
    ),
    TrialCure(
        "unshared-forks",
        "forks without the large blocks",
        "Forked children do not have the blocks of 1 MiB and more, so that writing to them copies nothing.",
        (Setting(MEMORY_VARIABLE, "blocks,unshared"),),
        predicted_by=frozenset({"spawn"}),
        tried_for=frozenset(),
        costs="Same as a pool of huge pages for large blocks.",
        permanent="Start helpers before the memory is filled, or spawn them instead of forking.",
        source=f"{_OURS}/cure_memory.c; madvise(2), MADV_DONTFORK",
        by_agent=True,
    ),
    TrialCure(
        "pinned-pool",
        "a pool of pinned memory",
        "Pinned memory comes from huge pages that several threads touch before they are registered, and is kept.",
        (Setting(CUDA_VARIABLE, "pins"),),
        predicted_by=frozenset({"pool-pinned", "touch-then-register"}),
        tried_for=frozenset({"pin-less"}),
        costs="Freed pinned memory stays pinned until the program ends; blocks are up to an eighth larger.",
        permanent="Pin once and reuse the buffers; touch huge pages with several threads before cudaHostRegister.",
        source=f"{_OURS}/cure_cuda.c",
        by_agent=True,
        needs="cuda",
    ),
    TrialCure(
        "pinned-pieces",
        "pinning in pieces",
        "Pinned memory is registered in pieces of 256 MiB, so that other CUDA calls can run in between.",
        (Setting(CUDA_VARIABLE, "pins,pieces"),),
        predicted_by=frozenset({"pin-in-pieces"}),
        tried_for=frozenset(),
        costs="Same as a pool of pinned memory.",
        permanent="Register in pieces of 256 MiB, and copy within one piece at a time.",
        source=f"{_OURS}/cure_cuda.c",
        by_agent=True,
        needs="cuda",
    ),
    TrialCure(
        "pinned-ring",
        "copying through a pinned ring",
        "Copies of pageable memory go through a ring of pinned buffers, which is allocated once and filled by "
        "several threads.",
        (Setting(CUDA_VARIABLE, "ring"),),
        predicted_by=frozenset(),
        tried_for=_PAGEABLE,
        costs="32 MiB of pinned memory for each context.",
        permanent="Copy through pinned buffers, and allocate them once: cudaMallocHost, or pin_memory=True.",
        source=f"{_OURS}/cure_cuda.c",
        by_agent=True,
        needs="cuda",
    ),
    TrialCure(
        "registered-blocks",
        "registering large blocks once",
        "malloc keeps large blocks in huge pages, and each block is registered with CUDA at its first copy.",
        (Setting(MEMORY_VARIABLE, "blocks"), Setting(CUDA_VARIABLE, "register")),
        predicted_by=_PAGEABLE,
        tried_for=_FRESH,
        costs="Large blocks that are copied stay pinned until the program ends.",
        permanent="Pin the copied buffers once: cudaMallocHost, cudaHostRegister, or pin_memory=True.",
        source=f"{_OURS}/cure_cuda.c, cure_memory.c",
        by_agent=True,
        needs="cuda",
    ),
)

CURES: Mapping[str, TrialCure] = MappingProxyType({row.id: row for row in _ROWS})
"""By id, in the order in which they are listed."""


def answering(cure_ids: frozenset[str]) -> tuple[TrialCure, ...]:
    """The rows to try for opportunities with these cures."""
    return tuple(row for row in CURES.values() if row.answers & cure_ids)
