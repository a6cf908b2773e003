"""Whether the report names contexts on other GPUs, pinned memory that nobody uses and forks of it, on a real GPU.

usage: python -m tests.truth.gpu.kinds [contexts] [cache] [forks] [--keep FOLDER]

Each is recorded once as `pinprof record` does it. Exit status 1 where something is not named with its line; `contexts`
needs two GPUs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "programs" / "kinds.py"
PINPROF = (sys.executable, "-m", "pinprof")
RULES = {"contexts": "idle-context", "cache": "idle-pinned"}
CURES = {"forks": "dont-fork"}


def guilty(kind: str) -> int:
    """The line at fault."""
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# GUILTY: {kind}"))


def said(report: dict[str, Any], kind: str) -> list[str]:
    """What the report says of it."""
    found = [one for one in report["findings"] if one["rule"] == RULES.get(kind) and one["severity"] != "ok"]
    texts = [text for one in found for text in (f"{one['severity']}: {one['title']}", *one["evidence"])]
    named = [one for one in report.get("opportunities", []) if one["cure"]["id"] == CURES.get(kind)]
    for one in named:
        low, likely, high = (one["saving_ns"][end] / 1e9 for end in ("low", "likely", "high"))
        texts.append(
            f"{one['title']} ({one['site']['file']}:{one['site']['line']}) {likely:.2f} s ({low:.2f}–{high:.2f})"
        )
    return texts


def main() -> int:
    """Record each, and print what is said."""
    parser = argparse.ArgumentParser(description="Kinds of costs of pinned memory and contexts, on a GPU.")
    parser.add_argument("kinds", nargs="*", default=[*RULES, *CURES])
    parser.add_argument("--keep", type=Path)
    asked, wrong = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as made:
        folder = asked.keep or Path(made)
        folder.mkdir(exist_ok=True)
        for kind in asked.kinds:
            target = folder / f"{kind}.pinprof"
            command = [*PINPROF, "record", "--no-report", "--force", "-o", target, "--", sys.executable, PROGRAM, kind]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{kind}: failed\n{done.stderr[-1500:]}")
                wrong += 1
                continue
            told = subprocess.run(
                [*PINPROF, "report", "--format", "json", str(target)], capture_output=True, check=True
            )
            texts = said(json.loads(told.stdout), kind)
            right = any(f"{PROGRAM.name}:{guilty(kind)}" in text for text in texts)
            wrong += not right
            print(f"{kind}, line {guilty(kind)}: {'named' if right else 'NOT NAMED'}; {done.stdout.strip()}")
            print("".join(f"    {text}\n" for text in texts), end="", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
