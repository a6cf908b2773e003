"""What recordings hold of the program's memory, overwritten in the copies that are given to others."""

from __future__ import annotations

from pathlib import Path

from pinprof.read.perf import data, program_memory, stack_copies, unread_fields
from pinprof.read.symbols.resolver import Resolver, SealedSymbols
from pinprof.streams import store


def blank_samples(path: Path) -> None:
    """Overwrite it in perf.data; ValueError where nothing else has the call chains."""
    recording = data.load(path, placed=True)
    if recording.holds_stacks:
        if not store.part(path.parent, store.PERF_SCRIPT):
            raise ValueError("its call chains exist only as copies of the program's stack")
        stack_copies.blank(path, recording.header)
    program_memory.blank(recording)


def blank_calls(path: Path) -> None:
    """Overwrite it in calls.data."""
    symbols = store.part(path.parent, store.SYMBOLS)
    resolver = Resolver(sealed=SealedSymbols.load(symbols) if symbols else None)
    recording = data.load(path, placed=True)
    program_memory.blank(recording, unread_fields.functions_called(recording, resolver))
