"""Scenario × time of an iteration × its three heaviest causes, from packed captures, as Markdown and JSON.

    python tools/scenario_table.py FOLDER [--json FILE] [--markdown FILE]

FOLDER holds NAME.pinprof.tar.xz or NAME.pinprof; captures of programs that are no scenario are left out. Without a file
the Markdown goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pinprof import read
from pinprof.analyze import Run, analyze
from pinprof.base.errors import PinprofError
from pinprof.base.units import format_bytes, format_ns, format_share

SUFFIX = ".pinprof"
PACKED = ".pinprof.tar.xz"
CAUSES = 3


@dataclass(frozen=True)
class Row:
    """One capture."""

    capture: str
    scenario: str
    variant: str
    family: str
    collectors: tuple[str, ...]
    size_bytes: int
    iterations: int
    iteration_ns: float
    """Mean of the measured iterations."""
    causes: tuple[tuple[str, float], ...]
    """(leaf, share of the sampled time of the iterations), heaviest first; empty without samples."""
    headline: str
    phases: dict[str, float]
    """Mean time of an iteration in each phase, ns."""


@contextmanager
def captures(folder: Path) -> Iterator[list[Path]]:
    """Every capture of a folder, packed ones unpacked as long as the block runs."""
    with tempfile.TemporaryDirectory() as place:
        for archive in sorted(folder.glob(f"*{PACKED}")):
            with tarfile.open(archive) as packed:
                # Python before 3.11.4 knows no filters.
                packed.extraction_filter = getattr(tarfile, "data_filter", None)
                packed.extractall(place)
        found = [path for base in (Path(place), folder) for path in base.glob(f"*{SUFFIX}") if path.is_dir()]
        yield sorted(found, key=lambda path: path.name)


def row_of(path: Path, analysis: Run) -> Row | None:
    """What the table says of a capture; None for programs that are no scenario."""
    manifest = analysis.capture.manifest
    scenario, parameters = manifest.scenario, manifest.scenario.get("parameters", {})
    whole = next((entry for entry in analysis.ranges if entry.path.names == ("iteration",)), None)
    if not scenario.get("name") or whole is None:
        return None
    main = analysis.main
    part = whole.event(main.event) if main and main.event.unit == "ns" else None
    heaviest = list(part.by_leaf.items())[:CAUSES] if part and part.total else []
    return Row(
        capture=path.name.removesuffix(SUFFIX),
        scenario=str(scenario["name"]),
        variant=str(parameters.get("variant", "")),
        family=str(scenario.get("family", "")),
        collectors=tuple(str(entry.get("name")) for entry in manifest.collectors),
        size_bytes=int(parameters.get("size_bytes", 0)),
        iterations=whole.count,
        iteration_ns=whole.wall_ns / whole.count,
        causes=tuple((leaf, weight / part.total) for leaf, weight in heaviest) if part else (),
        headline=analysis.headline,
        phases={
            entry.name: entry.wall_ns / whole.count for entry in analysis.ranges if entry.path.parent is whole.path
        },
    )


def markdown(rows: list[Row]) -> str:
    """One line a capture."""
    lines = [
        "| capture | scenario | size | recorded by | one iteration | three heaviest causes |",
        "|---|---|---:|---|---:|---|",
    ]
    for row in rows:
        causes = ", ".join(f"`{leaf}` {format_share(share, 1)}" for leaf, share in row.causes) or "–"
        lines.append(
            f"| {row.capture} | `{row.scenario}`{f' ({row.variant})' if row.variant else ''} | "
            f"{format_bytes(row.size_bytes)} | {', '.join(row.collectors)} | {format_ns(row.iteration_ns)} | {causes} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Read every capture and write the table; exit status 1 when one could not be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    rows: list[Row] = []
    failed = 0
    with captures(given.folder) as paths:
        for path in paths:
            try:
                row = row_of(path, analyze(read.read(path)))
            except PinprofError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                failed += 1
                continue
            rows += [row] if row else []
    rows.sort(key=lambda row: (row.family, row.scenario, row.variant, row.collectors))
    if given.json:
        data: list[dict[str, Any]] = [asdict(row) for row in rows]
        given.json.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(markdown(rows), "utf-8")
    else:
        print(markdown(rows), end="")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
