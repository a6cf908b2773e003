"""userfaultfd(2): page faults of a range of memory are served by a thread of this program.

The handler runs in Python, so it needs the interpreter's lock. A thread that faults while it holds that lock would
wait for ever: **memory registered here may only be touched by ctypes calls**, which let go of the lock. `Pager` hands
out no array of it. If the handler fails, it closes the descriptor: the kernel then resolves all faults by itself,
nobody hangs, and `check()` raises what went wrong.

Constants: include/uapi/linux/userfaultfd.h, ioctl(2) encodings for 64-bit x86 and arm.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import select
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from pinprof.base.errors import ScenarioError

from . import libc

_SYSCALL = {"x86_64": 323, "aarch64": 282}
_USER_MODE_ONLY = 1
"""Since 5.11: faults inside system calls are not served, and no privilege is needed."""
_API = 0xAA
_IOCTL_API, _IOCTL_REGISTER, _IOCTL_UNREGISTER = 0xC018AA3F, 0xC020AA00, 0x8010AA01
_IOCTL_WAKE, _IOCTL_COPY = 0x8010AA02, 0xC028AA03
_REGISTER_MODE_MISSING = 1
_EVENT_PAGEFAULT = 0x12
_MESSAGE = struct.Struct("=B7xQQ8x")
"""struct uffd_msg of a page fault: event, flags, address."""
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_UNPRIVILEGED = Path("/proc/sys/vm/unprivileged_userfaultfd")


class Pager:
    """Serves missing pages; `on_fault(address)` is called in the handler's thread and must call `copy`."""

    def __init__(self) -> None:
        self._file = _open()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._handlers: dict[tuple[int, int], Callable[[int], None]] = {}
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="pinprof pager", daemon=True)
        self._thread.start()

    def register(self, address: int, size_bytes: int, on_fault: Callable[[int], None]) -> None:
        """Serve the faults of a page-aligned range from now on."""
        self.check()
        self._handlers[address, size_bytes] = on_fault
        fcntl.ioctl(self._file, _IOCTL_REGISTER, struct.pack("=QQQQ", address, size_bytes, _REGISTER_MODE_MISSING, 0))

    def unregister(self, address: int, size_bytes: int) -> None:
        """Leave the faults of the range to the kernel again."""
        del self._handlers[address, size_bytes]
        if self._failure is None:
            fcntl.ioctl(self._file, _IOCTL_UNREGISTER, struct.pack("=QQ", address, size_bytes))

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Create the pages of a registered range with the bytes at `source`, and wake whoever waits for them."""
        done, skipped = 0, False
        while done < size_bytes:
            request = bytearray(struct.pack("=QQQQq", target + done, source + done, size_bytes - done, 0, 0))
            try:
                fcntl.ioctl(self._file, _IOCTL_COPY, request)
            except OSError as error:
                if error.errno == errno.EEXIST:
                    # Another thread's fault on the same block was served first: this page is there.
                    done += _PAGE_BYTES
                    skipped = True
                    continue
                # EAGAIN: interrupted by a change of the address space; `copy` says how far it came.
                if error.errno != errno.EAGAIN:
                    raise
            done += max(0, struct.unpack_from("=q", request, 32)[0])
        if skipped:
            fcntl.ioctl(self._file, _IOCTL_WAKE, struct.pack("=QQ", target, size_bytes))

    def check(self) -> None:
        """ScenarioError if the handler has failed: what was read since then is not what was written."""
        if self._failure is not None:
            raise ScenarioError(
                f"The userfaultfd handler failed: {self._failure}.", "Run it again; report it if it persists.", "uffd"
            ) from self._failure

    def close(self) -> None:
        """Stop the handler and close; does nothing the second time."""
        if self._stop >= 0:
            with contextlib.suppress(OSError):
                os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
            self._stop = -1

    def _serve(self) -> None:
        try:
            poller = select.poll()
            poller.register(self._file, select.POLLIN)
            poller.register(self._stop, select.POLLIN)
            while self._stop not in dict(poller.poll()):
                with contextlib.suppress(BlockingIOError):
                    event, _, address = _MESSAGE.unpack(os.read(self._file, _MESSAGE.size))
                    if event == _EVENT_PAGEFAULT:
                        self._handler(address)(address)
        except Exception as error:
            # Whatever it is, the faulting thread must be told and must not wait.
            self._failure = error
        finally:
            os.close(self._file)

    def _handler(self, address: int) -> Callable[[int], None]:
        for (start, size_bytes), handler in tuple(self._handlers.items()):
            if start <= address < start + size_bytes:
                return handler
        raise LookupError(f"no memory registered at {address:#x}")


def _open() -> int:
    """A userfaultfd after its handshake; ScenarioError where the system forbids it."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise ScenarioError(
            f"The uvm emulation does not support userfaultfd on {platform.machine()}.", "Use x86-64 or arm64.", "uffd"
        )
    flags = os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            file = libc.syscall("userfaultfd", number, flags | _USER_MODE_ONLY)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            file = libc.syscall("userfaultfd", number, flags)
    except OSError as error:
        try:
            sysctl = f"vm.unprivileged_userfaultfd = {_UNPRIVILEGED.read_text('ascii').strip()}"
        except OSError:
            sysctl = "this kernel was built without userfaultfd"
        raise ScenarioError(
            "This system does not permit userfaultfd, which the scenario needs to migrate memory "
            f"({error.strerror}; {sysctl}).",
            "Run `pinprof doctor`, which says how to permit it here.",
            "uffd",
        ) from error
    try:
        fcntl.ioctl(file, _IOCTL_API, struct.pack("=QQQ", _API, 0, 0))
    except OSError:
        os.close(file)
        raise
    return file
