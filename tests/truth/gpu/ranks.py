"""Whether the answer of a launch names the rank, the line and the cost that the program's own clock shows.

usage: python -m tests.truth.gpu.ranks --out DIR [--program FILE] [--kind KIND] [--ranks 2] [--rounds 3] [-- OPTION…]

torchrun starts the program as it is and cured, by turns, without a recorder; ranks print `seconds S`. What the job
loses is the difference of the slowest ranks' medians. Then both are recorded, with OPTION… for `pinprof record`, and
`pinprof report` has to name rank 1 and a GUILTY line of the program at what the job loses, and nobody once it is cured.
A program of several kinds (programs/late_ranks.py) gets KIND as its argument, and says `# GUILTY KIND RANK`; of a kind
without such a line nobody may be blamed.
DIR gets NAME.ranks and NAME.json of both, NAME.txt as people read it, and what was said on standard error.
One JSON object on standard output; the exit status is 1 where rank or line are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[2] / "cases" / "ddp_rank.py"
PINPROF = (sys.executable, "-m", "pinprof")
LATE = 1
"""The rank that is slow by construction."""
_SECONDS = re.compile(r"^seconds ([0-9.eE+-]+)", re.MULTILINE)
_LIMIT_S = 240


def launched(ranks: int, command: Sequence[str], folder: Path) -> float:
    """Seconds of the slowest rank; RuntimeError with the end of what was said where the launch fails."""
    start = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--no-python")
    # Lines of two ranks would be mixed, piece by piece.
    whole_lines = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, *start, *command], env=whole_lines, cwd=folder, capture_output=True, text=True,
        timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    with (folder / "standard-error.log").open("a") as log:
        log.write(done.stderr)
    told = [float(value) for value in _SECONDS.findall(done.stdout)]
    if done.returncode or not told:
        raise RuntimeError(f"status {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return max(told)


def recorded(name: str, given: argparse.Namespace, command: Sequence[str]) -> tuple[float, Mapping[str, Any]]:
    """Seconds of the recorded launch, and what the report says of it."""
    folder = given.out / name
    folder.mkdir(parents=True, exist_ok=True)
    record = [*PINPROF, "record", "--no-calibrate", "--no-report", *given.option, "--", *command]
    seconds = launched(given.ranks, record, folder)
    (ranks,) = folder.glob("*.ranks")
    for form in ("text", "json"):
        report = subprocess.run(
            [*PINPROF, "report", "--format", form, str(ranks)], capture_output=True, text=True, check=True
        )
        (given.out / f"{name}.{'txt' if form == 'text' else form}").write_text(report.stdout)
    document: Mapping[str, Any] = json.loads(report.stdout)
    return seconds, document


def guilty_lines(text: str, kind: str) -> dict[int, int]:
    """The lines that make a rank late, and which rank: `# GUILTY` alone is of every kind and of rank 1."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        _, marked, kinds = line.partition("# GUILTY")
        ranks = dict(pair.split() for pair in kinds.split(",") if pair.strip())
        if marked and (kind in ranks or not ranks):
            found[number] = int(ranks.get(kind, LATE))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, record, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--kind")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("option", nargs="*")
    given = parser.parse_args(arguments)
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(given.program.resolve()), *([given.kind] if given.kind else [])]
    guilty = guilty_lines(given.program.read_text(), given.kind or "")
    clocks: dict[str, list[float]] = {"as-is": [], "cured": []}
    for _ in range(given.rounds):
        for name, told in clocks.items():
            told.append(launched(given.ranks, [*command, *(["cured"] if name == "cured" else [])], given.out))
    lost = statistics.median(clocks["as-is"]) - statistics.median(clocks["cured"])
    seconds, answer = recorded("as-is", given, command)
    cured_seconds, cured = recorded("cured", given, [*command, "cured"])
    first: Mapping[str, Any] = next(iter(answer["holds"]), {})
    named = first.get("ranks", []) == sorted(set(guilty.values()))
    placed = not guilty or any(line["line"] in guilty for line in first.get("lines", [])[:1])
    result = {
        "seconds": clocks,
        "recorded_seconds": {"as-is": seconds, "cured": cured_seconds},
        "lost_s": lost,
        "cost_s": [first[key] / 1e9 for key in ("cost_low_ns", "cost_ns", "cost_high_ns")] if first else None,
        "rank": named,
        "line": placed,
        "headline": answer["headline"],
        "cured_headline": cured["headline"],
        "cured_holds": len(cured["holds"]),
        "notes": answer["notes"],
    }
    print(json.dumps(result, indent=1))
    return int(not (named and placed) or bool(cured["holds"]))


if __name__ == "__main__":
    sys.exit(main())
