"""Inputs as files: what failed once lies in tests/fuzz/kept and runs in every test run.

kept/NAME OF THE TARGET/WHAT FAILED@NUMBER OF THE SEED/the files that are not as in the seed
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.seeds import Files, write
from tests.fuzz.targets import TARGETS, Target

KEPT = Path(__file__).parent / "kept"


def save(damage: Files, folder: Path, target: Target, seed: int, name: str) -> Path:
    """Store what differs from a seed; the folder it is in."""
    place = folder / target.name / f"{name}@{seed}"
    write(damage, place)
    return place


def load(place: Path) -> tuple[Target, int, dict[str, bytes]]:
    """The target, the number of the seed, and what differs from it."""
    target = next(one for one in TARGETS if one.name == place.parent.name)
    files = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    return target, int(place.name.rpartition("@")[2]), files


def kept() -> Iterator[Path]:
    """Every input that is kept."""
    yield from sorted(KEPT.glob("*/*@*"))
