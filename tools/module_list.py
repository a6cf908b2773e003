"""Print a page in Markdown with every module of pinprof and the first sentence of its docstring.

The documentation's site has this page (tools/site/hooks.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pinprof"
HEAD = """# Modules

Every package of pinprof and what each module in it is for, from the first sentences of the modules themselves.
[Design](design.md) says how they work together.
"""


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring in one line; empty without one."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.match(r".*?[.?](?=\s+[A-Z`]|$)", paragraph)
    return sentence[0] if sentence else paragraph


def packages() -> Iterator[Path]:
    """The root, and every package below it, by name."""
    yield from sorted((path.parent for path in PACKAGE.rglob("__init__.py")), key=lambda path: path.parts)


def modules(package: Path) -> list[Path]:
    """The modules of a package, without the file of the package itself."""
    return sorted(path for path in package.glob("*.py") if path.name != "__init__.py")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package in packages():
        parts.append(f"\n## `{package.relative_to(ROOT)}/`\n\n{first_sentence(package / '__init__.py')}\n")
        rows = [f"| `{path.name}` | {_cell(first_sentence(path))} |\n" for path in modules(package)]
        if rows:
            parts += ["\n| module | contents |\n|---|---|\n", *rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
