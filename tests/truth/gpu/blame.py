"""How much of a thread's waiting is charged to the line that pins, on a GPU: pinned whole, in pieces, and beside it.

usage: python -m tests.truth.gpu.blame --out DIR [--seconds 8] [--program BINARY]

`programs/blame.c` is built with gcc unless BINARY is given. Three recordings: `whole` (one call pins 2 GiB while
another thread serves), `pieces` (16 MiB each) and `beside` (another process pins; recorded with --system-wide). A line
for each says how long the serving thread waits for somebody, and which part of that is charged to the pinning call's
line, or to the other process; the longest rows follow. `whole` should say 95 % or more, `pieces` short waits, and
`beside` the process id of the one that pins, with its stack.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "programs" / "blame.c"
MARK = "// the pinning call"
SERVES = ("serves", "request")
"""Functions of the serving thread."""
ROWS = 8


def pinning_line() -> int:
    """The line of the call, from the source."""
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if MARK in line)


def built(folder: Path) -> Path:
    """The program, built."""
    made = folder / "blame"
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        raise SystemExit("There is no gcc: build programs/blame.c elsewhere, and give --program.")
    options = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"]
    subprocess.run([gcc, *options, str(SOURCE), "-o", str(made), "-ldl"], check=True)
    return made


def recorded(capture: Path, command: Sequence[str], *options: str) -> Mapping[str, Any]:
    """The JSON of a program's recording."""
    pinprof = [sys.executable, "-m", "pinprof"]
    record = [*pinprof, "record", "--no-calibrate", *options, "-o", str(capture), "--", *command]
    subprocess.run(record, check=True, stdout=sys.stderr)
    path = capture.with_name(capture.name + ".pinprof")
    report = subprocess.run([*pinprof, "report", "--format", "json", str(path)], check=True, capture_output=True)
    answer: Mapping[str, Any] = json.loads(report.stdout)
    return answer


def of_server(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows in which the serving thread waits, longest first."""
    rows = (report["blame"] or {"rows": []})["rows"]
    return [row for row in rows if row["waiter"]["site"]["function"] in SERVES]


def is_pinning(row: Mapping[str, Any]) -> bool:
    """Whether a row is charged to the pinning call's line."""
    site = row["holder"]["site"]
    return bool(site["file"].endswith(SOURCE.name) and site["line"] == pinning_line())


def told(
    name: str, rows: Sequence[Mapping[str, Any]], charged: Sequence[Mapping[str, Any]], whom: str
) -> Iterator[str]:
    """The verdict and the longest rows."""
    waited, part = (sum(row["ns"] for row in some) for some in (rows, charged))
    share = 100 * part / waited if waited else 0.0
    longest = max((row["longest_ns"] for row in rows), default=0)
    yield (
        f"{name}: the server waits {waited / 1e6:.1f} ms for somebody, at most {longest / 1e6:.1f} ms at once;"
        f" {share:.1f} % is charged to {whom}"
    )
    for row in rows[:ROWS]:
        holder = row["holder"]
        place = f"{holder['site']['file']}:{holder['site']['line']}" if holder["site"]["line"] else ""
        causes = ", ".join(list(holder["causes"])[:2])
        who = f"{holder['kind']} {holder['pid']} {holder['name']} {place} [{causes}]"
        known = next(iter(row["certainty"]), "")
        yield f"  {row['ns'] / 1e6:9.1f} ms {row['count']:6} × {row['wait']:15} -> {who} ({known})"
        yield f"      {' < '.join(holder['stack'][:6])}"


def main() -> int:
    """Record all three, and print what each says; 1 where `whole` charges less than 95 % to the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", default="8")
    parser.add_argument("--program", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    program = str(options.program or built(options.out))
    line = f"blame.c:{pinning_line()}"
    whole = of_server(recorded(options.out / "whole", [program, "whole", options.seconds]))
    pinned = [row for row in whole if is_pinning(row)]
    print(*told("whole", whole, pinned, line), sep="\n")
    pieces = of_server(recorded(options.out / "pieces", [program, "pieces", options.seconds]))
    print(*told("pieces", pieces, [row for row in pieces if is_pinning(row)], line), sep="\n")
    with subprocess.Popen(
        [program, "pin", str(float(options.seconds) + 20)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        other.stdout.readline()
        beside = of_server(recorded(options.out / "beside", [program, "serve", options.seconds], "--system-wide"))
        other.kill()
    theirs = [row for row in beside if row["holder"]["pid"] == other.pid]
    print(*told("beside", beside, theirs, f"process {other.pid}"), sep="\n")
    waited = sum(row["ns"] for row in whole)
    return 0 if sum(row["ns"] for row in pinned) >= 0.95 * waited > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
