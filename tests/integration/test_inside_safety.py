"""The agent in programs of all kinds: they run as they do without it, and what it says of them is right or nothing."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pinprof.collect import inside
from pinprof.collect.request import RecordRequest
from pinprof.machine.libraries import compiler
from tests.support import agent
from tests.support.other_user import AS_NOBODY

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
DONE = '#include <stdio.h>\nint main(void) { return puts("done"), 3; }\n'


def plugin(folder: Path, driver: Path, name: str, text: str) -> Path:
    """A library that is linked to the driver."""
    return agent.program(
        folder, agent.DECLARED + text, "-shared", "-fPIC", f"-L{driver}", "-l:libcuda.so.1", name=f"{name}.so"
    )


@pytest.mark.parametrize("recording", [True, False])
def test_a_driver_that_comes_and_goes_with_a_library_is_never_called_where_it_lay(
    driver: Path, tmp_path: Path, folder: Path, *, recording: bool
) -> None:
    text = """
int work(void)
{
    void *address;
    return cuGetProcAddress_v2("cuInit", &address, 13000, 0, NULL) + cuInit(5) + cuEventQuery((void *)1);
}
"""
    library = plugin(tmp_path, driver, "plugin", text)
    program = agent.program(
        tmp_path,
        f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{{
    for (int i = 0; i < 5; i++) {{
        void *library = dlopen("{library}", RTLD_NOW), *loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        void *place = (void *)((struct link_map *)loaded)->l_addr;
        printf("%d ", ((int (*)(void))dlsym(library, "work"))());
        dlclose(loaded), dlclose(library);
        mmap(place, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }}
    return 0;
}}
""",
    )
    expected = "1105 " * 5
    assert agent.run_bare([program], driver) == expected
    assert agent.run([program], driver, folder if recording else None) == expected
    if recording:
        calls = agent.read(folder).activity.calls
        assert Counter(calls.names[name] for name in calls.name) == {"cuInit": 5, "cuEventQuery": 5}


def test_libraries_that_take_each_others_place_have_their_own_lines(driver: Path, tmp_path: Path, folder: Path) -> None:
    """Loaded by the same code, and alike but for their names, so that each return address is that of the others."""
    text = "int {0}(void) {{ return cuEventQuery(NULL) + 0; }}"
    libraries = [plugin(tmp_path, driver, name, text.format(name)) for name in ("one", "two", "six")]
    program = agent.of_c(
        tmp_path,
        driver,
        """
int main(int count, char **names)
{
    cuInit(0);
    for (int i = 0; i < 9; i++) {
        void *library = dlopen(names[2 * (i % 3) + 1], RTLD_NOW);
        int (*work)(void) = (int (*)(void))dlsym(library, names[2 * (i % 3) + 2]);
        printf("%p ", (void *)work);
        for (int k = 0; k <= i % 3; k++)
            work();
        dlclose(library);
    }
    return 0 * count;
}
""",
    )
    words = [word for library in libraries for word in (library, library.stem)]
    places = agent.run([program, *words], driver, folder).split()
    assert len(set(places)) < 9, "each has a place of its own"
    calls = agent.read(folder).activity.calls
    assert calls.site is not None
    found = Counter(calls.sites[site].function for site in calls.site.tolist())
    assert found == {"main": 1, "one": 3, "two": 6, "six": 9}


