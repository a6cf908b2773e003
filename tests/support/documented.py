"""The code of docs/extending.md, as it stands there: tests run it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

EXTENDING = Path(__file__).parents[2] / "docs" / "extending.md"


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    text = EXTENDING.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert text, f"{EXTENDING.name} has no section {title!r}"
    return text


def code(title: str, language: str = "python") -> str:
    """The only block of a language below a heading."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)
    return str(block)


def module(title: str) -> ModuleType:
    """The Python below a heading, imported as `documented_TITLE`."""
    made = ModuleType("documented_" + title.rpartition(" ")[2])
    sys.modules[made.__name__] = made
    exec(compile(code(title), f"{EXTENDING.name}: {title}", "exec", dont_inherit=True), vars(made))
    return made
