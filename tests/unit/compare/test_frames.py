"""Functions of two sides are the same where only a build, a run or an edit elsewhere changed their names."""

from __future__ import annotations

import pytest

from pinprof.compare.frames import frame_key, function_key, library_key
from pinprof.data.model import KERNEL, LONGEST_NAME, USER, Dso

SAME = [
    ("fill(float*, int) [clone .isra.0]", "fill(float*, int)"),
    ("pin_user_pages.isra.0", "pin_user_pages.constprop.0.isra.1.cold"),
    ("fault.part.12", "fault"),
    ("fill.llvm.4711", "fill"),
    ("void fill<float>(float*, int)", "void fill<double>(double*, int)"),
    ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<float>::push_back(float const&)"),
    ("bool operator< <int>(A<int> const&, A<int> const&)", "bool operator< <long>(A<long> const&, A<long> const&)"),
    ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#2}::operator()(int) const"),
    ("main::$_0::operator()()", "main::$_7::operator()()"),
    ("app::main::{closure#0}", "app::main::{closure#3}"),
    ("core::ptr::drop_in_place<T>::h0123456789abcdef", "core::ptr::drop_in_place<T>::hfedcba9876543210"),
    ("app[8d3c4f00aa]::main", "app[77777777aa]::main"),
    ("step (train.py:20)", "step (train.py:31)"),
    ("fill (fill.cpp:3)", "fill (fill.cpp:4)"),
    ("main._omp_fn.0", "main._omp_fn.1"),
    ("[libcuda.so.580.159.04]", "[libcuda.so.575.57.08]"),
    ("memcpy@@GLIBC_2.14", "memcpy"),
    ("0x7f1200001234", "0x7f3400004321"),
    ("copy_page+0x1a/0x40", "copy_page+0x2b/0x40"),
    ("main.func1.2", "main.func2.1"),
]
DIFFERENT = [
    ("copy(int)", "copy(float)"),
    ("A::operator<(A const&) const", "A::operator>(A const&) const"),
    ("operator<<(std::ostream&, int)", "operator>>(std::ostream&, int)"),
    ("main", "main._omp_fn.0"),
    ("<lambda> (a.py:3)", "<listcomp> (a.py:3)"),
    ("step (train.py:20)", "step (test.py:20)"),
    ("<A as Drop>::drop", "<B as Drop>::drop"),
    ("(anonymous namespace)::f()", "f()"),
    ("std::vector<int>::clear()", "std::vector<int>::size()"),
    ("[libcuda.so.1]", "[libcudart.so.1]"),
]


@pytest.mark.parametrize(("before", "after"), SAME)
def test_names_of_one_function(before: str, after: str) -> None:
    assert function_key(before) == function_key(after)


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_names_of_two_functions(before: str, after: str) -> None:
    assert function_key(before) != function_key(after)


@pytest.mark.parametrize("name", [name for pair in (*SAME, *DIFFERENT) for name in pair])
def test_a_key_is_its_own_key_and_never_empty(name: str) -> None:
    key = function_key(name)
    assert key
    assert function_key(key) == key


@pytest.mark.parametrize(
    "name", ["", "<" * 5000, "a<" * 300, ">" * 600, "operator" * 100, "a (" * 200, "{lambda(" * 99]
)
def test_forged_names_have_a_key_soon(name: str) -> None:
    assert len(function_key(name)) <= 2 * LONGEST_NAME


def test_libraries_lose_their_versions_and_programs_their_names() -> None:
    def key(path: str, kind: str = "file") -> str:
        return library_key(Dso(path, "", kind))  # type: ignore[arg-type]

    assert key("/usr/lib/libcuda.so.580.159.04") == key("/lib64/libcuda.so.1") == "libcuda.so"
    assert key("/x/libgfortran-040039e1-0352e75f.so.5.0.0") == "libgfortran.so"
    assert key("/x/_umath.cpython-311-x86_64-linux-gnu.so") == key("/y/_umath.cpython-312-x86_64-linux-gnu.so")
    assert key("./fill-old") == key("/tmp/fill-new") == ""
    assert key("/a/train.py", "python") == "train.py"
    installed = "/site-packages/torch/_tensor.py"
    assert key(f"/x/lib/python3.11{installed}", "python") == key(f"/y/lib/python3.12{installed}", "python")
    assert key("[nvidia_uvm]", "module") == "[nvidia_uvm]"


def test_kernel_and_program_are_never_one_function() -> None:
    assert frame_key("copy", "", KERNEL) != frame_key("copy", "", USER)
    assert frame_key("copy", "[nvidia]", KERNEL) != frame_key("copy", "[kernel.kallsyms]", KERNEL)
