"""The kernel's symbols, copied while they are true: addresses change with every boot and every module loaded.

Written before the program runs, so that a disk that fills up while recording cannot lose them, and again after it when
modules came or went meanwhile. The kernel takes a twentieth of a second to spell them out, so `Copying` does it beside
the start of the recorders. They are packed, since a small disk has to hold them, and go once the symbols that were seen
are stored (`Reading.seal`).
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CollectError
from pinprof.collect import permission
from pinprof.collect.native.existing import reference_symbol
from pinprof.collect.own_processes import may_fork
from pinprof.collect.recorder import Recorder
from pinprof.streams.store import KALLSYMS

SOURCE = permission.KALLSYMS
_MODULES = Path("/proc/modules")
LOST = "Kernel functions have no names"
_LEVEL = 1
"""Fast: 5 to 9 MB of text in a hundredth of a second, a fifth of its size."""
_PIECE = 1 << 20


def save(directory: Path) -> str:
    """Write `kallsyms.zst`; returns a note for the manifest when kernel frames will have no names, else empty."""
    if error := hidden():
        return str(error)
    # Imported where it is needed, which is in a process of its own: the program is started without it.
    from pinprof.base.zstd import ZstdCompressor

    packer = ZstdCompressor(_LEVEL)
    with SOURCE.open("rb") as source, files.replacing(directory / KALLSYMS) as packed:
        while piece := source.read(_PIECE):
            packed.write(packer.compress(piece))
        packed.write(packer.flush())
    return ""


class Copying:
    """`save` under way: in a forked process, or where this one has threads, in one more."""

    def __init__(self, directory: Path, log: Path, *, fork: bool) -> None:
        """Begin. `fork`: this process may be forked."""
        self._note = str(hidden() or "")
        self._process: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        if self._note:
            return
        if fork and may_fork():
            self._process = Recorder.forked(lambda: self._saved(directory), log)
        else:
            self._thread = threading.Thread(target=self._saved, args=(directory,), name="pinprof-kallsyms")
            self._thread.start()

    def note(self) -> str:
        """Wait for its end: what `save` returns; OSError or CollectError when they could not be written."""
        if self._thread:
            self._thread.join()
        if self._process:
            self._process.wait()
            number = os.waitstatus_to_exitcode(self._process.wait_status or 0)
            if number < 0:
                ended = f"The process that copies kernel symbols was ended by {signal.Signals(-number).name}."
                raise CollectError(ended, "Record again for the names.", "native")
            if number:
                self._error = OSError(number, os.strerror(number), KALLSYMS)
        if self._error:
            raise self._error
        return self._note

    def end(self) -> None:
        """Nothing writes into the directory any more, whole or not."""
        if self._thread:
            self._thread.join()
        if self._process:
            self._process.send(signal.SIGKILL)
            self._process.wait()

    def _saved(self, directory: Path) -> int:
        """The exit status of a process that does it."""
        try:
            self._note = save(directory)
        except OSError as error:
            self._error = error
            return error.errno or errno.EIO
        return 0


def modules() -> frozenset[str]:
    """The names of the loaded kernel modules."""
    try:
        return frozenset(line.split(" ", 1)[0] for line in _MODULES.read_text().splitlines())
    except OSError:
        return frozenset()


def hidden() -> CollectError | None:
    """What to say where kallsyms shows no real addresses: a kernel that hides them prints zeros (kernel/kallsyms.c)."""
    return None if reference_symbol(SOURCE)[1] else permission.symbols_hidden()
