"""A Python program whose lines do one thing each for a while, and which notes when: PROGRAM NOTES SECONDS.

What it notes about itself is what the tests compare with. Pinning and unpinning, by io_uring registered buffers,
share a line.
"""

import ctypes
import json
import mmap
import multiprocessing
import sys
import threading
import time
from pathlib import Path

LIBC = ctypes.CDLL(None)
LINES: list[tuple[int, int, str]] = []


def called(name):
    LIBC.prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME


def repeated(name, seconds):
    """A loop for so long of the processor, whose start and end are noted."""
    start, end = time.monotonic_ns(), time.process_time() + seconds
    while time.process_time() < end:
        yield
    LINES.append((start, time.monotonic_ns(), name))


class Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def pin(seconds):
    ring = LIBC.syscall(425, 1, ctypes.create_string_buffer(120))  # io_uring_setup
    memory = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_SHARED)
    buffer = Iovec(ctypes.addressof(ctypes.c_char.from_buffer(memory)), len(memory))
    register = ctypes.PyDLL(None).syscall
    for _ in repeated("pins", seconds):
        register(427, ring, 0, ctypes.byref(buffer), 1) or register(427, ring, 1, None, 0)  # the line that pins


def touch(seconds):
    for _ in repeated("touches", seconds):
        bytearray(96 << 20)  # the line that touches


def copy(seconds):
    source, target = bytearray(32 << 20), bytearray(32 << 20)
    for _ in repeated("copies", seconds):
        target[:] = source  # the line that copies


def in_child(seconds):
    called("test_worker")
    touch(seconds)


def in_thread(seconds):
    called("test_pin_thread")
    copy(seconds)


def main(notes, seconds):
    touch(0.2)  # the interpreter is found soon
    LINES.clear()
    pin(seconds)
    touch(seconds)
    copy(seconds)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(seconds,))
    child.start()
    child.join()
    thread = threading.Thread(target=in_thread, args=(seconds,))
    thread.start()
    thread.join()
    Path(notes).write_text(json.dumps(LINES))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
