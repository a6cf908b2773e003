"""The agent's CUDA cures before a stand-in for libcuda, which does queued work as late as CUDA may."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.machine.libraries import INSIDE, compiler
from tests.support import agent

SUPPORT = Path(__file__).parents[1] / "support"
pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
PRELUDE = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
MIB = 1 << 20
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
def pin(size, flags=0):
    start = ctypes.c_void_p()
    answer = cuda.cuMemHostAlloc(ctypes.byref(start), ctypes.c_size_t(size), flags)
    return answer or start.value
def unpin(start):
    return cuda.cuMemFreeHost(ctypes.c_void_p(start))
def device(size):
    start = ctypes.c_uint64()
    cuda.cuMemAlloc_v2(ctypes.byref(start), ctypes.c_size_t(size))
    return start.value
def count(name):
    return cuda.fake_count(name.encode())
def alive(kind):
    return cuda.fake_alive(ord(kind))
def block(size, value=None):
    start = libc.malloc(ctypes.c_size_t(size))
    if value is not None:
        ctypes.memset(start, value, size)
    return start
def to_device(to, start, size, stream=None):
    return cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(to), ctypes.c_void_p(start), ctypes.c_size_t(size), stream)
def from_device(start, source, size, stream=None):
    return cuda.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(start), ctypes.c_uint64(source), ctypes.c_size_t(size), stream)
def byte(start, at):
    return ctypes.string_at(start + at, 1)[0]
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in."""
    folder = tmp_path_factory.mktemp("libcuda")
    built(
        folder / "libcuda.so.1", "fake_libcuda.c", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1"
    )
    return folder


def built(target: Path, source: str, *options: str) -> Path:
    command = [*compiler(), "-std=gnu11", "-O1", "-o", str(target), str(SUPPORT / source), *options, "-ldl"]
    subprocess.run(command, check=True)
    return target


def environment(driver: Path, words: str, memory: str = "", **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "LD_PRELOAD": str(INSIDE.find()),
        "PINPROF_TRY_CUDA": words,
        "PINPROF_TRY_MEMORY": memory,
        **more,
    }


