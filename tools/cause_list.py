"""Print a page in Markdown with every cause: where its time goes, and what helps.

The documentation's site has this page (tools/site/hooks.py).
"""

from __future__ import annotations

from pinprof.analyze.attribution.categories import CATEGORIES, LEVELS

HEAD = """# Causes

Every cause of the taxonomy, by level. [Attribution](attribution.md) says how a sample gets its cause and what the tiers
are; `pinprof explain CAUSE` lists the functions that lead to one.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for level, meaning in LEVELS:
        own = [row for row in CATEGORIES if row.level == level]
        parts.append(
            f"\n## {level}: {meaning}\n\n| cause | tier | where the time goes | what helps |\n|---|---|---|---|\n"
        )
        parts += [f"| `{row.name}` | {row.tier} | {row.meaning} | {row.remedy} |\n" for row in own]
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
