"""Rebuild the pages of reports/h200 from the captures in tests/data/h200; they share one copy of the plot script."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "tests" / "data" / "h200"
REPORTS = ROOT / "reports" / "h200"


def main() -> None:
    """Write one page per capture."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for archive in sorted(CAPTURES.glob("*.pinprof.tar.xz")):
            with tarfile.open(archive) as packed:
                packed.extraction_filter = getattr(tarfile, "data_filter", None)
                packed.extractall(folder)
            name = archive.name.removesuffix(".tar.xz")
            page = REPORTS / (name.removesuffix(".pinprof") + ".html")
            options = ["--format", "html", "-o", str(page), "--shared-assets", str(REPORTS)]
            subprocess.run([sys.executable, "-m", "pinprof", "report", f"{folder}/{name}", *options], check=True)


if __name__ == "__main__":
    main()
