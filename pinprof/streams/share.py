"""A copy of a capture to give to others: it reads the same, and holds no address of the kernel that it was recorded on.

Where the kernel lies in memory differs at every boot, and is kept from ordinary users, because attacks on the kernel
need it. A capture made by root says it: in the table of the kernel's symbols, in every call chain that goes through the
kernel, and in what other tools noted. The copy is made of the same files without the table and the logs; every address
of the kernel is moved, neighbours together, so that functions keep their names, their order and their distances. What
older or interrupted recordings hold of the program's memory is overwritten. A capture with a file of which no stream
says how that is done is not copied.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from pathlib import Path

import numpy as np

from pinprof.base import files
from pinprof.base.errors import CaptureError, CollectError, PinprofError, unwritable
from pinprof.streams import owner, store
from pinprof.streams.scrubs import MovedAddresses, Scrub
from pinprof.streams.stream import found

_NAMED = 4
"""Unknown files that a message names."""


def share(capture: Path, target: Path) -> Path:
    """Write the copy, under a name that nothing has yet; its path.

    CaptureError where the capture cannot be read or shared, CollectError where the copy cannot be written.
    """
    store.refuse_links(capture)
    store.read_manifest(capture)
    scrubs = _scrubs(capture)
    target = store.captured(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(files.PRIVATE_FOLDER)
    except FileExistsError as error:
        raise CollectError(f"{target} exists already.", "Give another name with -o.", "output") from error
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        _copy(capture, target, scrubs)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, PinprofError):
            error.problem = error.problem.replace(str(target), str(capture))
        if isinstance(error, OSError):
            raise unwritable(target, error) from error
        if isinstance(error, ValueError | KeyError | TypeError | EOFError | struct.error | sqlite3.Error):
            problem = f"{capture} cannot be copied without kernel addresses: {error}."
            raise CaptureError(problem, "Share its page instead: `pinprof report`.", "share") from error
        raise
    return target


def _scrubs(capture: Path) -> dict[str, Scrub]:
    """How each file of a capture is made fit for others, by its path in there; CaptureError where that is not known."""
    names = sorted(str(path.relative_to(capture)) for path in capture.rglob("*") if not path.is_dir())
    streams = {name: owner(name) for name in names}
    unknown = [name for name, stream in streams.items() if stream is None or not stream.scrub]
    if unknown:
        what = f"{', '.join(unknown[:_NAMED])} {'says' if len(unknown) == 1 else 'say'}"
        raise CaptureError(
            f"{capture} cannot be shared: pinprof does not know what {what}.",
            "Remove what pinprof did not write from a copy of the capture, or share its page: `pinprof report`.",
            "share",
        )
    scrubs = {name: found(stream.scrub) for name, stream in streams.items() if stream}
    return {name: scrub for name, scrub in scrubs.items() if not scrub.left_out}


def _copy(capture: Path, target: Path, scrubs: dict[str, Scrub]) -> None:
    for name in scrubs:
        (target / name).parent.mkdir(files.PRIVATE_FOLDER, exist_ok=True)
        files.copied(capture / name, target / name)
    for name, scrub in scrubs.items():
        scrub.blank(target / name)
    words = [np.zeros(0, np.uint64)]
    for name, scrub in scrubs.items():
        words += scrub.addresses(target / name)
    moved = MovedAddresses(np.concatenate(words))
    for name, scrub in scrubs.items():
        scrub.change(target / name, moved)
