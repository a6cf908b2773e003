"""How often `pinprof dump` names what a program does that does one thing: `python -m tests.truth.dumped [--gpu]`.

Each program has a thread called `subject`. Printed are, of TIMES dumps, those that said the right cause of it, how long
threads were watched, and what else was said.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections import Counter

from pinprof.dump import dump

TIMES = 20
_BEGIN = """
import ctypes, mmap, os, subprocess, sys, tempfile, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def subject(work, *others):
    for number, target in enumerate((work, *others)):
        threading.Thread(target=target, name="subject" if not number else f"other-{number}", daemon=True).start()
    print(flush=True)
    time.sleep(600)
def touch(flags):
    while True:
        piece = mmap.mmap(-1, 64 << 20, flags=flags)
        libc.memset(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(piece))), 1, ctypes.c_size_t(64 << 20))
        del piece
"""
_CUDA = """
cuda, P, N = ctypes.CDLL("libcudart.so"), ctypes.c_void_p, ctypes.c_size_t
def ok(status): assert not status, status
ok(cuda.cudaFree(None))
"""
PROGRAMS = {
    "faults of anonymous memory": (
        "subject(lambda: touch(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))",
        r"(faults pages|runs).* \[(fault|free)\.",
    ),
    "faults of shared memory": (
        "subject(lambda: touch(mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))",
        r"(faults pages|runs).* \[(fault|free)\.",
    ),
    "copies in memory": (
        (
            "a, b = (ctypes.create_string_buffer(1 << 26) for _ in range(2))\n"
            "def work():\n while True: libc.memcpy(a, b, ctypes.c_size_t(1 << 26))\nsubject(work)"
        ),
        r"runs: memcpy, memmove, memset.* \[copy\.user\]",
    ),
    "a pipe": ("r, w = os.pipe()\nsubject(lambda: os.read(r, 1))", r"waits in read of pipe:.* \[wait\.ipc\]"),
    "a child": (
        "subject(lambda: subprocess.run(['sleep', '600']))",
        r"waits for its child \d+ to end \[wait\.child\]",
    ),
    "a thread's end": (
        (
            "def target(): time.sleep(600)\n"
            "other = ctypes.c_ulong()\nstart = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: target())\n"
            "libc.pthread_create(ctypes.byref(other), None, start, None)\n"
            "subject(lambda: libc.pthread_join(other, None))"
        ),
        r"waits for thread \d+ .*to end \[wait\.lock\]",
    ),
    "a mutex": (
        (
            "lock = ctypes.create_string_buffer(64)\ndef held():\n libc.pthread_mutex_lock(lock)\n time.sleep(600)\n"
            "def work():\n time.sleep(0.3)\n libc.pthread_mutex_lock(lock)\nsubject(work, held)"
        ),
        r"waits for a lock that thread \d+ \(other-1\) holds \[wait\.lock\]",
    ),
    "the GIL": (
        (
            "sys.setswitchinterval(1000)\nlibrary = ctypes.PyDLL(None)\n"
            "def work(): time.sleep(0.5)\nsubject(work, lambda: (time.sleep(0.1), library.sleep(600)))"
        ),
        r"waits for the GIL, which thread \d+ \(other-1\) holds \[wait\.lock\]|waits for the GIL \[wait\.lock\]",
    ),
    "sleep": ("subject(lambda: time.sleep(600))", r"is asleep for a set time \[wait\.sleep\]"),
    "a disk": (
        (
            "file = tempfile.TemporaryFile(dir='.', buffering=0)\n"
            "def work():\n while True:\n  file.seek(0)\n  file.write(bytes(1 << 22))\n  os.fsync(file.fileno())\n"
            "subject(work)"
        ),
        r"\[(wait\.disk|copy\.kernel|sys\.io)",
    ),
    "mmap_lock": (
        (
            "def maps():\n while True:\n"
            "  at = libc.mmap(None, ctypes.c_size_t(1 << 26), 3, 0x8022, -1, ctypes.c_long(0))\n"
            "  libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(1 << 26))\n"
            "libc.mmap.restype = ctypes.c_void_p\nsubject(maps, maps, maps, maps)"
        ),
        r"\[(wait\.mmap_lock|populate|fault|free|mm\.vma)",
    ),
}
"""By name the program, and what is right as a regular expression of `DOING [CAUSE]`."""
GPU = {
    "pinning": (
        (
            "def work():\n while True:\n  piece = P()\n  ok(cuda.cudaMallocHost(ctypes.byref(piece), N(1 << 28)))\n"
            "  ok(cuda.cudaFreeHost(piece))\nsubject(work)"
        ),
        r"in cuda(MallocHost|FreeHost), .*\[(pin|unpin|fault|free|rm|dma|copy|wait\.driver)",
    ),
    "a copy from pageable memory": (
        (
            "host, device = ctypes.create_string_buffer(1 << 28), P()\n"
            "ok(cuda.cudaMalloc(ctypes.byref(device), N(1 << 28)))\n"
            "def work():\n while True: ok(cuda.cudaMemcpy(device, host, N(1 << 28), 1))\nsubject(work)"
        ),
        r"in cudaMemcpy, .*\[(copy\.staging|copy\.user|sync\.poll|wait\.gpu|user\.libcuda)",
    ),
    "managed memory touched": (
        (
            "piece = P()\nok(cuda.cudaMallocManaged(ctypes.byref(piece), N(1 << 28), 1))\n"
            "def work():\n while True:\n  ok(cuda.cudaMemset(piece, 1, N(1 << 28)))\n"
            "  ok(cuda.cudaDeviceSynchronize())\n"
            "  libc.memset(piece, 2, N(1 << 28))\nsubject(work)"
        ),
        r"\[(uvm|sync\.poll|wait\.(gpu|uvm)|copy\.user)",
    ),
}


def said(text: str) -> tuple[str, int]:
    """What one dump says of a program's subject, and how long it watched."""
    with subprocess.Popen([sys.executable, "-c", _BEGIN + text], stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()
            try:
                program.wait(1)
            except subprocess.TimeoutExpired:
                found = dump(program.pid)
                threads = [one for one in found.processes[0].threads if one.name == "subject"]
                return (f"{threads[0].doing} [{threads[0].cause}]" if threads else "no thread"), found.watched_ns
            return "has ended", 0
        finally:
            program.kill()


def main() -> None:
    """A line for each program."""
    options = argparse.ArgumentParser()
    options.add_argument("--gpu", action="store_true")
    options.add_argument("--times", type=int, default=TIMES)
    asked = options.parse_args()
    chosen = {name: (_CUDA + text, right) for name, (text, right) in GPU.items()} if asked.gpu else PROGRAMS
    for name, (text, right) in chosen.items():
        found = [said(text) for _ in range(asked.times)]
        wrong = Counter(re.sub(r"[\d,.]+\w* a second|\d+", "N", one) for one, _ in found if not re.search(right, one))
        watched_ms = statistics.median(ns for _, ns in found) / 1e6
        print(f"{name}: {asked.times - wrong.total()} of {asked.times}, {watched_ms:.0f} ms; {dict(wrong) or ''}")


if __name__ == "__main__":
    main()
