"""Whether the functions that rows of knobs.toml name exist in the libraries as they are released.

usage: python -m tests.truth.knobs FOLDER…

Each FOLDER holds sources of libraries: `site-packages`, or a repository. A row's pattern of files and functions is held
against every function of every file of Python there, by the names that stacks have (`Class.method`, and
`outer.<locals>.inner`). A row of a library that is in no folder is not checked.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pinprof.analyze.opportunities.knobs import Functions, Knob, options

FOLDERS = {"lightning": ("lightning", "pytorch_lightning", "lightning_fabric"), "numba": ("numba", "numba_cuda")}
"""Libraries whose folders have other names."""
_LIBRARY = re.compile(r"\w+")


def functions(path: Path) -> Iterator[str]:
    """The qualified names of the functions in a file, as CPython makes them."""
    try:
        tree = ast.parse(path.read_text("utf-8", "replace"))
    except SyntaxError:
        return

    def inside(node: ast.AST, outer: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield outer + child.name
                yield from inside(child, f"{outer}{child.name}.<locals>.")
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{outer}{child.name}.")
            else:
                yield from inside(child, outer)

    yield from inside(tree, "")


def sources(library: str, folders: Iterable[Path]) -> list[Path]:
    """The files of a library in these folders or right below them."""
    names = FOLDERS.get(library, (library,))
    roots = [
        each / name for folder in folders for each in (folder, *folder.iterdir()) for name in names if each.is_dir()
    ]
    return sorted({file.resolve() for root in roots if root.is_dir() for file in root.rglob("*.py")})


def matched(one: Functions, files: Iterable[Path]) -> list[str]:
    """`file: function` for each function that a pattern means."""
    file, function = re.compile(rf"(?:.*/)?(?:{one.file})"), re.compile(one.function)
    return [
        f"{path.name}: {name}"
        for path in files
        if file.fullmatch(str(path))
        for name in functions(path)
        if function.fullmatch(name)
    ]


def said(knob: Knob, folders: Iterable[Path]) -> Iterator[tuple[bool, str]]:
    """What the patterns of a row mean, in lines; each after whether it is as it should be.

    Those of `frames` are of several releases: one of them has to be there, unless the library has the row no longer.
    """
    there = {one: _found(knob.library, one, folders) for one in knob.frames}
    gone = bool(knob.until) or any(there.values())
    for one in (*knob.present, *knob.absent):
        there[one] = _found(_LIBRARY.match(one.file)[0], one, folders)  # type: ignore[index]
    for one, found in there.items():
        if found is None:
            yield True, f"not here  {knob.name}"
        elif found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            yield True, f"found     {knob.name}: {', '.join(found[:3])}{more}"
        else:
            older = one in knob.frames and gone
            yield older, f"{'older' if older else 'MISSING':9} {knob.name}: {one.file} {one.function}"


def _found(library: str, one: Functions, folders: Iterable[Path]) -> list[str] | None:
    """The functions that a pattern means; None where the library is not here."""
    files = sources(library, folders)
    return sorted(set(matched(one, files))) if files else None


def main() -> None:
    """Check all rows; the status is 1 if a function is missing."""
    parser = argparse.ArgumentParser(description="Whether functions that knobs.toml names exist.")
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args().folders
    wrong = 0
    for knob in options():
        for right, line in said(knob, folders):
            wrong += not right
            print(line)
    print(f"{wrong} missing")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
