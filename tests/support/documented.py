"""The examples of docs/extending.md, in tests/extending: what each kind of extension looks like, as tests run it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def section(title: str) -> str:
    """The text of docs/extending.md below a heading, up to the next one."""
    document = ROOT / "docs/extending.md"
    text = document.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert text, f"{document.name} has no section {title!r}"
    return text


def code(name: str) -> str:
    """An example, which the document names."""
    assert f"tests/extending/{name}`" in (ROOT / "docs/extending.md").read_text("utf-8")
    return (ROOT / "tests/extending" / name).read_text("utf-8")


def module(name: str) -> ModuleType:
    """An example in Python, imported as `documented_NAME`."""
    made = ModuleType(f"documented_{name.removesuffix('.py')}")
    sys.modules[made.__name__] = made
    exec(compile(code(name), name, "exec", dont_inherit=True), vars(made))
    return made
