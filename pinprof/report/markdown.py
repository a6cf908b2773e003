"""Words as Markdown: text, code and blocks that read the same and mean nothing to Markdown, HTML and forges.

Names come from the recorded program and may hold anything: in prose every character that Markdown or HTML reads is
escaped, code stands in spans and blocks fenced by more backticks than it holds; nothing becomes a link or a mention.
"""

from __future__ import annotations

import re

from pinprof.base.terminal import clipped, printable

_LONGEST = 600
"""Characters of one name or sentence."""

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SPECIAL = re.compile(r"[&<>]|[\\`*\[\]|~$!]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown or HTML reads anywhere in a line; underscores inside a word mean nothing."""

_OPENING = re.compile(r"^(\d*)(?=[-+=.)])")
"""What would begin a list or underline a heading at the beginning of a line."""

_LINKED = re.compile(r"[@#]+|(?<=[A-Za-z]):(?=//)|(?<=mailto):|(?<=xmpp):|(?<=www)\.", re.IGNORECASE)
"""What makes an address, a mention or a reference to an issue of the letters around it."""


def text(words: str) -> str:
    """Words as prose: they read the same and mean nothing to Markdown, HTML and forges."""
    shown = clipped(printable(words), _LONGEST).strip()
    plain = [_SPECIAL.sub(_escape, part) for part in _LINKED.split(shown)]
    plain[0] = _OPENING.sub(r"\1\\", plain[0])
    return plain[0] + "".join(f"`{mark}`{part}" for mark, part in zip(_LINKED.findall(shown), plain[1:], strict=True))


def code(words: str) -> str:
    """Words in a code span."""
    shown = clipped(printable(words), _LONGEST).strip()
    fence = "`" * (_longest_run(shown) + 1)
    blank = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{blank}{shown}{blank}{fence}" if shown else ""


def block(lines: list[str]) -> list[str]:
    """Lines in a fenced block."""
    shown = [printable(line) for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(shown)) + 1)
    return [fence, *shown, fence]


def _escape(mark: re.Match[str]) -> str:
    return _ENTITIES.get(mark[0], f"\\{mark[0]}")


def _longest_run(words: str) -> int:
    return max((len(run) for run in re.findall("`+", words)), default=0)
