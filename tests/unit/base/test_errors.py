"""Messages quote names of recordings, which may hold anything; what is printed is a sentence all the same."""

from __future__ import annotations

from pathlib import Path

from pinprof.base.errors import FormatError, PinprofError


def test_what_controls_a_terminal_is_spelled_out_wherever_it_stands() -> None:
    error = PinprofError("The table \x1b[31mNVTX\x07 is missing.", "Export \udcff again.", "damaged")
    assert str(error) == "The table ␛[31mNVTX␇ is missing. Export \ufffd again."
    assert error.args == (error.problem,)
    error.problem = "a\x00b"
    assert error.problem == "a␀b"


def test_endless_names_are_cut_in_their_middle() -> None:
    found = f"begin{'x' * 70_000}end"
    error = FormatError(Path("a.data"), expected="an event", found=found, remedy="Record.", slug="x")
    assert len(str(error)) < 500
    assert "found begin" in str(error)
    assert str(error).endswith("end. Record.")


def test_many_endless_names_make_no_endless_sentence() -> None:
    assert len(PinprofError("name " * 70_000, "word " * 70_000, "x").problem) <= 1500
    assert len(str(PinprofError("name " * 70_000, "Record again.", "x"))) < 2000
