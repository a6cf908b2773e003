"""The captures of tests/data/h200, unpacked once per run and read once per name."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pinprof.analyze import Run, analyze
from pinprof.analyze.attribution.matching import normalise, scope_of
from pinprof.read import ReadOptions, read

DATA = Path(__file__).parents[1] / "data" / "h200"
NAMES = ("pageable", "pinned", "uvm", "uvm.all", "both")


def unpack(archive: Path, folder: Path) -> Path:
    """The file inside an xz archive, written into a folder."""
    target = folder / archive.stem
    if not target.exists():
        with lzma.open(archive) as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    return target


def unpack_captures(folder: Path) -> None:
    """pinprof's own captures, as `NAME.pinprof` directories."""
    for archive in DATA.glob("*.pinprof.tar.xz"):
        _extract(archive, folder)


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 knows no filters; these archives are ours.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


@cache
def own_analysis(name: str) -> Run:
    """One of pinprof's own captures, analysed."""
    with tempfile.TemporaryDirectory(prefix="pinprof-h200-") as folder:
        _extract(DATA / f"{name}.pinprof.tar.xz", Path(folder))
        return analyze(read(Path(folder) / f"{name}.pinprof", ReadOptions()))


@cache
def analysis(name: str) -> Run:
    """One capture, read with that boot's kernel symbols and its ranges, and analysed."""
    with tempfile.TemporaryDirectory(prefix="pinprof-h200-") as folder:
        options = ReadOptions(kallsyms=unpack(DATA / "kallsyms.xz", Path(folder)), ranges=DATA / f"{name}.ranges.jsonl")
        return analyze(read(unpack(DATA / f"{name}.perf.data.xz", Path(folder)), options))


@cache
def kernel_functions() -> Mapping[str, frozenset[str]]:
    """Normalised names of that boot's kernel and drivers, by scope as in `Frames.scope`."""
    names: dict[str, set[str]] = {"k": set(), "nv": set(), "uv": set()}
    with lzma.open(DATA / "kallsyms.xz", "rt") as lines:
        for _, _, name, *module in map(str.split, lines):
            names[scope_of(module[0].strip("[]") if module else "")].add(normalise(name))
    return {scope: frozenset(known) for scope, known in names.items()}
