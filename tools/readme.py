"""README.md for the package's page on an index, where relative links lead nowhere.

Standard library only: setup.py loads this file by its path. `PINPROF_REPOSITORY` is the address of the repository that
a release is built from (`https://HOST/OWNER/NAME`), `PINPROF_SITE` that of the documentation. With a repository, links
lead into it; without one, they are plain text, and pictures are left out.
"""

from __future__ import annotations

import os
import re

_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_ABSOLUTE = re.compile(r"[a-z]+:|#")


def for_index(text: str, version: str) -> str:
    """The text with links that hold anywhere."""
    repository = os.environ.get("PINPROF_REPOSITORY", "").rstrip("/")

    def picture(match: re.Match[str]) -> str:
        if _ABSOLUTE.match(match[2]):
            return match[0]
        return match[0].replace(match[2], f"{repository}/raw/v{version}/{match[2]}") if repository else ""

    def link(match: re.Match[str]) -> str:
        if _ABSOLUTE.match(match[2]):
            return match[0]
        return f"[{match[1]}]({repository}/blob/v{version}/{match[2]})" if repository else match[1]

    return _LINK.sub(link, _PICTURE.sub(picture, text))


def urls() -> dict[str, str]:
    """The project's addresses, as far as the release knows them."""
    repository = os.environ.get("PINPROF_REPOSITORY", "").rstrip("/")
    site = os.environ.get("PINPROF_SITE", "").rstrip("/")
    found = {"Documentation": site} if site else {}
    if repository:
        found |= {
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
    return found
