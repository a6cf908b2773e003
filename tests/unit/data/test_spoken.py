"""Names of functions in sentences: the function alone, and never a part of it."""

from __future__ import annotations

import pytest

from pinprof.data.spoken import spoken


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("step(unsigned long)", "step"),
        ("void a::reduce<float, 4, b::Mean<int> >(c::Iterator&, long)", "a::reduce"),
        ("a::cuda(b::Tensor const&)::{lambda()#1}::operator()() const", "a::cuda::{lambda#1}::operator()"),
        ("(anonymous namespace)::run(int)", "{anonymous}::run"),
        ("std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<<"),
        ("bool operator<(A const&, A const&)", "operator<"),
        ("A::operator->() const", "A::operator->"),
        ("operator new(unsigned long)", "operator new"),
        ("operator new[](unsigned long)", "operator new[]"),
        ("A::operator bool() const", "A::operator bool"),
        ("work(int) [clone .part.0]", "work"),
    ],
)
def test_result_parameters_and_arguments_of_templates_are_left_out(function: str, said: str) -> None:
    assert spoken(function) == said


@pytest.mark.parametrize(
    "function",
    [
        "", "main", "<module>", "[libc.so.6]", "save_on_cpu.__init__.<locals>.pack", "work._omp_fn.0", "a<b",
        "_ZN3c1012function_refE", "<alloc::vec::Vec<T> as Drop>::drop", "odd)(name", "odd(name", "()", "core::fmt::pad",
    ],
)  # fmt: skip
def test_other_names_stay_as_they_are(function: str) -> None:
    assert spoken(function) == function
