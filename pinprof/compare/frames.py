"""Which function of one side is which of the other: names without what a rebuild, an edit elsewhere or a run changes.

Left out are addresses and offsets, template arguments, line numbers, what compilers append to copies of a function
(`.isra.0`, `.constprop.1`, `.part.0`, `.cold`), hashes of Rust, numbers of lambdas and closures, versions of symbols
and libraries, and the name of the program's own file. What stays tells functions apart: two kernel functions of one
name in different modules are two.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pinprof.data.model import KERNEL, LONGEST_NAME, Dso
from pinprof.data.own_code import library_part

_LINE = re.compile(r" \(([^()]*?)(?::\d+)?\)$")
"""The end of `NAME (FILE:LINE)`."""
_COPIES = re.compile(
    r"(?:\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias|clone|resolver|warm|str|extracted"
    r"|__uniq|\d+)(?=\.|$)|\.\d+(?=\.|$))+"
)
"""What GCC and LLVM append, each with a number or several: `.isra.0.cold`, `.llvm.4711`."""
_OFFSET = re.compile(r"\+0x[0-9a-fA-F]+(?:/0x[0-9a-fA-F]+)?$")
_ADDRESS = re.compile(r"\b(?:0x[0-9a-fA-F]+|(?:sub|FUN|loc|fun)_[0-9a-fA-F]{4,16})\b")
_VERSION = re.compile(r"@{1,2}[\w.]+$")
_ABI = re.compile(r"\[abi:[^\]]*\]| ?\[clone [^\]]*\]")
_RUST = re.compile(r"::h[0-9a-f]{16}$|(?<=\w)\[[0-9a-f]{8,16}\](?=::|$)")
_CLOSURES = (
    (re.compile(r"\{(\w+)(\([^{}]*\))?#\d+\}"), r"{\1\2}"),
    (re.compile(r"'(lambda|unnamed)\d*'(\(\))?"), r"'\1'"),
    (re.compile(r"\$_\d+"), "$_"),
    (re.compile(r"\$\$?Lambda\$?[\w/.+]*"), "$Lambda"),
    (re.compile(r"\.func\d+(?:\.\d+)*(?=\.func|$)"), ".func"),
)
"""Lambdas of C++ (GCC, LLVM), Java's, closures of Rust and Go: numbered in the order of the source."""
_OPERATOR = re.compile(r"(operator\s*(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>))(?: (?=<))?")
_HIDDEN = {ord("<"): "\ue000", ord(">"): "\ue001"}
_SHOWN = {ord(hidden): chr(mark) for mark, hidden in _HIDDEN.items()}
"""Brackets that belong to an operator's name stand apart from those of templates."""
_NAMES_WITH_PARENTHESES = re.compile(r"\((?:anonymous namespace\)|\)\()")
_PYTHON = re.compile(r"<(?:module|lambda|genexpr|listcomp|dictcomp|setcomp|string|stdin|frozen [\w.]+)>")

_LIBRARY_VERSION = re.compile(r"(\.so|\.dylib)(?:\.[\w.]+)?$")
_LIBRARY_HASH = re.compile(r"-[0-9a-f]{8,}(?=[-.])")
_PYTHON_ABI = re.compile(r"\.(?:cpython-\d+\w*|abi3)[\w-]*(?=\.so$)")

TEMPLATE = "<>"
"""Stands for template arguments."""


@lru_cache(maxsize=1 << 16)
def frame_key(symbol: str, library: str, mode: int) -> str:
    """What two functions that are the same have in common; `library` is as `library_key` makes it."""
    mark = "k" if mode == KERNEL else "u"
    return f"{mark}:{library}:{function_key(symbol)}"


def library_key(dso: Dso) -> str:
    """A library without its version; a Python source by its path within its package; empty for a program of its own.

    Programs are called as they were built or installed: `./fill-old` and `./fill-new` are both the program.
    """
    if dso.kind == "python":
        path = dso.path[-4 * LONGEST_NAME :]
        return library_part(path) or path.rpartition("/")[2]
    name = dso.name[:LONGEST_NAME]
    if dso.kind != "file" or name.startswith("["):
        return name
    if not _LIBRARY_VERSION.search(name):
        return ""
    return _plain_library(name)


def _plain_library(name: str) -> str:
    return _LIBRARY_HASH.sub("", _PYTHON_ABI.sub("", _LIBRARY_VERSION.sub(r"\1", name)))


def function_key(symbol: str) -> str:
    """A function's name without what differs between builds and runs of the same function."""
    name = symbol[:LONGEST_NAME]
    if name.startswith("[") and name.endswith("]"):
        return f"[{_plain_library(name[1:-1])}]"
    place = _LINE.search(name)
    file = f" ({place[1]})" if place and "." in place[1] else ""
    name = name[: place.start()] if place and file else name
    for pattern in (_OFFSET, _VERSION, _RUST, _ABI):
        name = pattern.sub("", name)
    for closure, plain in _CLOSURES:
        name = closure.sub(plain, name)
    name = _ADDRESS.sub("0x", _COPIES.sub("", name))
    return (name if _PYTHON.search(name) else _without_arguments(name)) + file


def _without_arguments(name: str) -> str:
    """The name with `<>` for template arguments; a template's result and parameters, which depend on them, go too."""
    name = _OPERATOR.sub(lambda found: found[1].translate(_HIDDEN), name)
    kept: list[str] = []
    depth = 0
    for at, mark in enumerate(name):
        if mark == "<" and _is_template(name, at):
            kept += [TEMPLATE] if not depth else []
            depth += 1
        elif mark == ">" and depth and name[at - 1] != "-":
            depth -= 1
        elif not depth:
            kept.append(mark)
    shown = name if depth else _without_signature("".join(kept))
    return shown.translate(_SHOWN)


def _is_template(name: str, at: int) -> bool:
    """Whether a bracket follows a name, as that of a template does; Rust's `<T as Trait>::f` begins with it."""
    return at > 0 and (name[at - 1].isalnum() or name[at - 1] in "_:>)\ue000\ue001")


def _without_signature(name: str) -> str:
    """A function of a template without its result and parameters; any other function as it is."""
    if TEMPLATE not in name:
        return name
    depth = at = 0
    for at, mark in enumerate(name):
        if mark == "(" and not depth and not _NAMES_WITH_PARENTHESES.match(name, at) and TEMPLATE in name[:at]:
            return name[_last_blank(name[:at]) + 1 : at].rstrip()
        depth += (mark in "({") - (mark in ")}")
    return name


def _last_blank(head: str) -> int:
    """Where the result's type ends in front of a function's name; -1 without one. `operator new` has a blank inside."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] in ")>}") - (head[at] in "(<{")
        if head[at] == " " and not depth and not head[:at].endswith("operator"):
            return at
    return -1
