"""The answer as Markdown: complete, and of hostile names nothing but text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pinprof.cli import cli
from pinprof.report.gather import build
from pinprof.report.markdown import block, code, text
from pinprof.report.names import printable
from tests.support.facts import with_facts
from tests.support.h200 import own_analysis
from tests.support.opportunities import course, with_opportunities

HOSTILE = "@team `x``| <img src=x onerror=alert(1)> #1 www.a.b https://x.y [a](http://b) ![i](j) *_q_* ~~s~~ $m$ &amp;"
NAMES = st.text(st.sampled_from(list("ab1 `*_[]()<>#+-.!|~&@:/\\$=\n\t\u202e")), max_size=30) | st.text(max_size=30)


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)


def inner(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from inner(token.children or [])


def written(found: int = 2, name: str = "") -> str:
    stream = io.StringIO()
    analysis = with_opportunities(own_analysis("alloc-loop-mistake"), found, name)
    if name and analysis.opportunities:
        answer = replace(analysis.opportunities, headline=name, unseen=(name,))
        analysis = with_facts(analysis, opportunities=answer, course=course(0, what=name))
    build(analysis, "markdown").write("markdown", stream)
    return stream.getvalue()


@given(NAMES)
@example("- a")
@example("1. a")
@example("= ")
@example(HOSTILE)
def test_prose_reads_as_it_was_and_means_nothing(name: str) -> None:
    tokens = parsed(f"- {text(f'x{name}')}\n\n{text(name)}")
    kinds = {token.type for token in inner(tokens)}
    assert kinds <= {
        "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "paragraph_open",
        "paragraph_close", "inline", "text", "text_special", "code_inline",
    }  # fmt: skip
    said = ["".join(part.content for part in token.children or []) for token in tokens if token.type == "inline"]
    assert [words.strip() for words in said if words.strip()] == [
        words for one in (f"x{name}", name) if (words := printable(one).strip())
    ]


@given(NAMES)
@example("``a`")
@example(" a ")
def test_a_code_span_holds_any_name(name: str) -> None:
    tokens = [token for token in inner(parsed(f"x {code(name)} x")) if token.type == "code_inline"]
    assert [token.content for token in tokens] == ([shown] if (shown := printable(name).strip()) else [])


@given(st.lists(NAMES, min_size=1, max_size=4))
@example(["```", "</code>", "~~~"])
def test_a_block_holds_any_lines(lines: list[str]) -> None:
    (token,) = parsed("\n".join(block(lines)))
    assert token.type == "fence"
    assert token.content == "".join(f"{printable(line)}\n" for line in lines)


@pytest.mark.slow
def test_it_has_headline_phases_code_and_causes() -> None:
    markdown = written()
    for part in (
        "**alloc_pairs.cu:11 pins and frees 1,859 buffers", "| work | 1.8 s | 75 % |",
        "60 steps, median 20.1 ms, slowest 31 ms at 2",
        "#### 1. alloc_pairs.cu:11 pins",
        "**Saves 1.3 s of 1.8 s of work (1.1–1.4 s in other runs): 22 ms of 30 ms a step, in 60 of 60 steps**",
        "`step (alloc_pairs.cu:11) · thread alloc_pairs`", "```\ncudaMemPool_t pool;", "```\nPINPROF_POOL=1\n```",
        "### Not worth changing", "- Copies by other libraries were not traced.", "### Causes of", "| `pin.faultin` |",
    ):  # fmt: skip
        assert part in markdown


def test_it_says_that_nothing_is_to_gain() -> None:
    markdown = written(0)
    assert markdown.startswith("**Nothing to gain in host memory")
    assert "Searched for: memory allocated and freed repeatedly, pages created during pins" in markdown


def test_hostile_names_become_no_markup_link_or_mention() -> None:
    tokens = list(inner(parsed(written(2, HOSTILE))))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_inline", "html_block", "link_open", "image", "s_open", "em_open"}
    prose = " ".join(token.content for token in tokens if token.type == "text")
    assert not re.search(r"@\w|#\d|https?://|www\.\w", prose)


@pytest.mark.parametrize("name", ["out.md", "-"])
def test_the_command_writes_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "run.folded"
    recording.write_text("main;work;do_anonymous_page_[k] 70\nmain;read 30\n")
    target = name if name == "-" else str(tmp_path / name)
    cli.main(["report", str(recording), "--format", "markdown", "-o", target], standalone_mode=False)
    told = capsys.readouterr().out if name == "-" else Path(target).read_text("utf-8")
    assert told.startswith("**")
    assert "| cause | weight | share |" in told
