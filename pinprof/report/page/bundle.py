"""The pages' scripts: ES modules under assets/ put together as one scope, and scripts that many pages share.

A module is placed after those it imports; the order follows from the imports alone. The modules use little of the
language's module syntax, and everything else is refused by name: `import { a, b } from "./other.js";` at the head of a
file, and `export` before a function, class, const or let. Comments and indentation are left out, text inside literals
is kept as it is. The grammar of tokens follows ECMA-262, section 12; a slash begins a regular expression unless the
lexeme before it ends an expression.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from pinprof.base import cache, files
from pinprof.base.lazy_dataclass import dataclass

_ASSETS = Path(__file__).parents[1] / "assets"
PLOT_SCRIPT = "plotly.min.js"
"""Its name in a folder that pages share."""
_PACKED_PLOT_SCRIPT = _ASSETS / "plotly" / "plotly-basic.min.js.gz"
SHARED_NAME = "pinprofPage"
"""The function that a shared page script defines."""

_TOKEN = re.compile(
    r"""((?:\s|//[^\n]*|/\*.*?\*/)*)
    ([\w$\#]+ | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \+\+|--|=> | [{}()\[\];,.<>=!+\-*%&|^~?:])?""",
    re.VERBOSE | re.DOTALL,
)
"""A gap and a lexeme; no lexeme where the file ends, and before a slash or a template literal."""
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
"""A template literal, or a part of one: up to a substitution, between two, or behind the last."""
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_OPERATORS = frozenset(
    {"return", "typeof", "case", "in", "of", "void", "delete", "await", "yield", "else", "do", "new"}
)
"""Words that no expression ends with."""
_NAME = re.compile(r"[\w$]+")
_DEEPER = {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}
_KEYWORDS = frozenset({"export", "function", "class", "const", "let"})
# What follows is matched against lexemes with a space between each.
_IMPORT = re.compile(r'import \{ ([\w$]+(?: , [\w$]+)*)(?: ,)? \} from "(\.[^"]*)" ;')
_DECLARATION = re.compile(r"(?:export )?(?:async )?(?:function(?: \*)?|class|const|let) ([\w$]+)(?: |$)")


class BundleError(Exception):
    """A module that cannot be put together with others; the text names it and what it holds."""


@dataclass(frozen=True)
class Module:
    """One module's text without imports, `export`, comments and indentation."""

    imports: dict[str, str]
    """Imported name → path of its module under assets/."""
    exports: frozenset[str]
    declared: tuple[str, ...]
    """All names declared at the top level."""
    text: str


def asset(path: str) -> str:
    """The text of a file under assets/."""
    return _ASSETS.joinpath(*path.split("/")).read_text("utf-8")


@lru_cache
def bundle(entry: str) -> str:
    """The script of the page whose first module is `entry`, a path under assets/; BundleError if it cannot be made."""
    modules = sorted(_ASSETS.rglob("*.js"))
    sources = b"".join(path.read_bytes() for path in (Path(__file__), *modules))
    return cache.kept(entry.replace("/", "-"), sources, lambda: join(entry, asset))


def join(entry: str, read: Callable[[str], str]) -> str:
    """One script of `entry` and all that it imports, directly or not; `read` gives a module's source."""
    modules: dict[str, Module] = {}
    order: list[str] = []

    def visit(path: str, importers: tuple[str, ...]) -> None:
        if path in importers:
            raise BundleError(f"Modules import each other: {' → '.join([*importers[importers.index(path) :], path])}.")
        if path in modules:
            return
        try:
            source = read(path)
        except FileNotFoundError as error:
            raise BundleError(f"{' → '.join([*importers, path])}: the last is not a file.") from error
        module = parse(path, source)
        for needed in dict.fromkeys(module.imports.values()):
            visit(needed, (*importers, path))
        modules[path] = module
        order.append(path)

    visit(entry, ())
    owner: dict[str, str] = {}
    for path in order:
        for name, source in modules[path].imports.items():
            if name not in modules[source].exports:
                raise BundleError(f"{path} imports {name}, which {source} does not export.")
        for name in modules[path].declared:
            if name in owner:
                raise BundleError(f"{owner[name]} and {path} both declare {name}.")
            owner[name] = path
    return "".join(modules[path].text for path in order)


def parse(path: str, source: str) -> Module:
    """A module of its source; BundleError for syntax that is not valid."""
    tokens = list(_tokens(path, source))
    lexemes = [lexeme for _, lexeme in tokens]
    imports: dict[str, str] = {}
    exports: set[str] = set()
    declared: list[str] = []
    text: list[str] = []
    depth = at = 0

    def refused(what: str) -> BundleError:
        return BundleError(f"{path}: `{' '.join(lexemes[at : at + 5])} …` {what}.")

    while at < len(tokens):
        gap, lexeme = tokens[at]
        if lexeme == "import":
            end = lexemes.index(";", at) + 1 if ";" in lexemes[at:] else len(lexemes)
            imported = _IMPORT.fullmatch(" ".join(lexemes[at:end]))
            if imported is None or text:
                raise refused("is not an import of names at the top of the file")
            other = posixpath.normpath(posixpath.join(posixpath.dirname(path), imported[2]))
            imports |= dict.fromkeys(imported[1].split(" , "), other)
            at = end
            continue
        if lexeme == "export" or (depth == 0 and lexeme in _KEYWORDS):
            declaration = _DECLARATION.match(" ".join(lexemes[at : at + 5]))
            if declaration is None or depth:
                raise refused("is not a declaration of one name at the top level")
            if lexeme == "export":
                exports.add(declaration[1])
                at, lexeme = at + 1, lexemes[at + 1]
            if lexeme in _KEYWORDS:
                declared.append(declaration[1])
        elif depth == 0 and lexeme in (",", "var"):
            raise refused("is at the top level, where each name needs its own const or let")
        depth += _DEEPER.get(lexeme, 0)
        text.append(gap + lexeme)
        at += 1
    if depth:
        raise BundleError(f"{path}: brackets that do not close, or were not understood.")
    return Module(imports, frozenset(exports), tuple(declared), "".join(text).strip() + "\n")


def _tokens(path: str, source: str) -> Iterator[tuple[str, str]]:
    """(gap, lexeme) for every lexeme but comments; the gap before it is a newline, a space or nothing."""
    substitutions: list[bool] = []
    at, before = 0, ""
    while (match := _TOKEN.match(source, at)) and (match[2] or match.end() < len(source)):
        gap, lexeme = match[1], match[2]
        if lexeme is None or (lexeme == "}" and substitutions and substitutions[-1]):
            start = match.end(1)
            if source[start] == "/" and _ends_expression(before):
                lexeme = "/"
            elif special := (_REGEX if source[start] == "/" else _TEMPLATE).match(source, start):
                lexeme = special[0]
            else:
                line = source.count("\n", 0, start) + 1
                raise BundleError(f"{path}, line {line}: `{source[start]}` begins nothing that is understood.")
            if source[start] == "}":
                substitutions.pop()
        elif lexeme == "}":
            substitutions[-1:] = []
        if lexeme[-1] == "{":
            substitutions.append(lexeme != "{")
        yield "\n" if "\n" in gap else " " if gap else "", lexeme
        at, before = match.end(1) + len(lexeme), lexeme


def _ends_expression(lexeme: str) -> bool:
    if _NAME.match(lexeme):
        return lexeme not in _OPERATORS
    return lexeme.endswith(('"', "'", "`", ")", "]", "}")) or lexeme in ("++", "--")


@lru_cache(maxsize=1)
def plot_script() -> bytes:
    """The plot script: npm's plotly.js-basic-dist-min, which draws scatter plots, bars and pies."""
    return gzip.decompress(_PACKED_PLOT_SCRIPT.read_bytes())


def packed_plot_script() -> str:
    """The plot script as gzip in base64."""
    return base64.b64encode(_PACKED_PLOT_SCRIPT.read_bytes()).decode("ascii")


def script_hash(script: str | bytes) -> str:
    """A script as a source expression of a Content-Security-Policy."""
    digest = hashlib.sha256(script if isinstance(script, bytes) else script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def share_scripts(page: Path, folder: Path, *, plot: bool) -> tuple[str | None, str]:
    """Write the plot script, with `plot`, and the report's script to a folder; their paths as seen from the page."""
    folder.mkdir(parents=True, exist_ok=True)
    # A function, because its text can be asked for: the worker is made of the same script.
    script = f'globalThis.{SHARED_NAME} = function () {{\n"use strict";\n{bundle("report.js")}}};\n'.encode()
    own = f"pinprof-{hashlib.sha256(script).hexdigest()[:12]}.js"
    shared = _share(page, folder / PLOT_SCRIPT, plot_script()) if plot else None
    return shared, _share(page, folder / own, script)


def _share(page: Path, target: Path, script: bytes) -> str:
    if not target.exists() or target.read_bytes() != script:
        files.written(target, script)
    return Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix()
