"""Where pages lie, recorded for real: on this machine's nodes, and as huge pages where the program asks for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.probes import needs_pages, needs_probes
from tests.truth.gpu import ledger

DATA = Path(__file__).parents[1] / "data/cuda"
SIZE = 64 << 20
WHOLE = 260
"""Pages: a look that a busy machine cuts short misses one of the program's four mappings, and has fewer."""
NODES = {place.name.removeprefix("node") for place in Path("/sys/devices/system/node").glob("node[0-9]*")}
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def built(folder: Path) -> Path:
    driver, runtime, program = folder / "libcuda.so.1", folder / "libcudart.so.13", folder / "places"
    for command in (
        ("-shared", "-fPIC", "-o", driver, DATA / "allocating.c"),
        ("-shared", "-fPIC", "-DRUNTIME", "-o", runtime, DATA / "allocating.c", driver, "-Wl,-rpath,$ORIGIN"),
        ("-o", program, DATA / "places.c", runtime, driver, "-Wl,-rpath,$ORIGIN"),
    ):
        subprocess.run(["cc", *ledger.FLAGS, *command], check=True, cwd=folder)
    return program


def await_look(log: Path, since_ns: int) -> None:
    """Wait until a line of a recording that goes on has pages of a whole look after a time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for text in log.read_text().splitlines()[:-1] if log.exists() else ():
            line = json.loads(text)
            most = max((len(process.get("pages", ())) for process in line["processes"]), default=0)
            if line["t"] > since_ns and most > WHOLE:
                return
        time.sleep(0.05)
    raise AssertionError("nobody looked")


def recorded(folder: Path) -> dict[str, Any]:
    """The report of a recording of the program, which holds its memory until it was looked at."""
    out, go = folder / "out.pinprof", folder / "go"
    record = [sys.executable, "-m", "pinprof", "record", "--python", "off", "--no-report", "--no-calibrate"]
    with subprocess.Popen(
        [*record, "-o", str(out), "--", built(folder), str(go)],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "ready\n"
            await_look(out.with_name(out.name + ".partial") / "memory.jsonl", time.monotonic_ns())
        finally:
            go.touch()
        assert run.wait(60) == 0
    report = [sys.executable, "-m", "pinprof", "report", "--format", "json", str(out)]
    answer: dict[str, Any] = json.loads(subprocess.run(report, check=True, capture_output=True, timeout=120).stdout)
    return answer


@needs_probes
@needs_pages
def test_pages_are_on_a_node_and_huge_where_the_program_says_so(tmp_path: Path) -> None:
    answer = recorded(tmp_path)
    text = (DATA / "places.c").read_text().splitlines()
    pages = {}
    for site in answer["ledger"]["sites"]:
        if "places.c:" in site["line"]:
            pages[text[int(site["line"].rpartition(":")[2].rstrip(")")) - 1].rpartition("// ")[2]] = site["pages"]
    assert set(pages) == {"allocates", "huge", "small", "half", "part", "tiny"}
    for name in ("allocates", "huge", "small"):
        found = pages[name]
        assert found["nodes"].keys() <= NODES
        assert sum(found["nodes"].values()) == pytest.approx(SIZE, abs=2)
        assert (found["absent_bytes"], found["unknown_bytes"]) == (0, 0)
        assert found["looked_at"] >= 8
    if pages["small"]["huge_share"] is None:
        pytest.skip("this kernel does not say which pages are huge")
    assert pages["small"]["huge_share"] == 0
    if "[never]" not in HUGE_PAGES.read_text():
        assert pages["huge"]["huge_share"] > 0.9
    half = pages["half"]
    assert half["absent_bytes"] == pytest.approx(SIZE / 2, rel=0.25)
    assert sum(half["nodes"].values()) + half["absent_bytes"] == pytest.approx(SIZE, abs=2)
    # Too few pages of it were asked for: nothing is guessed.
    assert pages["tiny"] is None
