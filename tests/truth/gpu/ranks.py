"""Whether the answer of a launch names the rank, the line and the cost that the program's own clock shows.

usage: python -m tests.truth.gpu.ranks --out DIR [--kind KIND]… [--ranks 2] [--rounds 4] [--seconds S] [-- OPTION…]

torchrun starts programs/late_ranks.py as it is and cured, without a recorder and with one (OPTION… are those of
`pinprof record`), in a random order in each round; no launch begins after S seconds. Several load their libraries at
the same time, and one after the other has the GPUs (programs/turn.py). What the job loses is the difference of the
medians, as it is and cured, without a recorder. `pinprof report` has to name the late rank and a line of the program
that ends in `# GUILTY KIND RANK` at what the job loses, and nobody where no line says so. Once a rank is cured it may
still be late by less, which the answer then says: what it says to have been lost is the difference of the two.

Prints a table. DIR gets results.json, the answers of the recorded launches, and the last recording of each kind as it
is. The exit status is 1 where a rank or a line is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "programs" / "late_ranks.py"
KINDS = ("ddp", "fsdp2", "pipeline", "straggler", "starved", "gathered", "healthy")
PINPROF = (sys.executable, "-m", "pinprof")
_SECONDS = re.compile(r"^seconds ([0-9.eE+-]+)")
_LIMIT_S = 120
_AT_ONCE, _REPORTS = 5, 4
_TURN = threading.Lock()


@dataclass(frozen=True)
class Asked:
    """One launch."""

    kind: str
    cured: bool
    recorded: bool
    round: int

    @property
    def name(self) -> str:
        """As the files of its answer are called."""
        return f"{self.kind}.{'cured' if self.cured else 'as-is'}.{self.round}"


def launched(given: argparse.Namespace, asked: Asked) -> tuple[float, Path]:
    """(seconds of the steps, its folder); RuntimeError with the end of what was said where the launch fails."""
    folder = given.out / "launches" / f"{asked.name}{'.recorded' if asked.recorded else ''}"
    folder.mkdir(parents=True)
    record = [*PINPROF, "record", "--no-calibrate", "--no-report", *given.option, "-o", "job", "--"]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={given.ranks}"),
        *("--no-python", *(record if asked.recorded else ())),
        *(sys.executable, str(PROGRAM), asked.kind, *(["cured"] if asked.cured else [])),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["TURN"] = str(folder / "turn")
    with (folder / "said.txt").open("w+") as said:
        # Lines of two ranks would be mixed, piece by piece: rank 0 alone prints.
        with subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process:
            late = threading.Timer(_LIMIT_S, process.send_signal, (signal.SIGTERM,))
            assert process.stdout is not None
            with _TURN:
                late.start()
                (folder / "turn").touch()
                told = next((match for line in process.stdout if (match := _SECONDS.match(line))), None)
            process.stdout.read()
        late.cancel()
        said.seek(0)
        if process.returncode or told is None:
            raise RuntimeError(f"{asked}: status {process.returncode}: {said.read()[-1500:]}")
    return float(told[1]), folder


def answer(given: argparse.Namespace, asked: Asked, folder: Path) -> Mapping[str, Any]:
    """What the report says of a recorded launch."""
    place, document = given.out / "answers", ""
    for form, end in (("text", "txt"), ("json", "json")):
        report = [*PINPROF, "report", "--format", form, str(folder / "job.ranks")]
        document = subprocess.run(report, capture_output=True, text=True, check=True, timeout=_LIMIT_S).stdout
        (place / f"{asked.name}.{end}").write_text(document)
    kept = given.out / "captures" / (asked.kind)
    if not asked.cured:
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(folder / "job.ranks", kept)
    shutil.rmtree(folder)
    said: Mapping[str, Any] = json.loads(document)
    return said


def guilty_lines(text: str, kind: str) -> dict[int, int]:
    """The lines that make a rank late, and which rank."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        ranks = dict(pair.split() for pair in line.partition("# GUILTY")[2].split(",") if pair.strip())
        if kind in ranks:
            found[number] = int(ranks[kind])
    return found


