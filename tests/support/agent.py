"""Programs with the agent inside, before a stand-in for CUDA's driver, and what is read of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pinprof.collect.inside import for_glibc
from pinprof.data.activity import UNRECORDED, ApiCallTable, MemoryKind
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside import file as inside_file
from pinprof.read.inside.calls import InsideCalls
from pinprof.read.inside.file import InsideFile
from pinprof.read.symbols.resolver import Resolver

SUPPORT = Path(__file__).parent
DRIVER = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")
DECLARED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
typedef uint64_t word;
int cuInit(unsigned), cuMemcpyHtoD_v2(word, const void *, size_t),
    cuMemcpyHtoDAsync_v2(word, const void *, size_t, void *), cuEventQuery(void *), cuEventRecord(void *, void *),
    cuMemAlloc_v2(word *, size_t), cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *),
    cuMemcpyBatchAsync_v2(word *, word *, size_t *, size_t, void *, size_t *, size_t, void *),
    cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
        void **),
    cuGetProcAddress_v2(const char *, void **, int, word, int *), cuStreamSynchronize(void *);
#define DEVICE ((word)0x7f << 56)
#define READ_WRITE (PROT_READ | PROT_WRITE)
"""
PRELUDE = "import ctypes, os, sys\ncuda = ctypes.CDLL('libcuda.so.1', use_errno=True)\nP = ctypes.c_void_p\n"


def compiled(target: Path, source: Path, *options: str) -> Path:
    """A program or library of C."""
    command = [*compiler(), "-std=gnu11", "-O1", "-g", "-pthread", str(source), *options, "-ldl", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def build_driver(folder: Path) -> Path:
    """The stand-in's folder."""
    compiled(folder / "libcuda.so.1", SUPPORT / "fake_driver_calls.c", *DRIVER)
    return folder


def program(folder: Path, text: str, *options: str, name: str = "program") -> Path:
    """A program of C with this text."""
    source = folder / f"{name}.c"
    source.write_text(text)
    return compiled(folder / name, source, *options)


def build_program(folder: Path, driver: Path, text: str, *options: str) -> Path:
    """The same, linked to the driver."""
    return program(folder, text, *options, f"-L{driver}", "-l:libcuda.so.1")


def of_c(folder: Path, driver: Path, text: str, *options: str) -> Path:
    """The same with what it needs declared."""
    return build_program(folder, driver, DECLARED + text, *options)


def environment(driver: Path, folder: Path | None, agent: Path | None = None) -> dict[str, str]:
    """Of a program with the agent; without a folder it is there and has nothing to do."""
    more = {"PINPROF_INSIDE": str(folder)} if folder else {}
    return {**os.environ, "LD_LIBRARY_PATH": str(driver), "LD_PRELOAD": for_glibc(agent or INSIDE.find()), **more}


def run(
    command: Sequence[str | Path], driver: Path, folder: Path | None, *, status: int = 0, agent: Path | None = None
) -> str:
    """What a program prints that has the agent inside."""
    if folder:
        folder.mkdir(exist_ok=True)
    done = subprocess.run(
        list(map(str, command)), env=environment(driver, folder, agent), capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def run_bare(command: Sequence[str | Path], driver: Path) -> str:
    """What a program prints without the agent."""
    own = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    return subprocess.run(list(map(str, command)), env=own, capture_output=True, text=True, check=True).stdout


def run_python(driver: Path, folder: Path | None, script: str | Path, *arguments: str, status: int = 0) -> str:
    """The same of a program of Python, a file or its text."""
    given = [str(script)] if isinstance(script, Path) else ["-c", script]
    return run([sys.executable, "-S", *given, *arguments], driver, folder, status=status)


def files(folder: Path) -> list[InsideFile]:
    """What the processes wrote that called the driver, in the order in which they began."""
    return [file for file in all_files(folder) if file.has_calls]


def all_files(folder: Path) -> list[InsideFile]:
    """What all processes wrote, in the order in which they began."""
    found = [inside_file.load(path) for path in folder.glob("*.bin")]
    assert None not in found
    return sorted((file for file in found if file is not None), key=lambda file: file.token)


def read(folder: Path) -> InsideCalls:
    """The calls of all processes."""
    return inside_calls.combine(all_files(folder), Resolver(recording=True))


def lines(calls: ApiCallTable) -> list[tuple[str, int]]:
    """Name and line of each call."""
    assert calls.site is not None
    return [
        (calls.names[name], calls.sites[site].line if site >= 0 else -1)
        for name, site in zip(calls.name.tolist(), calls.site.tolist(), strict=True)
    ]


def marked(source: Path) -> dict[int, int]:
    """Line → the number in the comment that it ends in."""
    found = (re.search(r"# (\d+)$", line) for line in source.read_text("utf-8").splitlines())
    return {number: int(match[1]) for number, match in enumerate(found, 1) if match}


def misplaced(calls: ApiCallTable, source: Path) -> list[tuple[int, str]]:
    """Bytes and site of the copies that are not at their line of a program: those that a text makes have 112."""
    assert calls.site is not None
    assert calls.size_bytes is not None
    size_of = marked(source)
    right = [
        112 if site.path == "text.py" else size_of.get(site.line) if site.path == str(source) else None
        for site in calls.sites
    ]
    return [
        (size, calls.sites[site].text if site >= 0 else "")
        for size, site in zip(calls.size_bytes.tolist(), calls.site.tolist(), strict=True)
        if site < 0 or right[site] != size
    ]


_KINDS = {
    "plain": MemoryKind.PAGEABLE, "anonymous": MemoryKind.PAGEABLE, "file": MemoryKind.PAGEABLE,
    "pinned": MemoryKind.PINNED, "registered": MemoryKind.PINNED, "managed": MemoryKind.MANAGED,
    "device": MemoryKind.DEVICE,
}  # fmt: skip


def wrong_ends(calls: ApiCallTable, told: str) -> tuple[int, list[str]]:
    """How many copies memory_program.py made, and which have other ends than it told, or are not there, or too many."""
    assert calls.size_bytes is not None
    assert calls.target_kind is not None
    assert calls.source_kind is not None
    assert calls.from_file is not None
    said = {}
    for number, pid, to, source in map(str.split, told.splitlines()):
        said[int(number), int(pid)] = _KINDS[to], _KINDS[source], source == "file"
    copies = np.flatnonzero(calls.copy_kind != UNRECORDED)
    seen: dict[tuple[int, int], list[tuple[MemoryKind, MemoryKind, bool]]] = {}
    columns = (calls.size_bytes, calls.pid, calls.target_kind, calls.source_kind, calls.from_file)
    for number, pid, to, source, file in zip(*(column[copies].tolist() for column in columns), strict=True):
        seen.setdefault((number, pid), []).append((MemoryKind(to), MemoryKind(source), file))
    keys = sorted(said.keys() | seen.keys())
    return len(said), [
        f"{key}: {said.get(key)} was recorded as {seen.get(key)}" for key in keys if seen.get(key) != [said.get(key)]
    ]
