"""A run of `pinprof fleet`: find the captures, map what is new, and say where everything is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pinprof.base.errors import PinprofError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.terminal import say
from pinprof.base.units import format_counted
from pinprof.fleet import engine
from pinprof.fleet.mapping import digest_of
from pinprof.fleet.packages import package
from pinprof.fleet.sources import Source, sources_of
from pinprof.fleet.store import CapturePlace, Store

Tell = Callable[[str], None]
_HASHING = 4
"""Threads."""


@dataclass(frozen=True)
class Gathered:
    """A fleet whose captures are all mapped."""

    places: tuple[CapturePlace, ...]
    mapped: int
    """Captures that were new, or had changed."""


def gather(
    given: Sequence[str], folder: Path, scheduler: str, workers: int | None, memory: str, tell: Tell
) -> Gathered:
    """Map what is new behind paths, globs and URLs into the store at `folder`; PinprofError."""
    for name in ("pyarrow", "duckdb"):
        package(name, "pinprof fleet")
    tell("Looking for captures")
    sources = sources_of(given)
    with Store(folder) as store:
        if store.lost:
            parts = format_counted(store.lost, "part", "parts")
            say(f"{parts} of the store {folder} had damage. The captures in them are read again.", error=True)
        known = {source.stamp: store.stamps[source.stamp] for source in sources if source.stamp in store.stamps}
        known |= _moved([source for source in sources if source.stamp not in known], store.captures)
        new = [source for source in sources if source.stamp not in known]
        capture = {source.path: known[source.stamp] for source in sources if source.stamp in known}
        tell(f"Reading 0 of {len(new):,} new captures")
        for done, mapped in enumerate(engine.mapped(new, scheduler, workers, memory), 1):
            store.add(mapped)
            capture[mapped.path] = mapped.capture
            tell(f"Reading {done:,} of {len(new):,} new captures")
        places = _places(sources, capture)
        store.finish(places)
    return Gathered(places, len(new))


def _moved(sources: Sequence[Source], captures: frozenset[str]) -> dict[str, str]:
    """Stamp → capture of local files whose content is mapped already: moved, copied, or only touched."""
    local = [source for source in sources if not source.keys]
    if not captures or not local:
        return {}
    with ThreadPoolExecutor(_HASHING) as threads:
        digests = threads.map(_digest, local)
        return {source.stamp: digest for source, digest in zip(local, digests, strict=True) if digest in captures}


def _digest(source: Source) -> str:
    try:
        return digest_of(Path(source.path))
    except (OSError, PinprofError):
        return ""  # which whoever maps it says


def _places(sources: Sequence[Source], capture: dict[str, str]) -> tuple[CapturePlace, ...]:
    first: dict[str, str] = {}
    places = []
    for source in sources:
        name = capture[source.path]
        copy_of = first.setdefault(name, source.path)
        places.append(CapturePlace(source.path, name, source.stamp, "" if copy_of == source.path else copy_of))
    return tuple(places)
