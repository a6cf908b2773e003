"""Names from recorded programs made safe to show: symbols, paths, thread names and range texts are hostile input."""

from __future__ import annotations

import re

NO_CALLCHAIN = "[no callchain]"
"""Stands for the stack of samples recorded without one."""

_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Control characters, invisible format and direction marks, and lone surrogates: Unicode 15.1 categories Cc, Cf, Cs."""

_CONTROL_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "\u2421"


def printable(name: str) -> str:
    """The name with every character that would not show, or would reorder its surroundings, spelled out.

    C0 controls become their Unicode pictures (`␀`, `␛`), lone surrogates U+FFFD, everything else `⟨U+202E⟩`.
    """
    return _UNSHOWABLE.sub(_spell_out, name)


def shortened(name: str, width: int) -> str:
    """`printable`, with the middle of a name longer than `width` characters left out."""
    text = printable(name)
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return _DELETE_PICTURE
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"⟨U+{code:04X}⟩"
