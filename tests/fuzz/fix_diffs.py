"""What `pinprof fix` changes of the text of generated loops and of tests/cases: its own lines, and nothing else.

usage: python -m tests.fuzz.fix_diffs [COUNT] [--first SEED]

Of each changed program: lines that are gone or other belong to a node that a transformation marked; statements of the
file's top level without one have the same syntax tree, in the same order; and `ruff check` (E, F, I and W, but for the
length of lines) says nothing new. Ends with status 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pinprof.fix.source import File, NotCertain
from pinprof.fix.transformations import TRANSFORMATIONS, CodeChange, changed, line_changes, program_changes
from tests.support import loops

CASES = Path(__file__).parents[1] / "cases"


def main() -> None:
    """Compare COUNT loops and all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("before", "after")]
        for folder in folders:
            folder.mkdir()
        number = 0
        for name, file, found in programs(range(asked.first, asked.first + asked.count)):
            after, number = changed(file, found), number + 1
            wrong += [f"{name}: {one}" for one in stray(file, after, found)]
            for folder, text in zip(folders, (file.text, after), strict=True):
                (folder / f"{number}.py").write_text(text)
        before, new = (complaints(folder) for folder in folders)
    wrong += [f"ruff: {one}" for one in sorted((new - before).items())]
    print(f"{number} changed programs, {len(wrong)} wrong", *wrong[:20], sep="\n")
    sys.exit(bool(wrong))


def programs(seeds: range) -> Iterator[tuple[str, File, list[CodeChange]]]:
    """Each program that some transformation changes, with the changes; of a case one by one."""
    for seed in seeds:
        try:
            yield (f"loop {seed}", *loops.changes(loops.program(seed)))
        except NotCertain:
            continue
    for path in (one for one in sorted(CASES.glob("*.py")) if "GUILTY\n" in one.read_text()):
        file = File(path.read_text())
        for cure in sorted({cure for row in TRANSFORMATIONS.values() for cure in row.cures}):
            for line, text in enumerate(file.text.splitlines(), 1):
                if text.endswith("GUILTY"):
                    try:
                        yield from ((path.name, file, [one]) for one in line_changes(file, line, cure))
                    except NotCertain:
                        continue
            yield from ((path.name, file, [one]) for one in program_changes(file, cure))


def stray(file: File, after: str, found: list[CodeChange]) -> Iterator[str]:
    """What differs and need not."""
    marked = {line for change in found for node in change.marks for line in file.lines(node)}
    old, new = file.text.splitlines(), after.splitlines()
    for kind, begin, end, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone = set(range(begin + 1, end + 1)) - marked if kind in ("replace", "delete") else set()
        yield from (f"line {line} changes: {old[line - 1]}" for line in sorted(gone))
    remaining = iter(ast.dump(node) for node in ast.parse(after).body)
    for node in file.tree.body:
        if (
            not marked & set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            and ast.dump(node) not in remaining
        ):
            yield f"the statement of line {node.lineno} is another one"


def complaints(folder: Path) -> Counter[str]:
    """How often ruff says each thing of the programs of a folder."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,I,W", "--ignore", "E501"]
    said = subprocess.run([*words, "--output-format", "concise", str(folder)], capture_output=True, text=True).stdout
    return Counter(line.split()[1] for line in said.splitlines() if ".py:" in line)


if __name__ == "__main__":
    main()
