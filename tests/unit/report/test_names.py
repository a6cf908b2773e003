"""Names of recorded programs come out visible, harmless and no wider than asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.report.names import printable, shortened, shortened_place


def test_control_characters_become_pictures() -> None:
    assert printable("a\x00b\x1b[31m\n\x7f") == "a␀b␛[31m␊␡"


def test_direction_marks_and_surrogates_are_spelled_out() -> None:
    assert printable("x\u202eevil\ud800\uffff") == "x⟨U+202E⟩evil\ufffd⟨U+FFFF⟩"


def test_ordinary_names_stay_as_they_are() -> None:
    name = "std::vector<int>::operator[](unsigned long) 🚀 größe مرحبا"
    assert printable(name) == name


def test_long_names_keep_both_ends() -> None:
    assert shortened("abcdefghij", 7) == "abcd…ij"


@given(st.text(st.characters(exclude_categories=[]), max_size=50), st.integers(4, 40))
def test_any_text_can_be_encoded_and_fits(name: str, width: int) -> None:
    text = shortened(name, width)
    assert len(text) <= width
    assert text.encode("utf-8").decode("utf-8") == text
    assert not any(ord(character) < 0x20 for character in text)


@pytest.mark.parametrize(
    ("name", "width", "said"),
    [
        ("Linear.forward (torch/nn/modules/linear.py:134)", 60, "Linear.forward (torch/nn/modules/linear.py:134)"),
        ("Linear.forward (torch/nn/modules/linear.py:134)", 30, "Linear.forward (linear.py:134)"),
        ("Linear.forward (torch/nn/modules/linear.py:134)", 24, "Line…ard (linear.py:134)"),
        ("Linear.forward (torch/nn/modules/linear.py:134)", 15, "linear.py:134"),
        ("run (<frozen importlib._bootstrap>:488)", 12, "run"),
        ("void at::mean<float, 4>(at::Tensor const&)", 20, "at::mean"),
        ("a_function_without_a_place", 10, "a_func…ace"),
    ],
)
def test_a_line_is_not_cut_in_its_middle(name: str, width: int, said: str) -> None:
    assert shortened_place(name, width) == said
    assert len(said) <= width
