"""Tables of who waits for whom and of the ledger, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import pinprof

pytest.importorskip("pandas", reason="pandas is not installed")
CAPTURE = Path(__file__).parents[2] / "data/cases/long_pin_blocks.pinprof.tar.xz"


def test_blame_and_ledger_are_tables() -> None:
    run = pinprof.open(CAPTURE)
    held = run.blame.iloc[0]
    assert (held.wait, held.file, held.line) == ("wait.lock", "long_pin_blocks.py", 26)
    assert (held.holder_kind, held.holder_file, held.holder_line) == ("thread", "long_pin_blocks.py", 16)
    assert held.certainty == "busy meanwhile"
    assert "shmem_get_folio_gfp" in held.holder_stack
    ledger = run.ledger.iloc[0]
    assert (ledger.kind, ledger.api, ledger.line) == ("pinned", "cudaHostAlloc", "pin (long_pin_blocks.py:16)")
    assert ledger.peak_bytes == ledger.granted_bytes == 4 << 30
    assert run.ledger.granted_bytes.sum() >= 4112 << 20
