"""Scripts of the pages: modules put together in the order of their imports, and nothing dropped without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pinprof.report
from pinprof.report.page.bundle import BundleError, bundle, join, parse

ASSETS = Path(pinprof.report.__file__).parent / "assets"
ENTRIES = ("report.js", "bench.js", "collection.js", "compare.js", "trial.js", "fleet.js", "notebook.js")


def joined(**modules: str) -> str:
    """The bundle of modules by name; `main` is the page's."""
    return join("main.js", lambda path: modules[path.removesuffix(".js")])


def text_of(source: str) -> str:
    return parse("m.js", source).text


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_modules_are_bundled_without_imports_or_exports(entry: str) -> None:
    assert not re.findall(r"^(?:import|export)\b", bundle(entry), re.MULTILINE)


@pytest.mark.slow
def test_every_module_under_assets_is_in_a_page() -> None:
    paths = [path.relative_to(ASSETS).as_posix() for path in ASSETS.rglob("*.js")]
    read: set[str] = set()

    def reading(path: str) -> str:
        read.add(path)
        return (ASSETS / path).read_text("utf-8")

    for entry in ENTRIES:
        join(entry, reading)
    assert read == set(paths)


def test_everything_declared_at_the_top_of_a_module_is_in_its_page() -> None:
    declared = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)
    own = {name for path in ASSETS.rglob("*.js") for name in declared.findall(path.read_text("utf-8"))}
    assert own <= {name for entry in ENTRIES for name in declared.findall(bundle(entry))}


def test_scripts_never_write_markup() -> None:
    for entry in ENTRIES:
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", bundle(entry))


def test_a_module_stands_once_behind_those_it_imports() -> None:
    sources = {
        "main.js": 'import { b } from "./part/b.js";\nimport { c } from "./c.js";\nb(c);\n',
        "part/b.js": 'import { c } from "../c.js";\nexport const b = () => c;\n',
        "c.js": "export const c = 1;\n",
    }
    assert join("main.js", sources.__getitem__) == "const c = 1;\nconst b = () => c;\nb(c);\n"


def test_modules_that_import_each_other_are_named() -> None:
    a, b = 'import { b } from "./b.js";\nexport const a = b;\n', 'import { a } from "./a.js";\nexport const b = a;\n'
    with pytest.raises(BundleError, match=r"a\.js → b\.js → a\.js"):
        joined(main='import { a } from "./a.js";\na();\n', a=a, b=b)


def test_a_name_that_two_modules_declare_is_refused() -> None:
    with pytest.raises(BundleError, match=r"a\.js and main\.js both declare SIZE"):
        joined(main='import { a } from "./a.js";\nconst SIZE = a;\n', a="const SIZE = 1;\nexport const a = SIZE;\n")


def test_a_name_that_a_module_does_not_export_is_refused() -> None:
    with pytest.raises(BundleError, match=r"imports b, which a\.js does not export"):
        joined(main='import { b } from "./a.js";\nb();\n', a="const b = 1;\n")


def test_a_module_that_is_no_file_is_refused() -> None:
    with pytest.raises(BundleError, match=r"missing\.js: the last is not a file"):
        join("report.js", lambda path: (ASSETS / "none" / path).read_text() if path != "report.js" else IMPORT)


IMPORT = 'import { a } from "./missing.js";\na();\n'


@pytest.mark.parametrize(
    "source",
    [
        "export default function f() {}",
        'export { a } from "./b.js";',
        'export * from "./b.js";',
        "const a = 1;\nexport { a };",
        'import { a as b } from "./b.js";',
        'import * as a from "./b.js";',
        'import a from "./b.js";',
        'import "./b.js";',
        'import { a } from "plotly";',
        'import { a } from "./b.js"',
        'const a = 1;\nimport { b } from "./b.js";',
        'const a = import("./b.js");',
        "const a = () => import.meta.url;",
        "const { a } = globalThis;",
        "const a = 1, b = 2;",
        "export var a = 1;",
        "var a = 1;",
        "export",
        'const a = "one\nline";',
        "const a = `open;",
        "function f() { return (1; }",
        "const a = (1;",
        "@decorated class A {}",
    ],
)
def test_what_is_not_understood_is_refused_by_name(source: str) -> None:
    with pytest.raises(BundleError, match=r"^m\.js"):
        parse("m.js", source)


def test_exports_become_names_of_the_one_scope() -> None:
    module = parse("m.js", "export async function f() {}\nexport class A {}\nexport let b = 1;\nfunction* g() {}\n")
    assert module.text == "async function f() {}\nclass A {}\nlet b = 1;\nfunction* g() {}\n"
    assert module.exports == {"f", "A", "b"}
    assert module.declared == ("f", "A", "b", "g")


def test_names_inside_functions_are_not_those_of_the_module() -> None:
    module = parse("m.js", "function f() {\n  const inner = 1;\n  class B {}\n}\nfor (const x of []) f(x);\n")
    assert module.declared == ("f",)


def test_comments_and_indentation_go() -> None:
    source = "// one\n/** two\n * three */\nfunction f() {\n\n    return 1; // four\n\t/* five */\n}\n"
    assert text_of(source) == "function f() {\nreturn 1;\n}\n"


def test_a_comment_separates_and_keeps_the_end_of_its_line() -> None:
    assert text_of("const/**/a = 1;\nreturned()/* one\ntwo */other();") == "const a = 1;\nreturned()\nother();\n"


@pytest.mark.parametrize(
    "literal",
    [
        '"// no comment  /* */"',
        r"'it\'s  // one'",
        r'"a\"  // b"',
        "`line\n    // indented  ${ a  }\n  end`",
        "`outer ${ f({ b: `inner  // ${ c }  /* */` }) }  // still`",
        r"`\`  // ${1}  $  \${ x }`",
        "/[/'\"`]  \\/  \\/\\/ a/g",
        "/^\\/(.+)\\/$/s",
    ],
)
def test_text_inside_literals_stays_as_it_is(literal: str) -> None:
    plain = re.sub(r"\$\{ (\w+) +\}", r"${ \1 }", literal)
    assert text_of(f"const a = {literal}; // comment\nb();\n") == f"const a = {plain}; \nb();\n".replace("; \n", ";\n")


def test_division_is_no_regular_expression() -> None:
    source = "const a = b / c; // d / e\nconst f = (g) / 2 + h[0] / 'x'.length / `y`.length;\nlet i = 1;\ni++ / 2;\n"
    assert text_of(source) == source.replace(" // d / e", "")


def test_a_regular_expression_may_follow_a_keyword_or_an_operator() -> None:
    source = "function f(a) {\nif (!/'/.test(a)) return /\"/;\nreturn a => /`/;\n}\n"
    assert text_of(source) == source
