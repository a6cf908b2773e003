"""The documentation's site: its links are strict, it loads nothing from elsewhere, its reference is the code's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pinprof.cli import COMMANDS, cli

pytest.importorskip("mkdocs")
pytest.importorskip("material")
ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?([^\"'\s>]+)|<link\b[^>]*\bhref=[\"']?([^\"'\s>]+)"
)


def build(config: Path, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", place]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", place)
    assert built.returncode == 0, built.stderr
    return place


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if "gallery" not in path.parts]
    assert len(pages) > 30
    for path in pages:
        found = ["".join(names) for names in LOADED.findall(path.read_text("utf-8"))]
        assert found
        assert not [name for name in found if re.match(r"(https?:)?//", name)], path
    assert not [path for path in site.rglob("*.css") if "fonts.googleapis" in path.read_text("utf-8")]


def test_the_reference_has_every_option_of_every_command(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "cli" / "index.html").read_text("utf-8"))
    context = click.Context(cli)
    options = 0
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert f"pinprof {name}" in text
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1] in text
                options += 1
    assert options > 50


def test_every_document_and_the_gallery_are_on_the_site(site: Path) -> None:
    for path in (ROOT / "docs").glob("*.md"):
        assert (site / ("" if path.stem == "index" else path.stem) / "index.html").is_file(), path
    gallery = (site / "gallery" / "index.html").read_text("utf-8")
    shown = re.findall(r'href="([^"#]+\.html)"', gallery)
    assert len(shown) >= 6
    assert all((site / "gallery" / name).resolve().is_file() for name in shown)


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The project's own settings, with one document more."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One\n\n[nowhere](#nothing) and [no page](missing.md)\n")
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    text = re.sub(r"^nav:\n.*", "", text, flags=re.MULTILINE | re.DOTALL).replace("hooks: [tools/site/hooks.py]\n", "")
    (tmp_path / "mkdocs.yml").write_text(text)
    (tmp_path / "docs" / "images").mkdir()
    (tmp_path / "docs" / "images" / "site.css").touch()
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0
    assert "missing.md" in built.stderr
    assert "#nothing" in built.stderr


def test_a_site_has_the_addresses_that_it_is_built_for(tmp_path: Path) -> None:
    known = {"PINPROF_SITE": "https://example.org/docs/", "PINPROF_REPOSITORY": "https://example.org/code"}
    built = build(ROOT / "mkdocs.yml", tmp_path, **known)
    assert built.returncode == 0, built.stderr
    page = (tmp_path / "story-cuda" / "index.html").read_text("utf-8")
    assert 'href="https://example.org/docs/story-cuda/"' in page
    assert 'href="https://example.org/code"' in page
