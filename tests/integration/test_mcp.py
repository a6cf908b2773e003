"""`pinprof mcp`: what agents get through the protocol's own client, and what they cannot reach."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import ToolMissing, UsageError
from pinprof.cli.mcp import Tools, server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere.folded").write_text("main;secret 9\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.folded").write_text("main;memcpy 30\nmain;work 10\n")
    (root / "b.folded").write_text("main;memcpy 3\nmain;work 10\n")
    (root / "link.folded").symlink_to("../elsewhere.folded")
    return root


def asked(root: Path, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool failed, and its text."""
    mcp = pytest.importorskip("mcp", reason="mcp is not installed")

    async def ask() -> Any:
        async with mcp.Client(server(root)) as client:
            return await client.call_tool(tool, arguments)

    # In a thread of its own: Playwright's loop runs in this one once a browser test has begun.
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asyncio.run, ask()).result()
    return answer.is_error, answer.content[0].text


@pytest.mark.parametrize("path", ["../elsewhere.folded", "/etc/passwd", "link.folded", "a/../../elsewhere.folded"])
def test_a_path_outside_the_root_is_refused(root: Path, path: str) -> None:
    with pytest.raises(UsageError, match="is not below"):
        Tools(root).inside(path)


def test_a_path_in_the_root_is_never_an_option(root: Path) -> None:
    assert Tools(root).inside("--serve") == str(root / "--serve")


def test_without_the_package_the_error_names_its_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(ToolMissing, match=r"pip install 'pinprof\[mcp\]'"):
        server(root)


def test_agents_read_compare_and_explain_through_the_protocol(root: Path) -> None:
    failed, report = asked(root, "report", path="a.folded")
    assert not failed
    assert "memcpy" in report
    failed, text = asked(root, "diff", before=["a.folded"], after=["b.folded"])
    assert not failed
    assert "13 samples instead of 40" in text
    assert "pin.faultin (cause)" in asked(root, "explain", name="pin.faultin")[1]


def test_an_error_of_a_tool_is_the_one_of_the_command(root: Path) -> None:
    failed, text = asked(root, "report", path="none.pinprof")
    assert failed
    assert "none.pinprof" in text
    failed, text = asked(root, "report", path="link.folded")
    assert failed
    assert "secret" not in text
    assert "is not below" in text
    assert asked(root, "check", captures=["a.folded"])[0]  # no budgets


def test_a_program_is_recorded_into_the_root_and_explained(root: Path) -> None:
    program = [sys.executable, "-c", "print(sum(bytes(1 << 25)))"]
    failed, text = asked(root, "record", program=program, output="own.pinprof")
    assert not failed, text
    assert text.startswith("Capture: own.pinprof\n")
    assert (root / "own.pinprof" / "manifest.json").exists()
    assert asked(root, "record", program=program, output="../own.pinprof")[0]
