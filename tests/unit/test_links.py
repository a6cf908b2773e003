"""Links between the documents lead somewhere, and tables are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(path: Path) -> str:
    """A document without its examples."""
    return re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The names that its headings can be linked by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", text(path)):
        if link.startswith("http"):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_rows_of_a_table_follow_its_head(path: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", text(path), re.MULTILINE):
        assert re.match(r".*\n\|[-:| ]+\|\n", table), table
