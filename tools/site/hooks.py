"""What MkDocs takes from outside docs/: pages made from the code, the changelog, the gallery of pages."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
GALLERY = "gallery/"
_FROM_ROOT = re.compile(r"\]\(docs/")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?!https?:|docs/)([\w./-]+)\)")


def on_config(config: Any) -> None:
    """The choice of versions, in a site that `mike` builds: alone it would ask for a list that is not there."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}


def on_files(files: Files, config: Any) -> Files:
    """Add what is made, and the pages of reports/ that are there: six in a checkout, all after `make reports`."""
    places = [str(Path(__file__).parent), str(ROOT / "tools")]
    sys.path[:0] = places
    try:
        import cause_list
        import cli_reference
        import evidence_table
        import layout_list
        import module_list
    finally:
        del sys.path[: len(places)]

    made = {
        "binary-files": layout_list.page,
        "causes": cause_list.page,
        "cli": cli_reference.markdown,
        "evidence": evidence_table.page,
        "modules": module_list.page,
    }
    for name, page in made.items():
        files.append(File.generated(config, f"{name}.md", content=page()))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = _FROM_ROOT.sub("](", (ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, name.lower(), content=text))
    for path in sorted(REPORTS.rglob("*")):
        if path.is_file() and path.suffix in (".html", ".js", ".png"):
            uri = GALLERY + path.relative_to(REPORTS).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    gallery = (REPORTS / "README.md").read_text("utf-8")
    if (REPORTS / "h200" / "index.html").is_file():
        gallery += "\n[The index of all pages](h200/index.html)\n"
    files.append(File.generated(config, "gallery.md", content=gallery))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Files) -> str:
    """Links into reports/ lead into the gallery; links to other files of the repository are text, or lead there."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if files.get_file_from_path(target):
            return match[0]
        inside = target.removeprefix("reports/") if page.file.src_uri != "gallery.md" else target
        if files.get_file_from_path(GALLERY + inside):
            return f"[{words}]({GALLERY}{inside})"
        if inside in ("h200", "h200/", "README.md", ""):
            return f"[{words}](gallery.md)"
        if target.endswith(".md") and "/" not in target:
            return match[0]  # a mistake, which MkDocs names
        return f"[{words}]({config['repo_url']}/blob/main/{target})" if config["repo_url"] else words

    parts = re.split(r"(```.*?```|`[^`\n]+`(?!\]))", text, flags=re.DOTALL)
    return "".join(part if number % 2 else _OUTSIDE.sub(link, part) for number, part in enumerate(parts))