def said(driver: Path, words: str, script: str, memory: str = "", **more: str) -> list[str]:
    """What a script prints with the library."""
    command = [sys.executable, "-S", "-c", PRELUDE + script]
    done = subprocess.run(
        command, env=environment(driver, words, memory, **more), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_without_words_the_driver_answers(driver: Path) -> None:
    script = "p = pin(4 * MIB); unpin(p); pin(4 * MIB); print(count('cuMemHostAlloc'), count('cuMemHostRegister_v2'))"
    assert said(driver, "", script) == ["2", "0"]


def test_large_pins_are_registered_once_and_reused(driver: Path) -> None:
    script = """
first = pin(5 * MIB); ctypes.memset(first, 1, 5 * MIB); print(unpin(first))
again = pin(5 * MIB); print(again == first, pin(5 * MIB) != first)
print(count('cuMemHostRegister_v2'), count('cuMemHostAlloc'), count('cuCtxSynchronize'), first % (2 * MIB))
"""
    assert said(driver, "pins", script) == ["0", "True", "True", "2", "0", "1", "0"]


def test_small_pins_are_the_drivers_and_reused(driver: Path) -> None:
    script = """
first = pin(9000); unpin(first); again = pin(12000)
print(again == first, count('cuMemHostAlloc'), count('cuMemFreeHost'), count('cuMemHostRegister_v2'))
"""
    assert said(driver, "pins", script) == ["True", "1", "0", "0"]


def test_pins_in_pieces(driver: Path) -> None:
    script = "p = pin(600 * MIB); print(count('cuMemHostRegister_v2')); print(cuda.cuMemFreeHost(ctypes.c_void_p(p)))"
    assert said(driver, "pins,pieces", script) == ["3", "0"]


@pytest.mark.parametrize("flags", [4, 5, 8])
def test_other_flags_pass_to_the_driver(driver: Path, flags: int) -> None:
    script = f"p = pin(4 * MIB, {flags}); print(count('cuMemHostAlloc'), p == 1, count('cuMemHostRegister_v2'))"
    assert said(driver, "pins", script) == ["1", str(flags == 8), "0"]


def test_flags_are_told_as_of_allocated_memory(driver: Path) -> None:
    script = """
flags = ctypes.c_uint(); p = pin(4 * MIB, 1)
print(cuda.cuMemHostGetFlags(ctypes.byref(flags), ctypes.c_void_p(p)), flags.value)
print(cuda.cuMemHostUnregister(ctypes.c_void_p(p)))
"""
    assert said(driver, "pins", script) == ["0", "3", "713"]


def test_errors_are_the_drivers_own(driver: Path) -> None:
    script = """
p = pin(4 * MIB); unpin(p)
print(unpin(p), unpin(p + 64), pin(0), cuda.cuMemHostAlloc(None, ctypes.c_size_t(4096), 0))
cuda.cuCtxSetCurrent(None); print(pin(4 * MIB))
"""
    assert said(driver, "pins", script) == ["1", "1", "1", "1", "201"]


def test_what_cannot_be_registered_is_allocated_by_the_driver(driver: Path) -> None:
    script = "p = pin(4 * MIB); print(p > 2, alive('h'), alive('r')); print(unpin(p))"
    assert said(driver, "pins", script, FAKE_FAIL="cuMemHostRegister_v2") == ["True", "1", "0", "0"]
    assert said(driver, "pins", script, FAKE_OTHER_ADDRESSES="1") == ["True", "1", "0", "0"]


def test_no_memory_is_no_memory(driver: Path) -> None:
    assert said(driver, "pins", "print(pin(MIB))", FAKE_FAIL="cuMemHostAlloc") == ["2"]


def test_nothing_is_left_at_the_end(driver: Path, tmp_path: Path) -> None:
    script = """
big, small = pin(5 * MIB), pin(4096); unpin(big); unpin(small)
d = device(MIB); to_device(d, block(MIB, 3), MIB)
"""
    end = tmp_path / "end"
    said(driver, "pins,ring", script, FAKE_END=str(end))
    assert end.read_text().split() == ["0", "0", "1", "0"]


def test_a_context_takes_its_pins_with_it(driver: Path) -> None:
    script = """
used, free = pin(5 * MIB), pin(7 * MIB); unpin(free)
cuda.cuDevicePrimaryCtxReset_v2(0); print(alive('r'), alive('h'))
print(unpin(used), pin(5 * MIB) > 2, alive('r'))
"""
    assert said(driver, "pins", script) == ["0", "0", "1", "True", "1"]


RING = """
size = 37 * MIB + 12345; d = device(size); source = block(size)
for at in range(0, size, 4096): ctypes.memset(source + at, at // 4096 % 251, 1)
target = block(size, 0)
print(to_device(d, source, size))
ctypes.memset(source, 0, size)          # the program may use it again
print(from_device(target, d, size))     # and has what it asked for
print(all(byte(target, at) == at // 4096 % 251 for at in range(0, size, 4096)))
"""


def test_a_ring_copies_what_the_driver_would_and_leaves_memory_to_the_program_when_it_may(driver: Path) -> None:
    script = RING + "print(count('cuMemHostAlloc'), count('cuMemcpyHtoDAsync_v2'), count('cuMemcpyDtoHAsync_v2'))"
    assert said(driver, "ring", script) == ["0", "0", "True", "4", "5", "5"]


def test_synchronous_copies_are_done_when_they_return(driver: Path) -> None:
    script = """
size = 9 * MIB; d = device(size); source, target = block(size, 5), block(size, 0)
C, V, N = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
print(cuda.cuMemcpyHtoD_v2(C(d), V(source), N(size)), byte(d, size - 1))
print(cuda.cuMemcpyDtoH_v2_ptds(V(target), C(d), N(size)), byte(target, size - 1))
other = block(size, 9)
print(cuda.cuMemcpy(C(d), C(other), N(size)), byte(d, 0), cuda.cuMemcpyAsync(C(target), C(d), N(size), None))
print(byte(target, 1), count('cuMemcpyHtoD_v2'), count('cuMemcpy'), count('cuMemcpyAsync'))
"""
    assert said(driver, "ring", script) == ["0", "5", "0", "5", "0", "9", "0", "9", "0", "0", "0"]


@pytest.mark.parametrize(
    "setup", ["size = 65536", "cuda.fake_capturing(1)", "source = pin(size); ctypes.memset(source, 5, size)"]
)
def test_small_captured_and_pinned_copies_are_the_drivers(driver: Path, setup: str) -> None:
    script = f"""
size = MIB; source = None; {setup}
d = device(size); source = source or block(size, 5); before = count('cuMemHostAlloc')
print(to_device(d, source, size), count('cuMemcpyHtoDAsync_v2'), count('cuMemHostAlloc') - before)
cuda.cuCtxSynchronize(); print(byte(d, 0))
"""
    assert said(driver, "ring", script) == ["0", "1", "0", "5"]


@pytest.mark.parametrize("failing", ["cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc", "cuEventCreate"])
def test_after_an_error_the_driver_copies(driver: Path, failing: str) -> None:
    script = """
size = 20 * MIB; d = device(size); target = block(size, 0)
C, V, N = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
print(cuda.cuMemcpyHtoD_v2(C(d), V(block(size, 5)), N(size)), byte(d, size - 1), count('cuMemcpyHtoD_v2'))
"""
    assert said(driver, "ring", script, FAKE_FAIL=failing) == ["0", "5", "1"]


def test_large_blocks_are_registered_once_however_often_they_are_made(driver: Path) -> None:
    script = """
size = 3 * MIB; d = device(size)
for step in range(5):
    source = block(size, step); print(to_device(d, source, size), byte(d, 7), end=' ')
    libc.free(ctypes.c_void_p(source))
print(count('cuMemHostRegister_v2'), alive('e'))
"""
    expected = [word for step in range(5) for word in ("0", str(step))]
    assert said(driver, "register", script, "blocks") == [*expected, "1", "0"]


def test_copies_of_registered_blocks_are_done_when_those_of_pageable_memory_are(driver: Path) -> None:
    assert said(driver, "register", RING, "blocks")[:3] == ["0", "0", "True"]


def test_what_the_program_registers_is_its_own(driver: Path) -> None:
    script = """
size = 4 * MIB; d = device(size); source = block(size, 5); V = ctypes.c_void_p
to_device(d, source, size)
print(cuda.cuMemHostRegister_v2(V(source), ctypes.c_size_t(size), 0), to_device(d, source, size), alive('r'))
print(cuda.cuMemHostUnregister(V(source)), alive('r'))
"""
    assert said(driver, "register", script, "blocks") == ["0", "0", "1", "0", "0"]


def test_a_forked_child_leaves_everything_to_the_driver(driver: Path) -> None:
    script = """
p = pin(4 * MIB); pid = os.fork()
if not pid:
    before = count('cuMemHostAlloc'); pin(4 * MIB); os._exit(count('cuMemHostAlloc') - before)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert said(driver, "pins", script) == ["1"]


def test_what_is_cured_and_recorded_at_once_works_as_cured(driver: Path, tmp_path: Path) -> None:
    """Under `pinprof record`. What a cure does in a call's place is not recorded, other calls are."""
    script = """
size = 3 * MIB; d = device(size); p = pin(5 * MIB); unpin(p); print(pin(5 * MIB) == p)
for step in range(20):
    source = block(size, step); to_device(d, source, size); libc.free(ctypes.c_void_p(source))
print(byte(d, 7), count('cuMemHostRegister_v2'))
cuda.cuCtxSynchronize()
"""
    assert said(driver, "pins,register", script, "blocks", PINPROF_INSIDE=str(tmp_path)) == ["True", "19", "2"]
    calls = agent.read(tmp_path).activity.calls
    names = [calls.names[name] for name in calls.name.tolist()]
    assert (names.count("cuCtxSynchronize"), names.count("cuMemHostAlloc")) == (1, 0)


@pytest.mark.parametrize("thread", ["0", "2"])
@pytest.mark.parametrize("static", [True, False])
def test_the_runtime_is_reached_linked_either_way(driver: Path, tmp_path: Path, *, static: bool, thread: str) -> None:
    options = [f"-DPER_THREAD={thread}"]
    if not static:
        built(tmp_path / "libcudart.so", "cuda_cures.c", "-DRUNTIME", "-shared", "-fPIC", *options)
        options = ["-DPROGRAM", f"-L{tmp_path}", "-lcudart", f"-Wl,-rpath,{tmp_path}"]
    program = built(tmp_path / "program", "cuda_cures.c", *options)
    done = subprocess.run([program], env=environment(driver, "pins,ring"), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["answer 0 reused 1 same 1", "register 1 allocate 4 pageable 0"]


def test_looking_up_what_follows_still_begins_at_the_caller(driver: Path, tmp_path: Path) -> None:
    sources = {
        "near.c": "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
        'int answer(void) { return ((int (*)(void))dlsym(RTLD_NEXT, "answer"))() + 1; }',
        "far.c": "int answer(void) { return 41; }",
        "main.c": "int answer(void); int main(void) { return answer(); }",
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text + "\n")
    places = [f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed"]
    for made, options in (
        ("libfar.so", ["far.c", "-shared", "-fPIC"]),
        ("libnear.so", ["near.c", "-shared", "-fPIC"]),
        ("main", ["main.c", *places, "-lnear", "-lfar", "-ldl"]),
    ):
        subprocess.run([*compiler(), *options, "-o", made], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], env=environment(driver, "pins"), check=False)
    assert done.returncode == 42
