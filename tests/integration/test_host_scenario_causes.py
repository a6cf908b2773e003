"""The causes that scenarios on the host backend are there to show, as perf samples them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.emulation import need


def record(folder: Path, *arguments: str) -> list[tuple[int, list[str]]]:
    """Samples of a scenario recorded by perf with its control FIFOs: (time, frames innermost first)."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    for fifo in ("ctl", "ack"):
        os.mkfifo(folder / fifo)
    control = f"{folder}/ctl,{folder}/ack"
    # Without build ids: perf 6.1 can crash over those that it reads at its end.
    options = ["-B", "-N", "-e", "cpu-clock", "-F", "1999", "-k", "CLOCK_MONOTONIC", "-g", "-D", "-1"]
    options.append(f"--control=fifo:{control}")
    program = [sys.executable, "-m", "pinprof.scenario", *arguments, "--backend", "host"]
    environment = {
        **os.environ,
        "PINPROF_CONTROL": control,
        "PINPROF_RANGES": str(folder / "ranges.jsonl"),
    }
    command = ["perf", "record", "-q", "-o", str(folder / "perf.data"), *options, "--", *program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode and re.search("paranoid|not permitted|Permission", done.stderr):
        pytest.skip("perf is not permitted here")
    assert done.returncode == 0, done.stderr
    assert "recorder does not answer" not in done.stderr
    script = ["perf", "script", "-i", str(folder / "perf.data"), "-F", "tid,time,ip,sym", "--ns"]
    text = subprocess.run(script, capture_output=True, text=True, timeout=240, check=True).stdout
    samples: list[tuple[int, list[str]]] = []
    for line in text.splitlines():
        head = re.match(r"\s*\d+\s+(\d+)\.(\d{9}):", line)
        if head:
            samples.append((int(head[1] + head[2]), []))
        elif line.strip():
            samples[-1][1].append(line.split()[1])
    return samples


def share(folder: Path, samples: list[tuple[int, list[str]]], name: str, frames: str) -> float:
    """Of the samples inside the ranges of a name, the share with a frame that matches."""
    ranges = [json.loads(line) for line in (folder / "ranges.jsonl").read_text().splitlines()]
    spans = [(line["start_ns"], line["end_ns"]) for line in ranges if line["name"] == name]
    inside = [stack for when, stack in samples if any(start <= when < end for start, end in spans)]
    assert len(inside) > 50
    return sum(any(re.search(frames, frame) for frame in stack) for stack in inside) / len(inside)


def test_allocation_of_pinned_is_pinning(tmp_path: Path) -> None:
    need("pinned")
    samples = record(tmp_path, "pinned", "--size-bytes", "128MiB", "--iterations", "3")
    assert share(tmp_path, samples, "alloc", "gup_fast|pin_user_pages|io_pin_pages|io_sqe_buffer_register") > 0.8
    # `perf -D -1` starts switched off: whatever lies outside the iterations is the few samples around them.
    assert share(tmp_path, samples, "iteration", ".") == 1
    ranges = [json.loads(line) for line in (tmp_path / "ranges.jsonl").read_text().splitlines()]
    start, end = min(line["start_ns"] for line in ranges), max(line["end_ns"] for line in ranges)
    assert sum(start <= when < end for when, _ in samples) > 0.95 * len(samples)


@pytest.mark.parametrize(
    ("variant", "phase", "frames"),
    [
        ("touched", "init", "exc_page_fault|do_mem_abort|do_page_fault"),
        ("untouched", "register", "io_pin_pages|io_sqe_buffer_register|gup_fast|pin_user_pages"),
    ],
)
def test_pages_of_registered_memory_are_created_by_whoever_comes_first(
    variant: str, phase: str, frames: str, tmp_path: Path
) -> None:
    need("register")
    options = ["--variant", variant, "--size-bytes", "128MiB", "--iterations", "3"]
    assert share(tmp_path, record(tmp_path, "register", *options), phase, frames) > 0.6


def test_touch_of_prefault_is_page_faults_of_its_threads(tmp_path: Path) -> None:
    need("prefault")
    options = ["--variant", "small", "--threads", "3", "--size-bytes", "128MiB", "--iterations", "3"]
    samples = record(tmp_path, "prefault", *options)
    assert share(tmp_path, samples, "touch", "exc_page_fault|do_mem_abort|do_page_fault") > 0.6


def test_init_of_pageable_is_page_faults(tmp_path: Path) -> None:
    need("pageable")
    samples = record(tmp_path, "pageable", "--size-bytes", "128MiB", "--iterations", "3")
    assert share(tmp_path, samples, "init", "exc_page_fault|do_mem_abort|do_page_fault") > 0.6


def test_first_touch_of_uvm_is_served_by_userfaultfd(tmp_path: Path) -> None:
    need("uvm")
    samples = record(tmp_path, "uvm", "--size-bytes", "128MiB", "--iterations", "3")
    assert share(tmp_path, samples, "cpu_read", "userfaultfd_ioctl|mfill_atomic|handle_userfault") > 0.6
