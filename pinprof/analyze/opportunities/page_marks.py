"""What a stack says of the memory that the kernel handles in it: whose pages they are, and what is done with them."""

from __future__ import annotations

import re

import numpy as np

from pinprof.analyze.opportunities.scene import Scene
from pinprof.base.columns import looked_up, packed
from pinprof.base.lazy_dataclass import dataclass
from pinprof.data.model import Bool

FREES = ("free.unmap", "free.shmem", "mm.vma")
PINS = ("pin.faultin", "pin.walk", "pin.account", "unpin")

_CALL = r"(__\w+_sys_|ksys_|sys_)"
HUGE = re.compile(r"\w*(huge_pmd|huge_page|folio_zero_user|clear_subpage|clear_gigantic)\w*")
_LOCKED = re.compile(
    r"(copy_mc_\w+|copy_(user_)?highpage\w*|copy_user_(large_|gigantic_)?(folio|huge_page|page)\w*|copy_subpage|"
    r"copy_page(_rep|_erms|_orig|_mc)?|copy_present_page)(\.\w+)*"
)
"""Copies of pages. A fork shares all others: it copies those that are pinned, since a device goes on using them."""
_FORK = re.compile(r"(copy_page_range|dup_mmap|dup_mm|exec_mmap|begin_new_exec|_?_?(libc_)?v?fork)(\.\w+)*")
_SHARED = re.compile(r"shmem_\w+(\.\w+)*")
_COPIES = re.compile(r"(do_cow_fault|copy_mc_\w+|wp_page_copy|do_wp_page|__wp_page_copy_user)(\.\w+)*")
_COPYING = re.compile(r"(do_cow_fault|wp_page_copy|__wp_page_copy_user|copy_(mc|page|user|highpage)\w*)(\.\w+)*")
_OF_FILE = re.compile(r"(do_fault|__do_fault|do_(read|cow)_fault|filemap_\w+|finish_fault)(\.\w+)*")
_OF_CACHE = re.compile(r"(filemap_\w+|next_uptodate_\w+|do_fault_around|\w+_(filemap|dax)_fault)(\.\w+)*")
_TO_FILE = re.compile(r"(do_page_mkwrite|\w+_page_mkwrite)(\.\w+)*")
_MAPPING_CALL = re.compile(r"(__)?(GI_+)?(mmap(64)?|munmap|mremap|madvise|mprotect|brk|sbrk)")
_SYNC = re.compile(rf"{_CALL}(msync|fsync|fdatasync|sync_file_range)(\.\w+)*")
_PROTECTS = re.compile(rf"({_CALL}(pkey_)?mprotect|do_mprotect_pkey|mprotect_fixup|change_protection\w*)(\.\w+)*")
_ADVISES = re.compile(rf"({_CALL}(process_)?madvise|do_madvise)(\.\w+)*")
_DROPS = re.compile(r"madvise_(free|dontneed)\w*(\.\w+)*")
_FREE_LAZILY = re.compile(r"madvise_free_\w+(\.\w+)*")
_OF_SIGNAL = re.compile(r"(__)?restore_rt|__kernel_rt_sigreturn|<signal handler called>")
_DENIED = re.compile(r"(__)?bad_area\w*(\.\w+)*")
_ALLOCATOR = re.compile(
    r"_*(libc_)?(malloc|free|calloc|realloc|memalign|posix_memalign|aligned_alloc|cfree|int_malloc|int_free\w*"
    r"|int_realloc|malloc_consolidate|sysmalloc\w*|systrim\S*|heap_trim\S*|grow_heap\S*|shrink_heap\S*|new_heap\S*"
    r"|arena_get\w*)(\.\w+)*|operator (new|delete).*|(mi|je|tc|tcmalloc|rpmalloc|scudo|PyObject|PyMem)_\w+"
    r"|(arena_(decay|purge)|pages_(purge|decommit)|extent_(purge|dalloc))\w*|tcmalloc::.*|runtime\.\w.*"
)
"""Allocators, and run-time systems that give memory back by themselves: no program calls madvise or mprotect there."""
_OF_OBJECTS = re.compile(
    r"(_PyObject_(Malloc|Alloc|Calloc|Realloc|Free|Arena\w+)|pymalloc_\w+|allocate_from_new_pool)(\.\w+)*"
)
_MALLOC = re.compile(
    r"_*(libc_)?(malloc|calloc|realloc|free|cfree|(int|sys)_?(malloc|realloc|free)\w*|munmap_chunk)(\.\w+)*"
)


