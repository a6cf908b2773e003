"""Where the documentation is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pinprof.base import documentation

HEAD = "Metadata-Version: 2.4\nName: pinprof\n"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (f"{HEAD}Project-URL: Documentation, https://there/docs/\n\ntext", "https://there/docs"),
        (f"{HEAD}Project-URL: Source, https://there/source\n\nProject-URL: Documentation, https://text", ""),
        (f"{HEAD}Project-URL: Documentation, javascript:there\n", ""),
    ],
)
def test_the_site_is_what_the_package_says(
    metadata: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pinprof-1.dist-info").mkdir()
    (tmp_path / "pinprof-1.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    documentation.site.cache_clear()
    try:
        assert documentation.site() == expected
    finally:
        documentation.site.cache_clear()
