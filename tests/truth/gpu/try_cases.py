"""What `pinprof try` finds on a GPU: each program tried, and its cured form (`X cured`) measured beside it.

usage: python -m tests.truth.gpu.try_cases PROGRAM... --out DIR [--time 45s] [--python PATH] [--cure ID]...

A PROGRAM is a file that prints `seconds S`, the time of its work: Python, or `.cu` or `.c`, which are built.
DIR gets the JSON and the Markdown of every trial (NAME.json, NAME.md), what was said on standard error (NAME.log), and
all.md: a line for each cure, and the best cure against the changed code. Programs that cannot be run are named with the
reason; the others go on.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = re.compile(r"^seconds ([0-9.eE+-]+)", re.MULTILINE)
BUILD = {
    ".c": ["gcc", "-O2", "-g", "-fno-omit-frame-pointer"],
    ".cu": ["nvcc", "-O2", "-g", "-lineinfo", "-Xcompiler", "-fno-omit-frame-pointer"],
}
HEAD = (
    "| program | cure | rounds | cured / as is | predicted | significant | off | memory, MiB | |",
    "|---|---|---:|---|---|---|---|---:|---|",
)


def command_of(program: Path, folder: Path, python: str) -> list[str]:
    """What starts a program, built where it has to be; RuntimeError where it cannot be."""
    if program.suffix == ".py":
        return [python, str(program)]
    if program.suffix not in BUILD:
        return [str(program)]
    compiler, *options = BUILD[program.suffix]
    if not shutil.which(compiler):
        raise RuntimeError(f"there is no {compiler}")
    made = folder / program.stem
    done = subprocess.run(
        [compiler, *options, "-o", str(made), str(program)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{compiler}: {done.stderr.strip().splitlines()[-1]}")
    return [str(made)]


def changed_code(command: list[str], runs: int = 3) -> float | None:
    """Median seconds of the program with its cure in the code; None where it has none."""
    found = []
    for _ in range(runs):
        done = subprocess.run([*command, "cured"], capture_output=True, text=True, timeout=600, check=False)
        match = SECONDS.search(done.stdout)
        if done.returncode or not match:
            return None
        found.append(float(match[1]))
    return statistics.median(found)


def tried(command: list[str], name: str, out: Path, time: str, cures: list[str]) -> dict[str, Any]:
    """One trial's JSON; RuntimeError with what was said where there is none."""
    target = out / f"{name}.json"
    words = [sys.executable, "-m", "pinprof", "try", "--format", "json", "-o", str(target), "--time", time]
    words += ["--measure", "regex:^seconds ([0-9.eE+-]+)", *(word for cure in cures for word in ("--cure", cure))]
    done = subprocess.run([*words, "--", *command], capture_output=True, text=True, check=False)
    (out / f"{name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    result = json.loads(target.read_text())
    lines = [f"# {name}", "", result["headline"], "", *HEAD, *rows(name, result), "", *result["notes"]]
    (out / f"{name}.md").write_text("\n".join(lines) + "\n")
    return result


def rows(name: str, result: dict[str, Any]) -> Iterator[str]:
    """A line of Markdown for each cure."""
    for cure in result["cures"]:
        memory = "" if cure["memory_bytes"] is None else f"{cure['memory_bytes'] / 2**20:+.0f}"
        cells = [name, cure["id"], str(cure["rounds"]), ratio(cure["ratio"]), ratio(cure["predicted_ratio"])]
        cells += ["yes" if cure["significant"] else "", "off" if cure["off"] else "", memory]
        yield f"| {' | '.join([*cells, cure['problem'] or cure['state']])} |"


def ratio(found: dict[str, float] | None) -> str:
    """`0.41 (0.40–0.43)`."""
    return f"{found['median']:.2f} ({found['low']:.2f}–{found['high']:.2f})" if found else ""


def best(name: str, result: dict[str, Any], cured: float | None) -> str:
    """The best cure in a sentence, beside the changed code."""
    first = next((cure for cure in result["cures"] if cure["significant"] and cure["ratio"]["median"] < 1), None)
    as_is = result["as_is"]["median"]
    code = f"; changed code {cured:.3g} s, {as_is / cured:.2f} ×" if cured else ""
    gain = f"{first['id']} {1 / first['ratio']['median']:.2f} ×" if first else "no cure saves anything"
    return f"- {name}: {as_is:.3g} s as is; {gain}{code}"


def main() -> None:
    """Try every program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time", default="45s")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cure", action="append", default=[])
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    table, answers = list(HEAD), []
    for program in asked.programs:
        name = program.stem
        try:
            command = command_of(program.resolve(), asked.out.resolve(), asked.python)
            result = tried(command, name, asked.out, asked.time, asked.cure)
            answers.append(best(name, result, changed_code(command)))
            table += rows(name, result)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            answers.append(f"- {name}: not tried: {error}")
        print(answers[-1], flush=True)
        (asked.out / "all.md").write_text("\n".join([*answers, "", *table]) + "\n")


if __name__ == "__main__":
    main()
