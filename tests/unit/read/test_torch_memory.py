"""PyTorch's snapshots and counts: pools by line, the peak of a history, and files that are something else."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from pinprof.base.errors import CaptureError, FormatError
from pinprof.data.torch_memory import TorchHostStats, TorchMemory
from pinprof.read import torch_memory
from tests.support.torch_snapshot import ACTIVATIONS, HOST_STATS, MIB, ROUNDING, block, event, segment, snapshot


def read(tmp_path: Path, *values: Any) -> TorchMemory:
    paths = []
    for number, value in enumerate(values):
        path = tmp_path / f"file-{number}"
        path.write_bytes(json.dumps(value).encode() if value is HOST_STATS else pickle.dumps(value))
        paths.append(path)
    found = torch_memory.load(paths)
    assert found is not None
    return found


def test_pools_have_lines_now_and_at_the_peak_of_the_history(tmp_path: Path) -> None:
    gpu, pinned = read(tmp_path, snapshot()).pools
    assert (gpu.name, gpu.segments, gpu.reserved_bytes) == ("cuda:0", 1, 1536 * MIB)
    assert gpu.used_bytes == 1124 * MIB
    assert gpu.requested_bytes == 1124 * MIB - 2 * ROUNDING
    # 1,024 MiB of weights and 50 MiB that the history only frees were there before it; 300 MiB of activations.
    assert gpu.peak_bytes == (1024 + 50 + 300) * MIB - 4 * ROUNDING
    assert gpu.free_bytes == 1536 * MIB - gpu.peak_bytes
    assert {line.line: (line.blocks, line.bytes, line.peak_bytes) for line in gpu.lines} == {
        "build (train.py:3)": (1, 1024 * MIB, 1024 * MIB - ROUNDING),
        "step (train.py:20)": (1, 100 * MIB, 300 * MIB - 2 * ROUNDING),
        "": (0, 0, 50 * MIB - ROUNDING),
    }
    assert (pinned.name, pinned.reserved_bytes, pinned.used_bytes) == ("pinned", 512 * MIB, 256 * MIB)
    assert [(line.line, line.bytes, line.peak_bytes) for line in pinned.lines] == [
        ("load (train.py:30)", 256 * MIB, 256 * MIB)
    ]
    assert pinned.requested_bytes is None


def test_without_a_history_there_is_no_peak_and_lines_beyond_the_first_are_summed(tmp_path: Path) -> None:
    frames = [[{"filename": f"/home/me/a{n}.py", "line": n, "name": "f"}] for n in range(30)]
    blocks = [block(n, n + 1, frames[n]) for n in range(30)]
    (gpu,) = read(tmp_path, {"segments": [segment(0, blocks, device=3)]}).pools
    assert gpu.name == "cuda:3"
    assert gpu.peak_bytes is None
    assert [line.line for line in gpu.lines] == [f"f (a{n}.py:{n})" for n in range(29, 9, -1)]
    assert gpu.others_bytes == sum(range(1, 11)) * MIB


def test_an_address_that_is_used_again_belongs_to_its_last_line(tmp_path: Path) -> None:
    other = [{"filename": "/home/me/b.py", "line": 1, "name": "g"}]
    history = [
        event("alloc", 1, 10, ACTIVATIONS),
        event("free_completed", 1, 10, ACTIVATIONS),
        event("alloc", 1, 30, other),
    ]
    (gpu,) = read(tmp_path, {"segments": [segment(1, [block(1, 30, other)])], "device_traces": [history]}).pools
    assert gpu.peak_bytes == 30 * MIB - ROUNDING
    assert [(line.line, line.peak_bytes) for line in gpu.lines] == [("g (b.py:1)", 30 * MIB - ROUNDING)]


def test_frames_of_libraries_name_what_has_no_own_code(tmp_path: Path) -> None:
    library = [{"filename": "/v/lib/python3.12/site-packages/torch/optim/adam.py", "line": 8, "name": "step"}]
    (gpu,) = read(tmp_path, {"segments": [segment(0, [block(0, 1, library)])]}).pools
    assert gpu.lines[0].line == "step (adam.py:8)"


@pytest.mark.parametrize("nested", [False, True])
def test_counts_of_the_pinned_allocator(nested: bool, tmp_path: Path) -> None:
    given: dict[str, Any] = dict(HOST_STATS)
    if nested:
        given = {}
        for name, value in HOST_STATS.items():
            group, _, last = name.partition(".")
            if last:
                given.setdefault(group, {})[last] = value
            else:
                given[name] = value
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(given))
    found = torch_memory.load([path])
    assert found == TorchMemory((), TorchHostStats(256 * MIB, 512 * MIB, 0, 256 * MIB, 2, 120_000_000, 1, 4_000_000))


def test_files_say_together_what_each_says(tmp_path: Path) -> None:
    both = read(tmp_path, snapshot(), HOST_STATS)
    assert len(both.pools) == 2
    assert both.host is not None
    assert torch_memory.load([]) is None


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "something else"),
        (b"hello", "something else"),
        (b"[1]", "something else"),
        (b"[" * 100_000, "something else"),
        (b'{"a": 1}', "something else"),
        (pickle.dumps([1]), "no list of segments"),
        (pickle.dumps({"segments": {}}), "no list of segments"),
        (pickle.dumps({"segments": [1]}), "a list of something else than entries"),
        (pickle.dumps({"segments": [{"blocks": 1}]}), "something else than a list"),
        (pickle.dumps({"segments": [{"blocks": [{"state": "active", "frames": [1]}]}]}), "something else than entries"),
        (pickle.dumps(snapshot())[:-100], "damage"),
    ],
)
def test_other_files_are_refused(content: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=found):
        torch_memory.load([path])


def test_figures_that_cannot_be_are_none(tmp_path: Path) -> None:
    wrong = {"size": -5, "address": "x", "state": "active_allocated", "frames": None}
    gone = {"device": "a", "total_size": 1.5, "blocks": [wrong, {"size": 1 << 70, "state": 3}]}
    (gpu,) = read(tmp_path, {"segments": [gone], "device_traces": [[{"action": [], "addr": None}]]}).pools
    assert (gpu.name, gpu.reserved_bytes, gpu.used_bytes, gpu.peak_bytes) == ("cuda:0", 0, 0, 0)


def test_a_list_that_is_at_too_many_places_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_memory, "_MOST_VISITED", 5000)
    blocks = [block(n, 1, []) for n in range(100)]
    with pytest.raises(FormatError, match="more than 5,000 entries"):
        read(tmp_path, {"segments": [segment(0, blocks)] * 100})


def test_files_that_are_too_large_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large"
    path.write_bytes(pickle.dumps(snapshot()))
    monkeypatch.setattr(torch_memory, "MOST_BYTES", 100)
    with pytest.raises(CaptureError, match="larger than"):
        torch_memory.load([path])
    with pytest.raises(CaptureError, match="cannot be read"):
        torch_memory.load([tmp_path / "none"])
