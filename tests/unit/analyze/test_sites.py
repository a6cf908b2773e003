"""Where to change something: the innermost line of the program's own code, else a library's, else a function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pinprof.analyze.lines import NOTHING
from pinprof.analyze.sites import Site, Sites
from pinprof.data.activity import Caller
from tests.support.stacks import Sample, capture

TORCH = "/opt/venv/lib/python3.12/site-packages/torch/storage.py"
LIBTORCH = "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so"


def site(*stacks: Sequence[str], weight: Sequence[int] = ()) -> Site:
    made = capture([Sample(stack, time_ns=number) for number, stack in enumerate(stacks)])
    sites = Sites(made)
    frames = sites.frames(made.samples.stack)
    return sites.heaviest(frames, np.array(weight or [1] * len(stacks), np.int64), "worker")


def test_own_line_counts_whatever_it_called() -> None:
    found = site(["main (train.py:3)@/w/train.py", "step (train.py:20)@/w/train.py", f"clone (storage.py:5)@{TORCH}",
                  f"at::clone@{LIBTORCH}", "asm_exc_page_fault"])  # fmt: skip
    assert found == Site("step", "train.py", 20, "worker")
    assert found.place == "train.py:20"


def test_thread_of_a_library_has_the_library_s_line() -> None:
    assert site([f"loop (storage.py:57)@{TORCH}", "clear_page"]).place == "torch/storage.py:57"


def test_the_line_of_a_program_that_is_a_package_is_its_own() -> None:
    packages = "/opt/venv/lib/python3.12/site-packages"
    main, runner = f"{packages}/bench/bm_tcp/run.py", f"{packages}/pyperf/_runner.py"
    made = capture(
        [Sample([f"<module> (run.py:90)@{main}", f"bench (run.py:31)@{main}", f"go (_runner.py:7)@{runner}"])]
    )
    sites = Sites(made)
    found = sites.site(int(sites.frames(made.samples.stack)[0]), "worker")
    assert (found.place, sites.is_own(found)) == ("bench/bm_tcp/run.py:31", True)
    assert not sites.is_own(sites.site(int(made.stacks.frame[-1]), "worker"))


def test_without_lines_the_innermost_own_function_counts() -> None:
    stack = ["_start@/app", "main@/app", "fill@/app", "memset@/usr/lib/libc.so.6", "clear_page"]
    assert site(stack) == Site("fill", "", 0, "worker")
    assert site(stack).place == "fill"


@pytest.mark.parametrize("name", ["libcudart_static_1310e5fb72b7ef3b", "__libcudart_static_19d1", "cudart::copy(void*)",
                                  "cudaMemcpyAsync", "__cudaPushCallConfiguration"])  # fmt: skip
def test_the_runtime_that_is_linked_into_a_program_is_not_its_own(name: str) -> None:
    assert site(["main@/app", "fill@/app", f"{name}@/app", "cuMemcpyHtoDAsync@/usr/lib/libcuda.so.1"]).place == "fill"


@pytest.mark.parametrize("path", ["/usr/lib/x86_64-linux-gnu/libgomp.so.1", "/usr/local/cuda/lib64/libcublas.so.13",
                                  "/opt/x/libcudart.so.12", "/opt/x/libtorch.so", "[vdso]",
                                  "/opt/nsight-systems/target/libToolsInjection64.so",
                                  "/home/me/.cache/pinprof/libpinprof_inside.af1e1188fb3f.so"])  # fmt: skip
def test_system_libraries_are_nobody_s_own(path: str) -> None:
    assert site(["main@/app", f"work@{path}"]).place == "main"


def test_heaviest_place_wins_and_none_loses() -> None:
    mine, other, kernel = ["a (a.py:1)@/w/a.py"], ["b (b.py:2)@/w/b.py"], ["kthread"]
    assert site(mine, other, weight=[1, 2]).place == "b.py:2"
    assert site(mine, kernel, weight=[1, 9]).place == "a.py:1"
    assert site(kernel) == Site("", "", 0, "worker")
    assert site(kernel).place == ""


def test_one_line_is_one_place_however_many_functions_it_is_in() -> None:
    first, second = ["<lambda> (a.py:7)@/w/a.py"], ["run (a.py:7)@/w/a.py"]
    made = capture([Sample(first, time_ns=0), Sample(second, time_ns=1)])
    frames = Sites(made).frames(made.samples.stack)
    assert frames[0] == frames[1] != NOTHING


def test_files_of_one_name_are_told_apart() -> None:
    stacks = ["f (m.py:1)@/w/one/m.py"], ["g (m.py:2)@/w/two/m.py"]
    assert site(*stacks, weight=[2, 1]).place == "one/m.py:1"


@pytest.mark.parametrize(
    ("caller", "place"),
    [
        (Caller("step", "app.cu", 11, "/w/app.cu"), "app.cu:11"),
        (Caller("step", "libmine.so"), "step"),
        (Caller("f(int)", "m.py", 3, "/elsewhere/m.py"), "m.py:3"),
        (Caller("f", "m.py", 1, "/w/one/m.py"), "one/m.py:1"),
        (Caller("g", "m.py", 2, "/w/two/m.py"), "two/m.py:2"),
    ],
)
def test_site_of_a_call_has_the_file_as_samples_have_it(caller: Caller, place: str) -> None:
    made = capture([Sample(["f (m.py:1)@/w/one/m.py"]), Sample(["g (m.py:2)@/w/two/m.py"])])
    found = Sites(made).of_caller(caller, "worker")
    assert (found.function, found.place, found.thread) == (caller.function, place, "worker")


HOSTILE = ["<script>alert(1)</script>", "", "a\nb", "\x1b[31mred", "x" * 10_000, "(((", "%s{0}", "f (a:99999999999999)"]


@pytest.mark.parametrize("name", HOSTILE)
def test_forged_names_stay_text(name: str) -> None:
    assert Sites(capture([Sample(["main@/app"])])).of_caller(Caller(name, name), "").function == name
    found = site([f"{name}@/app"])
    assert found.function in ("", name)
    assert site([f"{name} (a.py:5)@/w/a.py"]).place == "a.py:5"
