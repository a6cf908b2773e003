"""A collector made as docs/extending.md says, one module and one line: it records end to end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.read import ReadOptions, read
from tests.support.documented import code
from tests.support.recorded_programs import needs_native

WITH_IT = """
import sys
from pinprof import collect, streams
from pinprof.__main__ import main
collect.__path__.append(sys.argv.pop(1))
collect.COLLECTORS[sys.argv.pop(1)] = "what it records"
scope = {}
exec(sys.argv.pop(1), scope)
streams.STREAMS += tuple(each for each in scope.values() if isinstance(each, streams.Stream))
main()
"""
LOOKS = """
from pinprof.collect.collector import Collector, Tool, ToolResult

class Looks(Tool):
    def __init__(self, setup):
        self.file = setup.directory / "looks.txt"
        setup.environment["LOOKED_AT"] = "yes"
        setup.notes.append("It is looked at.")

    def attach(self, program):
        self.program, self.seen = program, ["attach"]

    def watch(self):
        self.seen.append("watch")
        if self.seen.count("watch") == 3:
            (self.file.parent.parent / "seen").touch()
        return 0.05

    def ended(self):
        self.seen.append("ended")

    def result(self):
        self.file.write_text(" ".join(self.seen))
        return ToolResult({"name": "looks", "version": "1", "command": [], "options": {}})

COLLECTOR = Collector(lambda setup: [Looks(setup)], leaves=("looks.txt",))
"""
REFUSES = """
from pinprof.collect.collector import Collector, Tool
from pinprof.base.errors import CollectError

class Refuses(Tool):
    def attach(self, program):
        raise CollectError("It does not want to.", "Ask another one.", "refuses")

COLLECTOR = Collector(lambda setup: [Refuses()], leaves=("refuses.txt",))
"""


def pinprof(
    folder: Path, name: str, module: str, *arguments: str, stream: str = ""
) -> subprocess.CompletedProcess[str]:
    """pinprof with a collector more, called in `folder`."""
    modules = folder.with_name(f"{folder.name}-modules")
    modules.mkdir(exist_ok=True)
    (modules / f"{name}.py").write_text(module)
    command = [sys.executable, "-c", WITH_IT, str(modules), name, stream, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(shutil.which("top") is None, reason="top is not installed")
def test_the_documented_collector_records_with_a_tool_of_its_own(tmp_path: Path) -> None:
    arguments = ("record", "--with", "top", "-o", "out", "--", "sh", "-c", "echo hi; exit 3")
    result = pinprof(tmp_path, "top", code("collector.py"), *arguments)
    assert (result.returncode, result.stdout) == (3, "hi\n")
    assert "Capture: out.pinprof" in result.stderr
    manifest = json.loads((tmp_path / "out.pinprof/manifest.json").read_text())
    assert [entry["name"] for entry in manifest["collectors"] if entry["name"] != "cuda-calls"] == ["top"]
    assert manifest["outcome"]["state"] == "complete"
    assert "COMMAND" in (tmp_path / "out.pinprof/top.txt").read_text()


@needs_native
@pytest.mark.skipif(shutil.which("top") is None, reason="top is not installed")
def test_what_the_documented_collector_writes_is_reported_and_shared(tmp_path: Path) -> None:
    top, stream = code("collector.py"), code("stream.py")
    program = ("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    recorded = pinprof(
        tmp_path, "top", top, "record", "--with", "native,top", "-o", "out", "--", *program, stream=stream
    )
    assert recorded.returncode == 0, recorded.stderr
    told = []
    for name in ("out.pinprof", "out-shared.pinprof"):
        report = pinprof(tmp_path, "top", top, "report", name, "--format", "json", stream=stream)
        told.append([note for note in json.loads(report.stdout)["losses"]["notes"] if note.startswith("top saw")])
        if name == "out.pinprof":
            refused = pinprof(tmp_path, "top", top, "report", name, "--share")
            assert "does not know what top.txt says" in refused.stderr
            assert refused.returncode == 1
            assert pinprof(tmp_path, "top", top, "report", name, "--share", stream=stream).returncode == 0
    assert told[0] == told[1]
    assert len(told[0]) == 1


def test_a_capture_without_samples_is_read_and_says_that_it_shows_no_costs(tmp_path: Path) -> None:
    result = pinprof(tmp_path, "looks", LOOKS, "record", "--with", "looks", "-o", "out", "--", "true")
    words = "This recording cannot show host-memory costs, because it has no samples"
    assert result.returncode == 0
    assert words in result.stderr
    assert "Symbols were not stored" not in result.stderr
    report = pinprof(tmp_path, "looks", LOOKS, "report", "out.pinprof", "-o", "again.html")
    assert report.returncode == 0
    assert words in report.stdout + report.stderr


@needs_native
def test_it_records_beside_a_sampler_and_takes_every_step(tmp_path: Path) -> None:
    program = ("sh", "-c", 'echo "$LOOKED_AT"; until [ -e seen ]; do sleep 0.02; done')
    arguments = ("record", "--with", "native,looks", "-o", "out", "--no-report", "--", *program)
    result = pinprof(tmp_path, "looks", LOOKS, *arguments)
    assert (result.returncode, result.stdout) == (0, "yes\n")
    assert "It is looked at." in result.stderr
    first, *looks, last = (tmp_path / "out.pinprof/looks.txt").read_text().split()
    assert (first, last) == ("attach", "ended")
    assert len(looks) >= 3
    assert set(looks) == {"watch"}
    capture = read(str(tmp_path / "out.pinprof"), ReadOptions())
    assert [entry["name"] for entry in capture.manifest.collectors][:2] == ["native", "looks"]


@needs_native
def test_one_that_cannot_begin_is_left_out_and_the_program_runs(tmp_path: Path) -> None:
    arguments = ("record", "--with", "native,refuses", "-o", "out", "--", "touch", "ran")
    result = pinprof(tmp_path, "refuses", REFUSES, *arguments)
    assert result.returncode == 0
    assert "It does not want to. Ask another one. [refuses]\n" in result.stderr
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "out.pinprof" / "perf.data").exists()


def test_two_that_start_the_program_are_refused(tmp_path: Path) -> None:
    launches = LOOKS.replace("leaves=", "launches=True, leaves=")
    result = pinprof(tmp_path, "looks", launches, "record", "--with", "nsys,looks", "--", "true")
    assert "'nsys,looks' names two collectors that start the program" in result.stderr
    running = pinprof(tmp_path, "looks", launches, "record", "--with", "looks", "--pid", "1")
    assert "looks starts the program itself" in running.stderr
