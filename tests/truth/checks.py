"""How often `pinprof check` is wrong: checks of unchanged runs that fail, and planted changes that it does not notice.

usage: python -m tests.truth.checks record FOLDER [--rounds 40]
       python -m tests.truth.checks judge FOLDER [--rounds 40] [--draws 1000] [--runs 5,10] [--seed 1] [--fresh]

`record` records rounds of the program of checked.py, one after the other, each time in an order drawn anew: twice as it
is, and once with each change of `PLANTED`. `judge` draws checks from them, in the two ways that budgets come about:

- against a baseline: rounds chosen at random, whose unchanged runs are the baseline of as many runs of the same rounds,
  unchanged or changed: a fixed number of them, or as many as `pinprof check --baseline CMD -- CMD` plays until times
  are known precisely enough;
- by budgets that `pinprof check init` writes from one unchanged run, which judge one other run.

Draws share recordings, so they are not independent: they show what the judge makes of the scatter that is there.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pinprof import analyze, read
from pinprof.check.budgets import DEFAULT_RUNS, Budget, BudgetPlace, budgets_of, format_amount, no_worse
from pinprof.check.initial import initial
from pinprof.check.judge import judge, precise
from pinprof.check.taken import TakenRun, take
from pinprof.check.verdicts import Checked
from pinprof.check.view import Amount
from tests.integration.test_cuda_calls import build

PROGRAM = Path(__file__).with_name("checked.py")
PLANTED: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "one more pinned buffer": (("--pins", "1"), "pinned-bytes"),
        "one more allocate/free pair": (("--pairs", "1"), "pairs"),
        "5 % more page faults": (("--faults", "0.05"), "page-faults"),
        "a range 10 % slower": (("--slower", "0.1"), "cpu-time in compute"),
    }
)
"""Change → options of the program, and the subject of the budget that must notice."""
UNCHANGED = ("unchanged", "unchanged again")
RELATIVE = (*no_worse(), *budgets_of({"range": "compute", "cpu-time": "baseline"}))
"""What a check against a baseline judges where nobody wrote budgets, and the range that a change makes slower."""
_WITHOUT_FILTERS = (
    "calls",
    "pinned-bytes",
    "pairs",
    "pageable-bytes",
    "pageable-async-calls",
    "page-faults",
    "findings",
)
_ABSOLUTE = (
    *(budget for measure in _WITHOUT_FILTERS for budget in budgets_of({measure: 0})),
    *budgets_of({"opportunities": "1 ms", "cpu-time": "1 ms"}),
    *(budget for level in ("fault", "pin", "free", "uvm", "copy") for budget in budgets_of({"cause": {level: "50 %"}})),
)


@dataclass(frozen=True)
class Kept:
    """What is left of a capture once it is measured."""

    run: TakenRun
    """Its amounts, by `measure_of` budgets."""
    budgets: tuple[Budget, ...]
    """Those that `pinprof check init` writes from it."""

    def seen_by(self, budgets: Sequence[Budget]) -> TakenRun:
        """The run, measured by these budgets."""
        return replace(self.run, amounts={budget: self.run.amounts[measure_of(budget)] for budget in budgets})


def measure_of(budget: Budget) -> Budget:
    """A budget without its limit: what decides how much a run shows of it."""
    plain = {"name": "", "limit": 0.0, "relative": False, "growth": 0.0, "smallest_ms": 0.0, "runs": 1}
    return replace(budget, place=BudgetPlace(), **plain)


def record(folder: Path, rounds: int, seed: int) -> None:
    """Record what is not there yet; captures are called `ROUND-VARIANT.pinprof`."""
    libraries = folder / "cuda"
    if not libraries.exists():
        libraries.mkdir(parents=True)
        build(libraries)
    variants: dict[str, tuple[str, ...]] = dict.fromkeys(UNCHANGED, ())
    variants |= {name: options for name, (options, _) in PLANTED.items()}
    for number in range(rounds):
        order = list(enumerate(variants.items()))
        random.Random(f"{seed} {number}").shuffle(order)
        for place, (_, options) in order:
            target = _capture(folder, number, place)
            if not target.exists():
                _record(target, libraries, options)
        print(f"round {number + 1} of {rounds}", flush=True)


def _capture(folder: Path, number: int, place: int) -> Path:
    return folder / f"{number}-{place}.pinprof"


def _record(target: Path, libraries: Path, options: Sequence[str]) -> None:
    words = [sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "-o", str(target), "--"]
    words += [sys.executable, str(PROGRAM), str(libraries), *options]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr)


def measured(folder: Path, rounds: int) -> list[list[Kept]]:
    """Per variant its runs, by round; rounds that are not complete are left out.

    What was measured is kept in the folder, since judging again takes no time then; `--fresh` measures anew.
    """
    file = folder / "measured.pickle"
    known: dict[str, Kept] = pickle.loads(file.read_bytes()) if file.exists() else {}
    runs: list[list[Kept]] = [[] for _ in (*UNCHANGED, *PLANTED)]
    for number in range(rounds):
        paths = [_capture(folder, number, place) for place in range(len(runs))]
        if not all(path.exists() for path in paths):
            continue
        for mine, path in zip(runs, paths, strict=True):
            if path.name not in known:
                known[path.name] = _measured(path)
            mine.append(known[path.name])
    file.write_bytes(pickle.dumps(known))
    return runs


def _measured(path: Path) -> Kept:
    analysis = analyze.analyze(read.read(path))
    written = tomllib.loads(initial([analysis], [path.name], "budget"))["budget"]
    run = take(analysis, tuple({measure_of(budget): None for budget in (*RELATIVE, *_ABSOLUTE)}))
    return Kept(run, tuple(budget for table in written for budget in budgets_of(table)))


Draw = Callable[[int | None], Checked]
"""One check drawn at random: of unchanged runs for None, else of the variant with this number."""


def against_a_baseline(runs: Sequence[Sequence[Kept]], fewest: int, most: int, chosen: random.Random) -> Draw:
    """Checks of `fewest` runs beside as many of the baseline, and of more, up to `most`, until that is precise."""

    def draw(variant: int | None) -> Checked:
        before: list[TakenRun] = []
        after: list[TakenRun] = []
        for number in chosen.sample(range(len(runs[0])), most):
            first = chosen.randrange(2)
            before.append(runs[first][number].seen_by(RELATIVE))
            after.append(runs[1 - first if variant is None else variant][number].seen_by(RELATIVE))
            if len(after) >= fewest and (len(after) == most or precise(after, RELATIVE, before, paired=True)):
                break
        return judge(after, RELATIVE, before, paired=True)

    return draw


def by_initial_budgets(runs: Sequence[Sequence[Kept]], chosen: random.Random) -> Draw:
    """Checks of one run by the budgets that another gave."""

    def draw(variant: int | None) -> Checked:
        first, second = chosen.sample(range(len(runs[0])), 2)
        budgets = runs[chosen.randrange(2)][first].budgets
        judged = runs[chosen.randrange(2) if variant is None else variant][second]
        return judge([judged.seen_by(budgets)], budgets)

    return draw


def show(title: str, draw: Draw, count: int) -> None:
    """Print two tables: what became of checks of unchanged runs, and of each planted change."""
    found = _outcomes(draw, None, count)
    print(f"\n{title}: {count} checks of unchanged runs\n\n| budget | broken | not assessable |\n|---|---:|---:|")
    for name in sorted({name for name, _ in found}):
        print(f"| {name} | {found[name, 'broken']} | {found[name, 'not-assessable']} |")
    print("\n| planted | budget | caught | by any | not assessable |\n|---|---|---:|---:|---:|")
    for variant, (name, (_, subject)) in enumerate(PLANTED.items(), len(UNCHANGED)):
        found = _outcomes(draw, variant, count)
        cells = (found[subject, "broken"], found[_ANY, "broken"], found[subject, "not-assessable"])
        print(f"| {name} | {subject} | {' | '.join(map(str, cells))} |", flush=True)


_ANY = " any budget"


def _outcomes(draw: Draw, variant: int | None, count: int) -> Counter[tuple[str, str]]:
    """Per subject and outcome how many of so many checks."""
    found: Counter[tuple[str, str]] = Counter()
    for _ in range(count):
        checked = draw(variant)
        found[_ANY, str(checked.outcome)] += 1
        for verdict in checked.verdicts:
            found[verdict.budget.subject, str(verdict.outcome)] += 1
    return found


def scatter(runs: Sequence[Sequence[Kept]]) -> None:
    """Print how far each figure goes from run to run: lowest, median, highest."""
    print("| runs | " + " | ".join(budget.subject for budget in RELATIVE) + " |")
    print("|---|" + "---:|" * len(RELATIVE))
    for name, mine in zip((*UNCHANGED, *PLANTED), runs, strict=True):
        cells = []
        for budget in RELATIVE:
            amounts = [one.run.amounts[measure_of(budget)] for one in mine]
            known = sorted(amount.value for amount in amounts if isinstance(amount, Amount))
            three = (known[0], known[len(known) // 2], known[-1]) if known else ()
            cells.append(" – ".join(format_amount(value, budget.unit) for value in three) or "unknown")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Record, or judge what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--runs", default="5,10")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true")
    asked = parser.parse_args()
    if asked.what == "record":
        record(asked.folder, asked.rounds, asked.seed)
        return
    if asked.fresh:
        (asked.folder / "measured.pickle").unlink(missing_ok=True)
    runs = measured(asked.folder, asked.rounds)
    print(f"{len(runs[0])} rounds\n")
    scatter(runs)
    for size in map(int, asked.runs.split(",")):
        chosen, most = random.Random(f"{asked.seed} {size}"), min(size, len(runs[0]))
        show(f"{most} runs against {most}", against_a_baseline(runs, most, most, chosen), asked.draws)
    draw = against_a_baseline(runs, DEFAULT_RUNS, len(runs[0]), random.Random(asked.seed))
    show(f"{DEFAULT_RUNS} to {len(runs[0])} runs, until they are enough", draw, asked.draws)
    show("Budgets of init", by_initial_budgets(runs, random.Random(asked.seed)), asked.draws)


if __name__ == "__main__":
    main()
