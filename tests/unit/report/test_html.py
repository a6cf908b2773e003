"""The page as a file: self-contained, locked down, and free of markup from names."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pinprof.base.errors import PinprofError
from pinprof.report.page import collection
from pinprof.report.page.bundle import PLOT_SCRIPT, bundle
from pinprof.report.page.html import embed_json, flattened, prose, render, write_html
from pinprof.report.sections.hero import Hero
from pinprof.report.sections.reproduce import quoted
from tests.support.sample_report import rebuilt, sample_report

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e&\ud800\x00"


def test_json_cannot_end_its_script_element() -> None:
    text = str(embed_json({"name": HOSTILE.replace("\ud800", "")}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": HOSTILE.replace("\ud800", "")}


def test_hostile_names_stay_text_everywhere(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_html(sample_report(HOSTILE, HOSTILE), page)
    text = page.read_text("utf-8")
    assert "<img" not in text
    assert "<script>alert" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "&lt;img src=x onerror=alert(2)&gt;" in text


def test_page_refers_to_nothing_outside_itself() -> None:
    page = re.sub(r'<script type="application/octet-stream".*?</script>', "", render(sample_report()), flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", page)
    # An XML namespace is a name that looks like an address.
    page = page.replace('"http://www.w3.org/2000/svg"', "")
    assert not re.findall(r"url\(|@import|https?://", page)


def test_policy_admits_exactly_the_scripts_of_the_page() -> None:
    page = render(sample_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    module = re.search(r'<script type="module" id="page-script">(.*?)</script>', page, re.DOTALL)
    packed = re.search(r'id="plot-script">([^<]*)<', page)
    assert policy is not None
    assert module is not None
    assert packed is not None
    plot = gzip.decompress(base64.b64decode(packed[1]))
    assert b"plotly.js (basic - minified)" in plot[:200]
    assert len(page) < 800_000
    for script in (module[1].encode(), plot):
        assert base64.b64encode(hashlib.sha256(script).digest()).decode() in policy[1].replace("&#39;", "'")
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe-eval" not in policy[1]
    assert "connect-src" not in policy[1]


def test_shared_scripts_are_written_once_and_referred_to_relatively(tmp_path: Path) -> None:
    assets = tmp_path / "gallery" / "assets"
    for name in ("a.html", "b.html"):
        write_html(sample_report(), tmp_path / "gallery" / name, assets)
        text = (tmp_path / "gallery" / name).read_text("utf-8")
        assert f'data-source="assets/{PLOT_SCRIPT}"' in text
        assert re.search(r'<script src="assets/pinprof-[0-9a-f]{12}\.js">', text)
        assert len(text) < 100_000
    plot, own = sorted(path.name for path in assets.iterdir())[::-1]
    assert plot == PLOT_SCRIPT
    assert bundle("report.js") in (assets / own).read_text("utf-8")


def test_sections_without_data_do_not_appear() -> None:
    page = render(rebuilt(sample_report(), ranges=(), findings=(), flame=None))
    for section in ("ranges", "findings", "flame", "chart"):
        assert f'id="{section}"' not in page
    assert 'id="causes"' in page
    assert 'id="plot-script"' not in page


def test_host_emulation_is_named_and_only_there() -> None:
    assert "host emulation" in render(sample_report(backend="host"))
    assert "host emulation" not in render(sample_report(backend="cuda"))


def test_command_line_is_quoted_for_the_shell() -> None:
    words = ("pinprof", "run", "pinned", "--size", "256MiB", "&#39;two", "words&#39;")
    line = " ".join(f'<span class="word">{word}</span>' for word in words)
    assert line in render(sample_report(text="two words"))


@pytest.mark.parametrize(
    ("words", "line"),
    [(["a b", "c"], "'a b' c"), (["~/my app/x", "$HOME"], "~/'my app/x' '$HOME'"), (["~", ""], "'~' ''")],
)
def test_only_a_leading_home_directory_is_left_to_the_shell(words: list[str], line: str) -> None:
    assert quoted(words) == line


def test_nested_facts_become_labelled_lines() -> None:
    facts = {"cpu": {"model": "EPYC", "smt": True}, "memory_bytes": 1 << 30, "page_bytes": 4096, "empty": ""}
    assert flattened({**facts, "gpus": [{"name": "H200"}]}) == [
        ("CPU › model", "EPYC"),
        ("CPU › smt", "yes"),
        ("memory", "1 GiB"),
        ("page size", "4 KiB"),
        ("GPU › name", "H200"),
    ]


def test_the_same_report_gives_the_same_page() -> None:
    assert render(sample_report()) == render(sample_report())


def test_an_unwritable_place_is_a_clean_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PinprofError, match="cannot be written"):
        write_html(sample_report(), tmp_path / "file" / "page.html")


def test_variant_and_what_a_framework_holds_stand_under_the_headline() -> None:
    data = sample_report()
    told = {"parameters": {"variant": "touched"}, "memory_bytes": {"GPU memory in tensors": 1 << 20, "odd": "x"}}
    capture = replace(data.capture, scenario={**data.capture.scenario, **told})
    hero = Hero.of(rebuilt(data, capture=capture))
    assert hero is not None
    facts = hero.facts
    assert facts[0] == "scenario pinned (touched)"
    assert "1 MiB of GPU memory in tensors" in facts
    assert not [fact for fact in facts if "odd" in fact]


@pytest.mark.slow
def test_a_recording_without_samples_stands_beside_others() -> None:
    bare = rebuilt(sample_report(), events=(), flame=None, headline="This recording has no samples.")
    page = collection.render([sample_report(), bare])
    assert "2 recordings side by side" in page
    assert "This recording has no samples." in page


def test_sentences_have_code_and_keep_numbers_with_their_units() -> None:
    assert prose("run `pinprof bench` <b>`x`") == "run <code>pinprof bench</code> &lt;b&gt;<code>x</code>"
    assert prose("70.3 ms of 1.5 GiB, 12 % of 3 runs") == "70.3\u00a0ms of 1.5\u00a0GiB, 12\u00a0% of 3 runs"
    assert prose("2 s: `--until 2 s`") == "2\u00a0s: <code>--until 2 s</code>"
    assert prose("use --no-x.") == 'use <span class="together">--no-x</span>.'
    assert prose("`a`&`") == "<code>a</code>&amp;`"