@dataclass(frozen=True)
class PageMarks:
    """Per wall row what its cause and its stack say."""

    huge: Bool
    fork: Bool
    locked: Bool
    """A fork copies pages: page-locked ones."""
    shared: Bool
    """Shared memory that is no file on a disk."""
    copies: Bool
    copying: Bool
    """The copying itself."""
    of_file: Bool
    """Handlers of files' pages run."""
    of_cache: Bool
    """Handlers of pages that the page cache has of files run, or it was concluded that pages are of files."""
    file: Bool
    anonymous: Bool
    zero: Bool
    """Pages of zeros that are written after they were read; they are `anonymous` too."""
    to_file: Bool
    """First writes to clean pages of a shared file."""
    syncs: Bool
    """The program writes files back."""
    of_objects: Bool
    """Python's allocator of small objects works there: no program can keep its arenas."""
    frees: Bool
    freed_shared: Bool
    drops: Bool
    """The program drops pages by madvise; where they are dropped at once, that is one of `frees`."""
    drops_lazily: Bool
    """As `drops`, but the kernel takes the pages only when it needs them."""
    protects: Bool
    signals: Bool
    """Signals, in a program that gets them for protected pages."""
    handlers: Bool
    """What a handler of signals does with the protection of memory."""
    pins: Bool
    unpins: Bool
    created: Bool
    """A pin makes the pages."""

    @classmethod
    def of(cls, scene: Scene) -> PageMarks:
        """Each looked up once for all places."""
        copies = (scene.has(_COPIES) & scene.caused_by("fault.anon", "fault.file")) | scene.caused_by("fault.cow")
        fork, own = scene.has(_FORK), ~scene.has(_ALLOCATOR)
        given = (scene.caused_by(*FREES) | enters_mappings(scene)) & ~fork
        protects = given & scene.has(_PROTECTS) & own
        drops = given & own & (scene.has(_DROPS) | (scene.has(_ADVISES) & scene.caused_by("free.unmap")))
        lazily = drops & scene.has(_FREE_LAZILY)
        zero, shared = scene.caused_by("fault.zero"), scene.has(_SHARED)
        signals, denied = scene.caused_by("sys.signal"), scene.has(_DENIED)
        to_file = scene.caused_by("fault.shared") | (scene.caused_by("fault.file") & scene.has(_TO_FILE))
        marks = {
            "huge": scene.has(HUGE),
            "fork": fork,
            "locked": fork & scene.has(_LOCKED),
            "shared": shared,
            "copies": copies,
            "copying": copies & scene.has(_COPYING),
            "of_file": scene.has(_OF_FILE),
            "of_cache": (scene.has(_OF_CACHE) & ~shared) | (scene.has(_OF_FILE) & _inferred(scene)),
            "file": scene.caused_by("fault.file") & ~copies & ~to_file,
            "anonymous": (scene.caused_by("fault.anon") & ~copies) | zero,
            "zero": zero,
            "to_file": to_file,
            "syncs": scene.has(_SYNC) & scene.caused_by("sys.io", "sys.io.cache", "wait.disk"),
            "of_objects": scene.has(_OF_OBJECTS) & ~scene.has(_MALLOC),
            "frees": given & ~protects & ~lazily,
            "freed_shared": scene.caused_by("free.shmem"),
            "drops": drops,
            "drops_lazily": lazily,
            "protects": protects,
            "signals": signals & bool((signals & denied).any()),
            "handlers": protects & scene.has(_OF_SIGNAL),
            "pins": scene.caused_by(*PINS),
            "unpins": scene.caused_by("unpin"),
            "created": scene.caused_by("pin.faultin"),
        }
        # Most occur in few programs.
        return cls(**{name: packed(mask) for name, mask in marks.items()})


def enters_mappings(scene: Scene) -> Bool:
    """Per wall row, whether the thread enters or leaves the kernel for a change of mappings: that is a part of it."""
    return np.asarray(scene.caused_by("sys.entry") & scene.has(_MAPPING_CALL))


def _inferred(scene: Scene) -> Bool:
    """Per wall row, whether what the kernel did there was concluded: from what memory grew by."""
    inferred = np.array([event.inferred for event in scene.capture.events], np.bool_)
    return looked_up(inferred, looked_up(scene.capture.samples.event, scene.course.wall.sample))
