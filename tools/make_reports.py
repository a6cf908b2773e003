"""Rebuild reports/h200 from the captures in tests/data/h200: a page for each, an index, one copy of the scripts.

The repository holds the pages that reports/README.md names; the others are for the site (`make reports site`).

    python tools/make_reports.py [--captures FOLDER] [--reports FOLDER]

Rates in the captures' folder (rates.json) serve captures of the same machine that brought none; rates stored on this
machine never do. Pages of captures that are gone are removed. Exit status 1 when a capture cannot be read or the folder
is larger than it may be.
"""

from __future__ import annotations

import argparse
import html
import os
import sys
import tempfile
from pathlib import Path

from scenario_table import SUFFIX, Row, captures, row_of

from pinprof import read
from pinprof.analyze import Run, analyze
from pinprof.base.errors import PinprofError
from pinprof.base.units import format_bytes, format_ns, format_share
from pinprof.cli.list import FAMILIES
from pinprof.data import rates
from pinprof.read import machine_rates
from pinprof.report.gather import build
from pinprof.report.page.bundle import asset
from pinprof.report.page.html import write_html

ROOT = Path(__file__).parents[1]
LIMIT_BYTES = 20_000_000
OTHERS = "other recordings"
INDEX = "index.html"


def main() -> int:
    """Write the pages and the index."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--captures", type=Path, default=ROOT / "tests" / "data" / "h200")
    parser.add_argument("--reports", type=Path, default=ROOT / "reports" / "h200")
    given = parser.parse_args()
    given.reports.mkdir(parents=True, exist_ok=True)
    for old in (*given.reports.glob("*.html"), *given.reports.glob("pinprof-*.js")):
        old.unlink()
    rows: list[tuple[str, Row | None, str]] = []
    failed = 0
    with tempfile.TemporaryDirectory() as store, captures(given.captures) as paths:
        os.environ["XDG_DATA_HOME"] = store
        if (given.captures / "rates.json").is_file():
            rates.save(rates.read(given.captures / "rates.json"))
        for path in paths:
            try:
                analysis = page(path, given.reports)
            except PinprofError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                failed += 1
                continue
            name = path.name.removesuffix(SUFFIX)
            rows.append((name, row_of(path, analysis), analysis.headline))
    (given.reports / INDEX).write_text(index(rows), "utf-8")
    size = sum(file.stat().st_size for file in given.reports.iterdir())
    print(f"{len(rows)} pages and {INDEX} in {given.reports}, {size / 1e6:.1f} MB")
    if size > LIMIT_BYTES:
        print(f"That is more than {LIMIT_BYTES / 1e6:.0f} MB.", file=sys.stderr)
    return int(bool(failed) or size > LIMIT_BYTES)


def page(path: Path, reports: Path) -> Run:
    """Write the page of one capture."""
    analysis = analyze(machine_rates.stored(read.read(path)))
    target = reports / f"{path.name.removesuffix(SUFFIX)}.html"
    write_html(build(analysis), target, reports)
    return analysis


def _place(row: Row | None) -> tuple[int, str]:
    family = row.family if row else OTHERS
    return (FAMILIES.index(family), "") if family in FAMILIES else (len(FAMILIES), family)


def index(rows: list[tuple[str, Row | None, str]]) -> str:
    """All recordings by family, each with its iteration, its heaviest causes and its headline."""
    families: dict[str, list[str]] = {}
    order = sorted(rows, key=lambda entry: (_place(entry[1]), entry[0]))
    for name, row, headline in order:
        cells = [f'<th scope="row"><a href="{html.escape(name)}.html">{html.escape(name)}</a></th>']
        if row:
            causes = ", ".join(
                f"<code>{html.escape(leaf)}</code> {format_share(share, 1)}" for leaf, share in row.causes
            )
            what = f"{format_bytes(row.size_bytes)} × {row.iterations}, {html.escape(', '.join(row.collectors))}"
            cells += [f'<td class="num">{format_ns(row.iteration_ns)}</td>', f"<td>{causes or '–'}</td>"]
        else:
            what = "–"
            cells += ['<td class="num">–</td>', "<td>–</td>"]
        cells += [f"<td>{html.escape(headline)}</td>", f'<td class="faint">{what}</td>']
        families.setdefault(row.family if row else OTHERS, []).append(f"<tr>{''.join(cells)}</tr>")
    heading = "".join(f"<th>{title}</th>" for title in ("Recording", "An iteration", "Heaviest causes", "What", "How"))
    sections = "".join(
        f'<section class="panel"><h2>{html.escape(family)}</h2><div class="scroll"><table>'
        f"<thead><tr>{heading}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></section>\n"
        for family, lines in families.items()
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Recordings · pinprof</title>\n'
        f"<style>{asset('styles/page.css')}\ntd, tbody th {{ vertical-align: top; text-align: left; }}</style>\n"
        "</head>\n<body>\n"
        '<main class="wrap">\n<h1>Every scenario, recorded</h1>\n'
        f"{sections}</main>\n</body>\n</html>\n"
    )


if __name__ == "__main__":
    sys.exit(main())