def judged(answer: Mapping[str, Any], guilty: Mapping[int, int]) -> dict[str, Any]:
    """What of an answer is right, and its figures."""
    first: Mapping[str, Any] = next(iter(answer["holds"]), {})
    line: Mapping[str, Any] = next(iter(first.get("lines", [])), {})
    return {
        "rank": first.get("ranks", []) == sorted(set(guilty.values())),
        "line": not guilty or line.get("line") in guilty,
        "named": f"{first.get('ranks', '')} {line.get('place', '')}",
        "line_saves_s": sum(one["saves_ns"] for one in answer["opportunities"] if one["line"] in guilty) / 1e9,
        "cost_s": [first[key] / 1e9 for key in ("cost_low_ns", "cost_ns", "cost_high_ns")] if first else None,
        "headline": answer["headline"],
    }


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Kind → the seconds of each way, and the answers."""
    seconds: dict[tuple[str, bool, bool], list[float]] = defaultdict(list)
    answers: list[tuple[Asked, Any]] = []
    failed: list[str] = []
    end, draw = time.monotonic() + given.seconds, random.Random(given.seed)
    with ThreadPoolExecutor(_AT_ONCE) as launches, ThreadPoolExecutor(_REPORTS) as reports:

        def one(asked: Asked) -> None:
            if time.monotonic() > end:
                return
            try:
                took, folder = launched(given, asked)
            except RuntimeError as error:
                failed.append(str(error))
                return
            seconds[asked.kind, asked.cured, asked.recorded].append(took)
            if asked.recorded:
                answers.append((asked, reports.submit(answer, given, asked, folder)))

        every = []
        for number in range(given.rounds):
            ways = itertools.product(given.kind, (False, True), (False, True))
            turns = [Asked(kind, cured, recorded, number) for kind, cured, recorded in ways]
            draw.shuffle(turns)
            every += turns
        list(launches.map(one, every))
    text, results = PROGRAM.read_text(), {}
    for kind in given.kind:
        guilty = guilty_lines(text, kind)
        mine = [(asked, said.result()) for asked, said in answers if asked.kind == kind]
        results[kind] = {
            "plain": {"as-is": seconds[kind, False, False], "cured": seconds[kind, True, False]},
            "recorded": {"as-is": seconds[kind, False, True], "cured": seconds[kind, True, True]},
            "answers": [judged(said, guilty) for asked, said in mine if not asked.cured],
            "cured": [judged(said, {}) for asked, said in mine if asked.cured],
        }
    return {"kinds": results, "failed": failed}


def row(kind: str, found: Mapping[str, Any]) -> str:
    """One line of the table."""

    def middle(way: str, what: str) -> float:
        return float(statistics.median(found[way][what] or [math.nan]))

    plain, recorded = ({what: middle(way, what) for what in ("as-is", "cured")} for way in ("plain", "recorded"))
    slower = [f"{recorded[what] / plain[what] - 1:+.1%}" for what in plain]
    lost = plain["as-is"] - plain["cured"]
    said, cured = (
        [each["cost_s"][1] if each["cost_s"] else 0.0 for each in found[key]] for key in ("answers", "cured")
    )
    cost, rest, saves = (
        statistics.median(values or [math.nan])
        for values in (said, cured, [each["line_saves_s"] for each in found["answers"]])
    )
    right = [sum(each[key] for each in found["answers"]) for key in ("rank", "line")]
    cells = [
        kind,
        *(f"{plain[what]:.3f} → {recorded[what]:.3f} s ({more})" for what, more in zip(plain, slower, strict=True)),
        f"{lost:.2f} s ({recorded['as-is'] - recorded['cured']:.2f})",
        f"{cost:.2f} − {rest:.2f} s" + (f" ({(cost - rest) / lost - 1:+.0%})" if lost > 0.1 else ""),
        " ".join(f"{one:.2f}" for one in said),
        f"{saves:.2f} s",
        f"{right[0]}, {right[1]} of {len(said)}",
    ]
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch by turns, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3600, help="no launch begins later")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("option", nargs="*")
    given = parser.parse_args(arguments)
    given.out, given.kind = given.out.resolve(), given.kind or KINDS
    (given.out / "answers").mkdir(parents=True, exist_ok=True)
    (given.out / "captures").mkdir(exist_ok=True)
    results = measured(given)
    (given.out / "results.json").write_text(json.dumps(results, indent=1))
    print(
        "| kind | as is, plain → recorded | cured | lost (recorded) | costs in answers | rank, line | cured: blamed |"
    )
    print("|---|---|---|---:|---|---|---|")
    for kind, found in results["kinds"].items():
        print(row(kind, found))
    for kind, found in results["kinds"].items():
        print(kind, *sorted({each["named"] for each in found["answers"]}), sep="; ")
    print(*results["failed"][:3], sep="\n")
    every = [each for found in results["kinds"].values() for each in found["answers"]]
    return int(bool(results["failed"]) or not all(each["rank"] and each["line"] for each in every))


if __name__ == "__main__":
    sys.exit(main())
