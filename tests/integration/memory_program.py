"""Copies between memory of every kind by a plan: four threads, and a child that is forked in their midst.

`memory_program.py SEED STEPS FILE`, of a file of 1 MiB. Blocks go from thread to thread, and what is freed as one kind
comes back as another. Each copy has bytes of its own; printed are, for each, these, the process, and the kinds of its
target and source.
"""

import contextlib
import ctypes
import mmap
import os
import random
import sys
import threading
import time
from collections import deque
from pathlib import Path

cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None, use_errno=True)
P, Q, N = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
SEED, STEPS = map(int, sys.argv[1:3])
PAGE, WORKERS, MOST_BLOCKS = 4096, 5, 40
FILE_BYTES, LEAST_PAGES = 1 << 20, 4
for function in (libc.aligned_alloc, libc.mmap):
    function.restype = P
HOST = ("plain", "pinned", "managed", "file", "anonymous")
given = deque()  # from thread to thread
progress = [0] * WORKERS


def granted(function, *arguments):
    place = P()
    assert function(ctypes.byref(place), *arguments) == 0
    return place.value


def mapped(size, file):
    flags, shared = (mmap.MAP_PRIVATE, file) if file >= 0 else (mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    return libc.mmap(None, N(size), mmap.PROT_READ | mmap.PROT_WRITE, flags, shared, N(0))


class Block:
    """Memory of one kind, of which pages may be registered."""

    def __init__(self, kind, chosen, file):
        self.kind, self.size = kind, PAGE * chosen.randrange(LEAST_PAGES, 33)
        if kind == "pinned" and chosen.random() < 0.5:
            self.start = granted(cuda.cuMemHostAlloc, N(self.size), 0)
        elif kind == "pinned":
            self.start = granted(cuda.cuMemAllocHost_v2, N(self.size))
        elif kind == "managed":
            self.start = granted(cuda.cuMemAllocManaged, N(self.size), 1)
        elif kind == "device" and chosen.random() < 0.5:
            self.start = granted(cuda.cuMemAlloc_v2, N(self.size))
        elif kind == "device":
            self.start = granted(cuda.cuMemAllocAsync, N(self.size), None)
        elif kind == "plain":
            self.start = libc.aligned_alloc(N(PAGE), N(self.size))
        else:
            self.size = FILE_BYTES if kind == "file" else self.size
            self.start = mapped(self.size, file if kind == "file" else -1)
        self.registered = {}  # first page → pages

    def free(self):
        for first in self.registered:
            assert cuda.cuMemHostUnregister(P(self.start + PAGE * first)) == 0
        if self.kind == "pinned":
            cuda.cuMemFreeHost(P(self.start))
        elif self.kind in ("managed", "device"):
            cuda.cuMemFree_v2(Q(self.start))
        elif self.kind == "plain":
            libc.free(P(self.start))
        else:
            libc.munmap(P(self.start), N(self.size))

    def parts(self):
        """(first page, pages, kind), one after another."""
        at, parts = 0, []
        for first, pages in sorted(self.registered.items()):
            parts += [(at, first - at, self.kind), (first, pages, "registered")]
            at = first + pages
        return [*parts, (at, self.size // PAGE - at, self.kind)]

    def register(self, chosen):
        """A part that is not registered, or no longer one that is."""
        if self.registered and chosen.random() < 0.5:
            first = chosen.choice(sorted(self.registered))
            del self.registered[first]
            assert cuda.cuMemHostUnregister(P(self.start + PAGE * first)) == 0
            return
        wide = [part for part in self.parts() if part[2] == self.kind and part[1] >= LEAST_PAGES]
        if wide:
            at, pages, _ = chosen.choice(wide)
            count = chosen.randrange(LEAST_PAGES, pages + 1)
            first = at + chosen.randrange(pages - count + 1)
            assert cuda.cuMemHostRegister_v2(P(self.start + PAGE * first), N(PAGE * count), 0) == 0
            self.registered[first] = count


def end_of(block, size, chosen):
    """(address, kind) of so many bytes of a block that are of one kind; None where there are none."""
    wide = [part for part in block.parts() if part[1] * PAGE >= size]
    if not wide:
        return None
    at, pages, kind = chosen.choice(wide)
    return block.start + PAGE * at + chosen.randrange(pages * PAGE - size + 1), kind


def copied(target, source, size, chosen):
    (to, to_kind), (start, from_kind) = target, source
    queued, one_way = chosen.random() < 0.5, chosen.random() < 0.5
    name = "cuMemcpyAsync" if queued else "cuMemcpy"
    if one_way and "device" in (to_kind, from_kind) and to_kind != from_kind:
        name = f"cuMemcpy{'HtoD' if to_kind == 'device' else 'DtoH'}{'Async' if queued else ''}_v2"
    assert getattr(cuda, name)(Q(to), Q(start), N(size), *([None] if queued else [])) == 0


def work(worker, file, copies):
    chosen, live, number = random.Random(f"{SEED}-{worker}"), [], 1 + worker
    for progress[worker] in range(STEPS // WORKERS):  # how far it is
        what = chosen.random()
        if what < 0.2 or len(live) < 2:
            live.append(Block(chosen.choice([*HOST, "device", "device", "plain"]), chosen, file))
        elif what < 0.35:
            hosts = [block for block in live if block.kind in ("plain", "anonymous")]
            if hosts:
                chosen.choice(hosts).register(chosen)
        elif what < 0.4:
            given.append(live.pop(chosen.randrange(len(live))))
        elif what < 0.45 and len(given):
            with contextlib.suppress(IndexError):  # another thread was faster
                live.append(given.popleft())
        elif what < 0.57 or len(live) > MOST_BLOCKS:
            live.pop(chosen.randrange(len(live))).free()
        else:
            ends = [end_of(block, number, chosen) for block in chosen.choices(live, k=2)]
            if None not in ends:
                copied(*ends, number, chosen)
                copies.append((number, ends[0][1], ends[1][1]))
                number += WORKERS
    return copies


def told(copies):
    return "".join(f"{number} {os.getpid()} {to} {source}\n" for number, to, source in copies)


def broken(caught):
    """A thread that fails ends the program."""
    sys.excepthook(*caught[:3])
    os._exit(1)


def main():
    threading.excepthook = broken
    file = os.open(Path(sys.argv[3]), os.O_RDONLY)
    copies = [[] for _ in range(WORKERS)]
    threads = [threading.Thread(target=work, args=(worker, file, copies[worker])) for worker in range(1, WORKERS)]
    for thread in threads:
        thread.start()
    while sum(progress) < STEPS // 4 and any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
    child = os.fork()
    if not child:
        given.clear()
        sys.stdout.write(told(work(0, file, [])))
        sys.stdout.flush()
        os._exit(0)
    for thread in threads:
        thread.join()
    assert os.waitpid(child, 0)[1] == 0
    sys.stdout.write("".join(map(told, copies)))


main()
