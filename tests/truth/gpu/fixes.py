"""What `pinprof fix` proves on a GPU: each program fixed, and its hand-made cure (`X cured`) measured beside it.

usage: python -m tests.truth.gpu.fixes [PROGRAM...] --out DIR [--time 60s] [--limit 150] [--python PATH]
       python -m tests.truth.gpu.fixes [PROGRAM...] --out DIR --quick [--cpu] [--cure ID]... [--python PATH]

A PROGRAM is a Python file that prints `seconds S`; without one, those of tests/cases that have a cure (host programs
too). Its lines that choose the cure by `CURED` work as ever. DIR gets NAME.json and NAME.log of every program, and
all.md: verdict, measured ratio, and the share of the hand-made cure's saving that the fix reaches. Programs that cannot
be run are named with the reason, one that takes longer than `--limit` seconds is ended; the others go on.

`--quick` records nothing: it changes the lines that end in GUILTY for every cure, or those that are named, and runs as
is, changed and cured in turns, for about 40 s a program. With `--cpu` it takes the CPU time of all of the program, five
times, instead of the seconds that it prints: for machines that others use. DIR gets NAME.TRANSFORMATION.py and .diff.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.truth.gpu.try_cases import SECONDS, changed_code, ratio

CASES = Path(__file__).parents[2] / "cases"
HEAD = (
    "| program | as is | by hand | fixed / as is | verdict | of the hand-made saving | transformation, or the reason |",
    "|---|---:|---:|---|---|---:|---|",
)
_QUICK_S = 40.0


def _ended(words: list[str], limit: float, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command's end; after the limit it and its children get SIGINT, and SIGKILL 15 s later."""
    limited = ["timeout", "--signal=INT", "--kill-after=15", f"{limit:.0f}", *words]
    return subprocess.run(limited, capture_output=True, text=True, check=False, cwd=folder)


