"""What the agent tells of mappings and of the runtime, and how recordings with it leave programs as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pinprof import read
from pinprof.data.activity import Api, ApiCallTable, MemoryKind
from pinprof.machine.libraries import compiler
from pinprof.streams import store
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")


def called(tmp_path: Path, driver: Path, text: str) -> ApiCallTable:
    """The calls of a program of C."""
    program = agent.of_c(tmp_path, driver, text)
    agent.run([program], driver, tmp_path / "inside")
    return agent.read(tmp_path / "inside").activity.calls


def test_copies_from_mapped_files_are_told_from_others(driver: Path, tmp_path: Path) -> None:
    """Whether the file was mapped before the driver was called or later, and not once something else lies there."""
    (tmp_path / "weights.bin").write_bytes(bytes(1 << 20))
    text = f"""
int main(void)
{{
    int file = open("{tmp_path}/weights.bin", O_RDONLY);
    char *before = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, file, 0);
    char *plain = malloc(1 << 20);
    cuInit(0);
    char *after = mmap(NULL, 1 << 20, READ_WRITE, MAP_PRIVATE, file, 0);
    cuMemcpyHtoD_v2(DEVICE, before + 5000, 1001);
    cuMemcpyHtoD_v2(DEVICE, after + (1 << 20) - 1002, 1002);
    cuMemcpyHtoD_v2(DEVICE, plain, 1003);
    munmap(after, 1 << 20);
    char *again = mmap(after, 1 << 20, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    cuMemcpyHtoD_v2(DEVICE, again, 1004);
    cuMemcpyHtoD_v2(DEVICE, before, 1005);
    return 0;
}}"""
    calls = called(tmp_path, driver, text)
    assert calls.size_bytes is not None
    assert calls.from_file is not None
    assert calls.source_kind is not None
    copies = np.flatnonzero(calls.size_bytes > 1000)
    found = dict(zip(calls.size_bytes[copies].tolist(), calls.from_file[copies].tolist(), strict=True))
    assert found == {1001: True, 1002: True, 1003: False, 1004: False, 1005: True}
    assert set(calls.source_kind[copies].tolist()) == {MemoryKind.PAGEABLE}


def test_what_the_driver_maps_for_page_locked_memory_is_known(driver: Path, tmp_path: Path) -> None:
    text = """
int main(void)
{
    void *combined, *plain;
    cuMemHostAlloc(&combined, 3 << 20, 4);
    cuMemHostAlloc(&plain, 1 << 20, 0);
    cuMemcpyHtoD_v2(DEVICE, (char *)combined + 100, 1001);
    cuMemFreeHost(combined);
    char *other = mmap(combined, 4 << 20, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    cuMemcpyHtoD_v2(DEVICE, other, 1002);
    return 0;
}"""
    calls = called(tmp_path, driver, text)
    assert calls.size_bytes is not None
    assert calls.granted_bytes is not None
    assert calls.source_kind is not None
    sizes = calls.size_bytes.tolist()
    assert calls.granted_bytes[sizes.index(3 << 20)] == 4 << 20
    assert calls.granted_bytes[sizes.index(1 << 20)] == -1
    assert [calls.source_kind[sizes.index(size)] for size in (1001, 1002)] == [MemoryKind.PINNED, MemoryKind.PAGEABLE]


RUNTIME = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stddef.h>
typedef uint64_t word;
#define EXPORTED __attribute__((visibility("default"), noinline))
static void *found(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *function = NULL;
    int (*get)(const char *, void **, int, word, int *) = dlsym(driver, "cuGetProcAddress_v2");
    return get(name, &function, 12000, 0, NULL) ? dlsym(driver, name) : function;
}
static __attribute__((noinline)) int inner(word to, const void *from, size_t size)
{
    return ((int (*)(word, const void *, size_t, void *))found("cuMemcpyHtoDAsync"))(to, from, size, NULL) + 0;
}
EXPORTED int cudaMemcpy(word to, const void *from, size_t size, int kind) { return inner(to, from, size) + 0 * kind; }
EXPORTED int cudaHostAlloc(void **start, size_t size, unsigned flags)
{
    ((int (*)(unsigned))found("cuInit"))(0);
    return ((int (*)(void **, size_t, unsigned))found("cuMemHostAlloc"))(start, size, flags) + 0;
}
EXPORTED int cudaMallocHost(void **start, size_t size) { return cudaHostAlloc(start, size, 0) + 0; }
"""


def test_calls_have_the_names_of_the_runtimes_functions_that_made_them(driver: Path, tmp_path: Path) -> None:
    """Where that one does the same: what sets up a context keeps its own name."""
    source, library = tmp_path / "runtime.c", tmp_path / "libcudart.so.13"
    source.write_text(RUNTIME)
    agent.compiled(library, source, "-shared", "-fPIC", "-fvisibility=hidden")
    program = tmp_path / "program.c"
    program.write_text("""
#include <stddef.h>
int cudaMemcpy(unsigned long, const void *, size_t, int), cudaMallocHost(void **, size_t);
int main(void)
{
    static char memory[100];
    void *pinned;
    return cudaMallocHost(&pinned, 4096) + cudaMemcpy(1ul << 62, memory, 100, 1);
}
""")
    built = agent.compiled(tmp_path / "program", program, str(library), f"-Wl,-rpath,{tmp_path}")
    agent.run([built], driver, tmp_path / "inside")
    calls = agent.read(tmp_path / "inside").activity.calls
    names = [calls.names[number] for number in calls.name.tolist()]
    assert names == ["cuInit", "cudaMallocHost", "cudaMemcpy"]
    assert calls.api.tolist() == [Api.DRIVER, Api.RUNTIME, Api.RUNTIME]
    assert calls.site is not None
    assert {calls.sites[site].text for site in calls.site.tolist()} == {"main (program.c:8)"}


def recorded(folder: Path, *command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "pinprof", "record", "--python", "off", "--no-calibrate", "-q", "-o", "run", "--"]
    return subprocess.run(
        [*asked, *command], cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_programs_with_sanitizers_run_as_ever(sanitizer: str, driver: Path, tmp_path: Path) -> None:
    """AddressSanitizer refuses to run where any other library is loaded before it."""
    text = """
int main(int count, char **arguments)
{
    char *memory = malloc(1 << 20);
    memset(memory, count, 1 << 20);
    cuMemcpyHtoD_v2(DEVICE, memory, 1001);
    puts(getenv("ASAN_OPTIONS") ? "told" : "not told");
    free(memory);
    return 3 + 0 * !arguments;
}"""
    program = agent.of_c(tmp_path, driver, text, f"-fsanitize={sanitizer}")
    done = recorded(tmp_path, program, LD_LIBRARY_PATH=str(driver), ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stdout, done.stderr) == (3, "told\n", "")
    activity = read.read(tmp_path / "run.pinprof").activity
    assert activity is not None
    assert activity.calls.size_bytes is not None
    assert activity.calls.size_bytes.tolist() == [1001]


def test_a_program_that_the_agent_cannot_come_into_has_nothing_of_it(tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("""
#include <stdio.h>
#include <stdlib.h>
int main(void) { return puts(getenv("LD_PRELOAD") || getenv("PINPROF_INSIDE") ? "told" : "not told"), 4; }
""")
    done = recorded(tmp_path, agent.compiled(tmp_path / "static", source, "-static"))
    assert (done.returncode, done.stdout, done.stderr) == (4, "not told\n", "")
    assert not (tmp_path / "run.pinprof" / store.INSIDE).exists()
