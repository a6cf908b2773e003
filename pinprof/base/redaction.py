"""Likely secrets in a command line are replaced, since captures, pages and exports show it to others.

A word is a secret by the name that it is given (`--token X`, `API_KEY=X`, `"password": "X"`), by where it stands
(`Bearer X`, `https://user:X@host`) or by how it begins (`hf_…`, `AKIA…`). What none of these tells stays. Names that
only sound like it (`--max-tokens`, `--pad-token`, `--key-file`) give no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REDACTED = "***"
_STRONG = re.compile(
    r"passw|passphrase|secret|credential|bearer|(api|access|auth|private|client|account|license|encryption|signing)_?key"
)
"""In a name in lower case, its words joined by `_`."""
_LAST = frozenset({
    "token", "key", "pwd", "pass", "auth", "authorization", "cookie", "jwt", "pat", "sig", "signature",
    "authtoken", "accesstoken",
})  # fmt: skip
"""The last word of a name."""
_HARMLESS = frozenset({
    "file", "path", "dir", "folder", "name", "type", "length", "len", "size", "count", "id", "index", "field",
    "policy", "url", "uri", "env",
})  # fmt: skip
"""Also the last word of a name: of something about a secret."""
_OF_TEXT = frozenset({
    "bos", "eos", "pad", "mask", "unk", "sep", "cls", "stop", "image", "special", "next", "max", "min", "num",
    "n", "per", "multi", "single", "sort",
})  # fmt: skip
"""Any word of a name that is harmless."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMED = re.compile(r"(--?)?\b([A-Za-z_][\w.-]{0,99})([\"']?\s*(?:=>?(?!=)|:(?![/:]))\s*|\s+)")
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)")
_ASSIGNED = re.compile(r"(-{0,2}([A-Za-z_][\w.-]*)[=:])(?!//)(.+)", re.DOTALL)
_VALUE = re.compile(r"([\"'])(?:\\.|(?!\1)[^\\])*\1?|[^\s\"'&;,|<>()\[\]{}]+", re.DOTALL)
_LINE = re.compile(r"[^\"'\n]+")
"""What follows `Authorization:`."""
_SCRIPT = re.compile(r"-[A-Za-z]*c")
"""What is followed by a script: `sh -c`, `python -c`."""
_SCHEME, _LEAST = re.compile(r"(?i)bearer|basic"), 6
"""What is followed by the content of a header, which has at least this many characters."""
_USER = re.compile(r"(-u|--user|--proxy-user)")
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[\w.~+/=-]{6,}"), rf"\1\2{REDACTED}"),
    (re.compile(r"\b(https?://)[^\s/\"'?#]{1,999}@"), rf"\1{REDACTED}@"),
    (re.compile(r"\b([A-Za-z][\w+.-]{0,30}://[^\s/:@\"']{0,999}:)[^\s/\"']{1,999}@"), rf"\1{REDACTED}@"),
    (
        re.compile(
            r"(?<![\w-])(?>"
            r"hf_[A-Za-z0-9_]{16,}|hf_(?=\w*\d)(?=\w*[A-Z])\w{6,}|gh[pousr]_\w{6,}|github_pat_\w{6,}|glpat-[\w-]{6,}|"
            r"[spr]k[-_](?:live_|test_|proj-|ant-|or-)?(?=[\w-]{16}|[\w-]*\d)[\w-]{6,}|xox[a-z]-[\w-]{6,}|"
            r"(?:AKIA|ASIA)[A-Z0-9]{8,}|AIza[\w-]{16,}|ya29\.[\w-]{8,}|nvapi-[\w-]{6,}|npm_\w{16,}|pypi-[\w-]{16,}|"
            r"dop_v1_\w{8,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
            r")(?![\w-]*+[/.]\w)"
        ),
        REDACTED,
    ),
    (re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*", re.DOTALL), rf"\1{REDACTED}"),
)


def redacted(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line without secrets; doing it again changes nothing."""
    words: list[str] = []
    for place, word in enumerate(command):
        before = command[place - 1] if place else ""
        if ((option := _OPTION.fullmatch(before)) and _is_secret(option[1]) and not word.startswith("-")) or (
            _SCHEME.fullmatch(before) and len(word) >= _LEAST
        ):
            words.append(REDACTED)
        elif _USER.fullmatch(before) and ":" in word:
            words.append(f"{word.partition(':')[0]}:{REDACTED}")
        elif (given := _ASSIGNED.fullmatch(word)) and _is_secret(given[2]) and not _SCRIPT.fullmatch(before):
            words.append(given[1] + REDACTED)
        else:
            words.append(_in_text(word, code=bool(_SCRIPT.fullmatch(before))))
    return tuple(words)


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _HARMLESS or _OF_TEXT.intersection(words):
        return False
    return bool(_STRONG.search("_".join(words))) or words[-1] in _LAST


def _in_text(text: str, *, code: bool) -> str:
    """A script, a request or a list of settings in one word; `code` may have a parameter that is called `key`."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    pieces, end = [], 0
    for named in _NAMED.finditer(text):
        dashes, name, between = named.groups()
        if named.start() < end or not (dashes or between.strip()) or not _is_secret(name):
            continue
        if code and name == "key" and not dashes:
            continue
        whole = name.lower().endswith(("authorization", "cookie"))
        value = (_LINE if whole else _VALUE).match(text, named.end())
        if value and not (value[0].startswith("-") and not between.strip()):
            quote = value[1] if not whole and value[1] else ""
            pieces += [text[end : named.end()], quote, REDACTED, quote]
            end = value.end()
    return "".join([*pieces, text[end:]])
