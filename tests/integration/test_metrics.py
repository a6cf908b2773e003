"""`pinprof record --ring --metrics FILE`: counters that Prometheus reads, whole at any time, and true."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from pinprof.collect import permission
from pinprof.machine.libraries import compiler
from pinprof.report.export.metrics import METRICS, Sums, text_of
from tests.support import agent
from tests.support.command import pinprof

parser = pytest.importorskip("prometheus_client.parser")
needs_samples = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")
PATIENCE_S = 240
RECORD = (
    "import sys, pinprof.cli.metrics as metrics\n"
    "metrics.SHORTEST_S = 1.0  # windows that a test need not wait long for\n"
    "from pinprof.cli import main\n"
    "main(sys.argv[1:])\n"
)
BEGIN = """
import ctypes, json, mmap, os, resource, sys, time
from pathlib import Path
metrics = Path("metrics.prom")
def value(name):
    lines = metrics.read_text().splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith(name + " "))
def until(true):
    deadline = time.monotonic() + 200
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
# What happens before the first look is in no window.
until(lambda: value("pinprof_watched_seconds_total") > 0)
"""
TOUCHES = """
size, begun, cpu = 64 << 20, value("pinprof_watched_seconds_total"), time.process_time()
for turn in range(3):
    for _ in range(4):
        piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        piece.madvise(15)  # MADV_NOHUGEPAGE
        for at in range(0, size, 4096):
            piece[at] = 1
        piece.close()
    until(lambda: value("pinprof_watched_seconds_total") > begun)
    begun = value("pinprof_watched_seconds_total")
Path("told.json").write_text(json.dumps({"pages": 12 * size // 4096, "cpu": time.process_time() - cpu}))
"""
COPIES = """
cuda, P, N = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p, ctypes.c_size_t
pinned, plain, device = [P() for _ in range(4)], ctypes.create_string_buffer(8192), ctypes.c_uint64()
for one in pinned:
    assert not cuda.cuMemHostAlloc(ctypes.byref(one), N(1 << 20), 0)
assert not cuda.cuMemAlloc_v2(ctypes.byref(device), N(1 << 20))
begun = value("pinprof_watched_seconds_total")
for turn in range(500):
    assert not cuda.cuMemcpyHtoD_v2(device, pinned[0], N(4096))
    assert not cuda.cuMemcpyHtoD_v2(device, plain, N(512))
until(lambda: value("pinprof_watched_seconds_total") > begun)
"""


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """By name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def sums(found: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str) -> float:
    return sum(value for (one, _), value in found.items() if one == name)


def recorded(tmp_path: Path, code: str, *options: str, library_path: Path | None = None) -> list[str]:
    """Texts of the file while a program ran, and at last."""
    script, file = tmp_path / "program.py", tmp_path / "metrics.prom"
    script.write_text(BEGIN + code)
    command = ["record", "--ring", "10s", "--metrics", str(file), *options, "--", sys.executable, str(script)]
    more = {"LD_LIBRARY_PATH": str(library_path)} if library_path else {}
    texts = []
    with subprocess.Popen(
        [sys.executable, "-c", RECORD, *command], cwd=tmp_path, env=os.environ | more, stderr=subprocess.PIPE, text=True
    ) as recorder:
        deadline = time.monotonic() + PATIENCE_S
        while recorder.poll() is None and time.monotonic() < deadline:
            if file.exists():
                texts.append(file.read_text())
            time.sleep(0.05)
        recorder.kill()
        assert recorder.stderr is not None
        assert recorder.returncode == 0, recorder.stderr.read()
    return [*texts, file.read_text()]


@needs_samples
def test_what_a_program_spends_is_counted_and_the_file_is_whole_at_any_time(tmp_path: Path) -> None:
    texts = recorded(tmp_path, TOUCHES)
    told = json.loads((tmp_path / "told.json").read_text())
    states = [parsed(text) for text in texts]
    names = {name for name, _ in states[-1]}
    assert names <= METRICS.keys()
    for before, after in itertools.pairwise(states):
        # Nothing is missing from a file that is replaced while it is read, and no counter goes back.
        assert {name for name, _ in before} <= {name for name, _ in after}
        for key, value in before.items():
            assert after[key] >= value or METRICS[key[0]].kind == "gauge"
    last = states[-1]
    watched = [sums(state, "pinprof_watched_seconds_total") for state in states]
    assert len(set(watched)) > 3
    assert 0.5 * told["cpu"] < sums(last, "pinprof_cpu_seconds_total") < 2 * told["cpu"] + watched[-1]
    assert sums(last, "pinprof_page_faults_total") > 0.5 * told["pages"]
    faults = [
        value
        for (name, labels), value in last.items()
        if name.endswith("cpu_seconds_total") and "fault." in str(labels)
    ]
    assert sum(faults) > 0
    assert last["pinprof_stalls_total", (("trigger", "signal:USR2"),)] == 0
    assert last["pinprof_captures_total", ()] == 0


@needs_samples
@pytest.mark.skipif(not compiler(), reason="there is no C compiler")
def test_pins_calls_copies_stalls_and_captures_are_counted(tmp_path: Path) -> None:
    driver = agent.build_driver(tmp_path)
    code = f"{COPIES}until(lambda: value('pinprof_captures_total') > 0)\n"
    texts = recorded(tmp_path, code, "--trigger", "pinned>3MiB", library_path=driver)
    last = parsed(texts[-1])
    assert last["pinprof_pins_total", ()] == 4
    assert last["pinprof_pinned_bytes_total", ()] == 4 << 20
    assert last["pinprof_cuda_calls_total", (("purpose", "alloc pinned"),)] == 4
    copied = {
        dict(labels)["source"]: value for (name, labels), value in last.items() if name == "pinprof_copied_bytes_total"
    }
    # A call at the edge of two windows may be in both or in none.
    assert copied["pinned"] == pytest.approx(500 * 4096, rel=0.05)
    assert copied["pageable"] == pytest.approx(500 * 512, rel=0.05)
    assert last["pinprof_stalls_total", (("trigger", "pinned>3MiB"),)] == 1
    assert last["pinprof_captures_total", ()] == 1
    assert any(parsed(text)["pinprof_pinned_bytes", ()] == 4 << 20 for text in texts)


def test_every_metric_is_explained_and_labels_are_escaped() -> None:
    trigger = 'range:a"b\\c\nd>1s'
    sums: Sums = defaultdict(float, {("pinprof_stalls_total", (("trigger", trigger),)): 2.0})
    text = text_of(sums)
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families.keys() == {name.removesuffix("_total") for name in METRICS}
    assert all(family.documentation for family in families.values())
    assert parsed(text)["pinprof_stalls_total", (("trigger", trigger),)] == 2
    assert parsed(text)["pinprof_captures_total", ()] == 0


def test_metrics_need_a_ring_and_a_file_that_can_be_written(tmp_path: Path) -> None:
    alone = pinprof("record", "--metrics", tmp_path / "metrics.prom", "--", "true")
    assert alone.returncode == 2
    assert "--metrics belongs to a flight recorder." in alone.stderr
    if permission.sampling_errno() == 0:
        nowhere = pinprof("record", "--ring", "5s", "--metrics", "/dev/null/metrics.prom", "--", "true")
        assert nowhere.returncode == 2
        assert nowhere.stderr.endswith("Give a file that you can write. [metrics]\n")