def test_a_library_with_a_scope_of_its_own_finds_what_it_would_without_the_agent(
    driver: Path, tmp_path: Path, folder: Path
) -> None:
    text = """
static int (*found)(void *);
int work(void)
{
    void *own = dlopen("libcuda.so.1", RTLD_NOW);
    found = (int (*)(void *))dlsym(own, "cuEventQuery");
    free(memset(malloc(1 << 20), 1, 1 << 20));
    return cuEventQuery((void *)1) + cuInit(7) + found((void *)1);
}
"""
    library = plugin(tmp_path, driver, "deep", text)
    program = agent.program(
        tmp_path,
        f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{{
    void *library = dlopen("{library}", RTLD_NOW | RTLD_DEEPBIND);
    return printf("%d", ((int (*)(void))dlsym(library, "work"))()), 0;
}}
""",
    )
    assert agent.run_bare([program], driver) == "1207"
    assert agent.run([program], driver, folder) == "1207"
    assert all(file.lost == file.damaged == 0 for file in agent.all_files(folder))


def without_agent(folder: Path, kind: str) -> str:
    """The command of a program into which no agent can come, and which ends with 3."""
    program = folder / "done"
    if kind == "musl":
        if shutil.which("musl-gcc") is None:
            pytest.skip("musl-gcc is not installed")
        (folder / "done.c").write_text(DONE)
        subprocess.run(["musl-gcc", folder / "done.c", "-o", program], check=True)
        return str(program)
    agent.program(folder, DONE, *(["-static"] if kind == "static" else []), name="done")
    if kind != "setuid":
        return f"env -i {program}"
    if os.geteuid() != 0:
        pytest.skip("only root can make a program run with other rights")
    for above in (folder, *folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o111)
    program.chmod(0o4755)
    return f"{sys.executable} {' '.join(AS_NOBODY[1:])} {program}"


@pytest.mark.parametrize("kind", ["static", "setuid", "musl", "without its environment"])
def test_programs_into_which_no_agent_comes_are_started_by_a_recorded_one(
    driver: Path, tmp_path: Path, folder: Path, kind: str
) -> None:
    command = without_agent(tmp_path, kind)
    script = (
        agent.PRELUDE
        + f"""
import subprocess
cuda.cuInit(0)
done = subprocess.run({command.split()!r}, capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
"""
    )
    assert agent.run_python(driver, folder, script) == "3 done\n \n"
    calls = agent.read(folder).activity.calls
    assert [calls.names[name] for name in calls.name] == ["cuInit"]


def test_where_musl_is_the_c_library_nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pinprof's own Python has the same loader there."""
    monkeypatch.setattr(inside, "_loader", lambda _: "ld-musl-x86_64.so.1")
    program = agent.program(tmp_path, DONE)
    assert "ld-musl" in inside.reason(RecordRequest(command=(str(program),)))


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc_minimal", "mimalloc"])
def test_an_allocator_that_the_user_preloads_stays_the_programs(driver: Path, folder: Path, name: str) -> None:
    library = ctypes.util.find_library(name)
    if library is None:
        pytest.skip(f"{name} is not installed")
    script = (
        agent.PRELUDE
        + """
import threading
def work():
    for size in range(1, 400):
        bytearray(size << 12), bytearray(300_000)
        cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(0x7F << 56), P(4096), ctypes.c_size_t(size), None)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if not os.fork(): work(), os._exit(0)
os.wait()
print(os.environ["LD_PRELOAD"].split(":")[0])
"""
    )
    folder.mkdir()
    own = agent.environment(driver, folder)
    own["LD_PRELOAD"] = f"{library}:{own['LD_PRELOAD']}"
    done = subprocess.run([sys.executable, "-S", "-c", script], env=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{library}\n", "")
    calls = agent.read(folder).activity.calls
    assert calls.size_bytes is not None
    assert Counter(calls.size_bytes.tolist()) == dict.fromkeys(range(1, 400), 5)


def test_the_driver_of_cuda_11_and_modes_of_streams_by_name(driver: Path, tmp_path: Path, folder: Path) -> None:
    """cuGetProcAddress takes four arguments before CUDA 12."""
    text = """
int cuGetProcAddress(const char *, void **, int, word), cuMemcpyHtoD_v2_ptds(word, const void *, size_t),
    cuMemcpyHtoDAsync_v2_ptsz(word, const void *, size_t, void *);
int main(void)
{
    int (*get)(const char *, void **, int, word) = NULL;
    int (*copy)(word, const void *, size_t, void *) = NULL;
    int wrong = cuGetProcAddress("cuGetProcAddress", (void **)&get, 11080, 0);
    wrong += get("cuMemcpyHtoDAsync", (void **)&copy, 11080, 0) + copy(DEVICE, "", 1, NULL);
    wrong += get("cuMemcpyHtoDAsync", (void **)&copy, 11080, 2) + copy(DEVICE, "", 2, NULL);
    wrong += (get("cuUnknown", (void **)&copy, 11080, 0) != 500) + (copy != NULL);
    get = (int (*)(const char *, void **, int, word))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress");
    wrong += get("cuMemcpyHtoD", (void **)&copy, 11080, 2);
    wrong += ((int (*)(word, const void *, size_t))copy)(DEVICE, "", 3);
    return wrong + cuMemcpyHtoD_v2_ptds(DEVICE, "", 4) + cuMemcpyHtoDAsync_v2_ptsz(DEVICE, "", 5, NULL);
}
"""
    program = agent.of_c(tmp_path, driver, text)
    agent.run([program], driver, None)
    agent.run([program], driver, folder)
    calls = agent.read(folder).activity.calls
    assert calls.size_bytes is not None
    assert [(calls.names[name], size) for name, size in zip(calls.name, calls.size_bytes, strict=True)] == [
        ("cuMemcpyHtoDAsync", 1), ("cuMemcpyHtoDAsync", 2), ("cuMemcpyHtoD", 3), ("cuMemcpyHtoD", 4),
        ("cuMemcpyHtoDAsync", 5),
    ]  # fmt: skip


def test_the_driver_is_called_by_the_program_alone(tmp_path: Path, folder: Path) -> None:
    """So nothing is added to a stream that is being captured, and nothing is waited for."""
    agent.compiled(tmp_path / "libcuda.so.1", agent.SUPPORT / "fake_libcuda.c", *agent.DRIVER)
    script = (
        agent.PRELUDE
        + """
N, C = ctypes.c_size_t, ctypes.c_uint64
cuda.cuInit(0); cuda.fake_capturing(1)
pinned, device = P(), C()
cuda.cuMemHostAlloc(ctypes.byref(pinned), N(8192), 0), cuda.cuMemAlloc_v2(ctypes.byref(device), N(8192))
for _ in range(3):
    cuda.cuMemcpyHtoDAsync_v2(device, pinned, N(8192), P(1)), cuda.cuEventRecord(P(1), P(1))
cuda.fake_capturing(0); cuda.cuCtxSynchronize(); cuda.cuMemFreeHost(pinned)
names = "cuMemHostAlloc cuMemFreeHost cuMemHostGetFlags cuCtxSynchronize cuEventCreate cuEventRecord"
names += " cuEventSynchronize cuMemcpyHtoDAsync_v2 cuPointerGetAttribute"
print([cuda.fake_count(name.encode()) for name in names.split()])
"""
    )
    bare = agent.run_bare([sys.executable, "-S", "-c", script], tmp_path)
    assert bare == "[1, 1, 0, 1, 0, 3, 0, 3, 0]\n"
    assert agent.run_python(tmp_path, folder, script) == bare
    assert len(agent.read(folder).activity.calls) == 11


def test_threads_that_are_ended_in_the_midst_of_a_call(driver: Path, tmp_path: Path, folder: Path) -> None:
    """Wherever they are, in the agent too, as cancellation that does not wait may do."""
    text = """
static _Atomic long made;
static void *work(void *how)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (long i = 0;; i++) {
        cuMemcpyHtoDAsync_v2(DEVICE, &made, 100000, (void *)(i % 50 ? 0 : 100000l)), made++;
        if (i == (long)how)
            pthread_exit(NULL);
    }
    return NULL;
}
int main(void)
{
    cuInit(0);
    for (long round = 0; round < 200; round++) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, work, (void *)(i ? 1l << 40 : round));
        usleep((unsigned)round * 10);
        for (int i = 1; i < 4; i++)
            pthread_cancel(threads[i]);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    return printf("%ld", made), 3;
}
"""
    made = int(agent.run([agent.of_c(tmp_path, driver, text)], driver, folder, status=3))
    (file,) = agent.files(folder)
    assert file.damaged == 0
    # But for threads that ended between the driver and what is noted of the call, or between that and the count.
    assert abs(len(file.records) - 1 + file.lost - made) <= 600


def test_a_program_without_cuda_gets_no_thread_and_no_descriptor(tmp_path: Path, driver: Path) -> None:
    script = "import os; print(os.listdir('/proc/self/fd'), os.listdir('/proc/self/task') == [str(os.getpid())])"
    bare = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert agent.run_python(driver, tmp_path / "inside", script) == bare.stdout
    assert bare.stdout.endswith("True\n")


def test_off_keeps_it_out(tmp_path: Path, driver: Path) -> None:
    script = "import os; print(os.environ.get('LD_PRELOAD'), 'libpinprof' in open('/proc/self/maps').read())"
    command = [sys.executable, "-m", "pinprof", "record", "--inside", "off", "--no-report", "--no-calibrate", "-q"]
    done = subprocess.run(
        [*command, "-o", tmp_path / "run.pinprof", "--", sys.executable, "-c", script],
        env={**os.environ, "LD_PRELOAD": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == " False\n"