def fixed(program: Path, folder: Path, out: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One program's answer, in a folder with nothing else; RuntimeError with what was said where there is none."""
    shutil.copy(program, folder)
    target = (out / f"{program.stem}.json").resolve()
    words = [sys.executable, "-m", "pinprof", "fix", "--format", "json", "-o", str(target), "--time", asked.time]
    words += ["--measure", "regex:^seconds ([0-9.eE+-]+)", "--", asked.python, program.name]
    done = _ended(words, asked.limit, folder)
    (out / f"{program.stem}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(target.read_text())
    return answer


def row(name: str, answer: dict[str, Any], by_hand: float | None) -> str:
    """A line of the table."""
    as_is = answer["trial"]["as_is"]["median"]
    reasons = "; ".join(f"{one['cure']} at {one['place']}: {one['reason']}" for one in answer["left_alone"])
    best = next(iter(answer["changes"]), None)
    cells = [f"`{name}`", f"{as_is:.3g} s", f"{by_hand:.3g} s" if by_hand else "–"]
    if best is None:
        return f"| {' | '.join([*cells, '–', 'left alone', '–', reasons or 'no opportunity'])} |"
    found, share = best["measured"]["ratio"], "–"
    if found and by_hand and by_hand < as_is:
        share = f"{(1 - found['median']) * as_is / (as_is - by_hand):.0%}"
    words = best["transformation"] + (f": {best['measured']['problem']}" if best["measured"]["problem"] else "")
    return f"| {' | '.join([*cells, ratio(found), best['verdict'], share, words])} |"


def quick(program: Path, out: Path, python: str, cures: list[str], *, cpu: bool = False) -> str:
    """A line of the table, of the changes of the lines that end in GUILTY."""
    begun, text, variants = time.monotonic(), program.read_text(), {}
    texts, reasons = changes(text, cures)
    for name, changed in texts.items():
        variants[name] = out / f"{program.stem}.{name}.py"
        variants[name].write_text(changed)
    runs: dict[str, list[float]] = {}
    outputs: dict[str, str] = {}
    commands = {"as is": [program], "by hand": [program, "cured"]} | {name: [path] for name, path in variants.items()}
    for _ in range(5 if cpu else 3):
        for name, words in commands.items():
            left = (10 if cpu else 1) * _QUICK_S - (time.monotonic() - begun)
            if name in runs and left < 2 * max(map(max, runs.values())):
                continue
            before = _children_cpu_s()
            done = _ended([python, *map(str, words)], max(left, 20.0), out)
            match = SECONDS.search(done.stdout)
            value = _children_cpu_s() - before if cpu else float(match[1]) if match else 0.0
            runs.setdefault(name, []).append(value if match and not done.returncode else float("inf"))
            outputs.setdefault(name, re.sub(r"seconds [0-9.e+-]+", "", done.stdout))
            if name in variants and not match:
                (out / f"{program.stem}.{name}.log").write_text(done.stdout + done.stderr)
    found = {name: statistics.median(values) for name, values in runs.items()}
    as_is, by_hand = found["as is"], found["by hand"]
    cells = [f"`{program.stem}`", f"{as_is:.3g} s", f"{by_hand:.3g} s"]
    lines = []
    for name, path in variants.items():
        wrong = outputs[name] != outputs["as is"]
        verdict = "does not run" if found[name] == float("inf") else "changes results" if wrong else "same output"
        share = f"{(as_is - found[name]) / (as_is - by_hand):.0%}" if by_hand < as_is else "–"
        lines.append(f"| {' | '.join([*cells, f'{found[name] / as_is:.2f}', verdict, share, name])} |")
        diff = difflib.unified_diff(text.splitlines(), path.read_text().splitlines(), "as is", name, lineterm="")
        (out / f"{program.stem}.{name}.diff").write_text("\n".join(diff) + "\n")
    return "\n".join(lines) or f"| {' | '.join([*cells, '–', 'left alone', '–', reasons])} |"


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def changes(text: str, cures: list[str]) -> tuple[dict[str, str], str]:
    """A program's changed texts by their transformation, and why there are no others.

    Without `cures`, lines at the top of the program are tried only where no line changes.
    """
    from pinprof.fix.source import File, NotCertain
    from pinprof.fix.transformations import TRANSFORMATIONS, changed, line_changes, program_changes

    file, reasons, found = File(text), {}, {}
    at_fault = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("GUILTY")]
    wanted = cures or sorted({cure for one in TRANSFORMATIONS.values() for cure in one.cures})
    for cure in wanted:
        for number in at_fault:
            try:
                some = line_changes(file, number, cure)
            except NotCertain as refused:
                reasons[str(refused)] = None
                continue
            found |= {one.transformation.id: changed(file, [one]) for one in some}
        if cures or not found:
            found |= {one.transformation.id: changed(file, [one]) for one in program_changes(file, cure)}
    return found, "; ".join(reasons)


def main() -> None:
    """Fix every program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time", default="60s")
    parser.add_argument("--limit", type=float, default=150.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--cure", action="append", default=[])
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    # A launch of ranks is no command that repeats by itself.
    cases = [path for path in sorted(CASES.glob("*.py")) if "GUILTY\n" in path.read_text() and path.stem != "ddp_rank"]
    table = list(HEAD)
    for at, program in enumerate(asked.programs or cases, 1):
        print(f"{at} of {len(asked.programs or cases)}: {program.stem}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        try:
            if asked.quick:
                table.append(quick(program.resolve(), asked.out.resolve(), asked.python, asked.cure, cpu=asked.cpu))
            else:
                with tempfile.TemporaryDirectory() as folder:
                    answer = fixed(program.resolve(), Path(folder), asked.out, asked)
                table.append(row(program.stem, answer, changed_code([asked.python, str(program.resolve())])))
        except Exception as error:  # one program never ends the others
            table.append(f"| `{program.stem}` | – | – | – | not run | – | {type(error).__name__}: {error} |")
        print(f"{table[-1]}  ({time.monotonic() - begun:.0f} s)", flush=True)
        (asked.out / "all.md").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
