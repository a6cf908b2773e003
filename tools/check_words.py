"""Find words and patterns that this project does not want in its texts; `make lint` runs it.

Reads string literals and all docstrings in Python, texts of templates and scripts of the page, and Markdown without its
code. Prints `FILE:LINE: WORDS (HINT)` for each hit and exits with 1 when there is one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNWANTED = (
    (r"\bin vain\b", "say what happened instead"),
    (r"\bso many\b", "name the number"),
    (r"\bagain and again\b", "repeatedly"),
    (r"\bmend(s|ed|ing)?\b", "fix"),
    (r"\bdearer\b|\bdearest\b", "more expensive, most expensive"),
    (r"\bsteps? back\b", "dim, give way"),
    (r"\bamid\b", "during"),
    (r"\b(is|was|are|were|be) told\b|\btold (by|apart|from|of)\b|\btells? (of|apart)\b", "shown, known, separated"),
    (r"\blooks a second\b|\ba second and thread\b", "per second"),
    (r"\bprocessor time\b|\boff the processors?\b", "CPU time, off the CPU"),
    (r"(?<!there\s)\b(is|are) no (?!longer|more|faster|slower)[a-z]+[.,:;]", "is not a"),
    (r"\bother kinds? of memory\b", "other memory types"),
    (r"\bstands? (beside|behind|in the way|alone)\b|\bbeside it stands\b", "is next to, follows, blocks"),
    (r"\btake (it|them|one) back\b|\btaken back\b", "remove"),
    (r"\bcounts? (it )?nowhere\b", "exclude"),
    (r"\bway of the data\b|\bnames the rooms\b", "data flow, modules"),
    (r"\b(can|could|cannot|can't) be had\b", "is (not) available"),
    (r"\bto and fro\b", "back and forth"),
    (r"\b(in|by) turns\b", "alternating, take turns"),
    (r"\blies? beside\b", "is next to"),
    (r"\bis not there\b", "does not exist, is missing"),
    (r"\bmay not (sample|read|record|lock|open|write)\b", "is not permitted to"),
    (r"\bnothing is to gain\b", "nothing to save"),
    (r"\b(row|column|sample|entry) a (range|sample|call|capture|kernel|line)\b", "per"),
    (r"\bthe costliest\b", "the most expensive"),
    (r"\bwhat stands in\b|\bstands under\b", "what is in, is under"),
    (r"(^|[.!?] |[>\"])Of (the|what|it|a|its|this|each|these|all|those) ", "put the subject first"),
)
"""(pattern, what to write instead); capitals match only where the pattern has one."""
_PATTERNS = tuple(
    (re.compile(pattern.replace(" ", r"\s+"), 0 if pattern != pattern.lower() else re.IGNORECASE), hint)
    for pattern, hint in UNWANTED
)
_JS = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)\s]*\)", re.DOTALL)
_TEMPLATE = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each string literal: docstrings, notes on fields and constants, texts for users."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant | ast.JoinedStr)]
    parts = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def texts(path: str, source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of everything in a file that is meant to be read."""
    if path.endswith(".py"):
        yield from python_texts(source)
        return
    if path.endswith(".js"):
        for match in _JS.finditer(re.sub(r"^\s*(//|\*|/\*).*$", _blank, source, flags=re.MULTILINE)):
            yield source.count("\n", 0, match.start()) + 1, match[1] or match[2] or ""
        return
    plain = _TEMPLATE.sub(_blank, source) if path.endswith(".j2") else _CODE.sub(_blank, source)
    for paragraph in re.finditer(r"(?:.+\n?)+", plain):
        yield plain.count("\n", 0, paragraph.start()) + 1, paragraph[0]


def unwanted(path: str, source: str) -> Iterator[str]:
    """One line for each hit in a file."""
    for line, text in texts(path, source):
        for pattern, hint in _PATTERNS:
            for hit in pattern.finditer(text):
                words = " ".join(text[hit.start() : hit.end() + 30].split())
                yield f"{path}:{line + text.count(chr(10), 0, hit.start())}: {words!r} ({hint})"


def files() -> list[str]:
    """The files of this repository with texts for users."""
    wanted = ["pinprof/*.py", "workloads/*.py", "pinprof/report/*.j2", "pinprof/report/*.js", "docs/*.md", "*.md"]
    listed = subprocess.run(["git", "ls-files", *wanted], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in dict.fromkeys(listed.splitlines()) if not name.startswith(("tests/", "reports/"))]


def main() -> int:
    """Print every hit; the exit status."""
    found = [one for name in files() for one in unwanted(name, (ROOT / name).read_text("utf-8"))]
    print("\n".join(found)) if found else None
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
