"""Any number of inputs by hand; goes on where it was stopped."""

from __future__ import annotations

import argparse
import gc
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.fuzz.check import Known
from tests.fuzz.targets import TARGETS
from tests.fuzz.workers import FAILED, READ, RUN, Round, warm

_ROUND = 200
"""Inputs between two notes of how far it is; their processes end with a round, and with them what memory they took."""


def main() -> None:
    """Run inputs, print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="in all, with those run before")
    parser.add_argument("--seed", type=int, help="as printed by another run")
    parser.add_argument("--target", action="append", help="of this name alone; several may be given")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="failing inputs and how far it is")
    options = parser.parse_args()
    targets = [target for target in TARGETS if not options.target or target.name in options.target]
    if not targets:
        parser.error(f"the targets are: {', '.join(target.name for target in TARGETS)}")
    state = options.folder / "state.json"
    done, seed, counts = _state(state, options.seed)
    print(f"seed {seed}, from input {done}, failing inputs go to {options.folder}", flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder, known = options.folder.resolve(), Known(options.inputs - done)
    with tempfile.TemporaryDirectory() as place:
        undamaged = warm(targets, Path(place))
    began, before = _seconds(), done
    while done < options.inputs:
        last = min(done + _ROUND, options.inputs)
        counts = counts + Round(seed, done, last, targets, folder, known, undamaged, options.workers).run()
        done = last
        named = {target.name: row for target, row in zip(TARGETS, counts.tolist(), strict=True)}
        state.write_text(json.dumps({"seed": seed, "done": done, "counts": named}))
        rate = (done - before) / (_seconds() - began)
        failed = counts[:, FAILED].sum()
        print(f"{done:,} inputs, {failed:,} failures, {rate:.0f} a second of CPU time", flush=True)
    print(table(counts))
    failures = options.folder / "failures.jsonl"
    if failures.is_file():
        print(failures.read_text())
    # What was frozen for the workers ends with this process.
    gc.unfreeze()
    sys.exit(bool(counts[:, FAILED].sum()))


def table(counts: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> str:
    """Formats × inputs × failures."""
    lines = ["| format | inputs | read | failures |", "|---|---:|---:|---:|"]
    rows = [(target.name, *row) for target, row in zip(TARGETS, counts.tolist(), strict=True)]
    rows.append(("all", *(int(counts[:, column].sum()) for column in (RUN, READ, FAILED))))
    return "\n".join([*lines, *(f"| {name} | {run:,} | {good:,} | {bad:,} |" for name, run, good, bad in rows)])


def _seconds() -> float:
    """Processor time of this process and of those that have ended."""
    return sum(os.times()[:4])


def _state(path: Path, seed: int | None) -> tuple[int, int, np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """How far an earlier run of the same seed got, whatever the targets were then."""
    if path.is_file():
        known = json.loads(path.read_text())
        if seed in (None, known["seed"]):
            counts = [known["counts"].get(target.name, (0, 0, 0)) for target in TARGETS]
            return known["done"], known["seed"], np.array(counts, np.int64)
    return 0, secrets.randbits(32) if seed is None else seed, np.zeros((len(TARGETS), 3), np.int64)


if __name__ == "__main__":
    main()
