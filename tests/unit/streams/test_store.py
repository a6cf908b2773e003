from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pinprof.base import files
from pinprof.base.errors import CaptureError, CollectError
from pinprof.base.shapes import Each, Facts
from pinprof.data.manifest import SHAPE
from pinprof.read import read
from pinprof.streams import store


def test_a_capture_gets_its_name_only_when_whole(tmp_path: Path) -> None:
    writer = store.CaptureWriter.create(tmp_path / "run", store.new_manifest(outcome={"state": "recording"}))
    assert writer.path.name == "run.pinprof.partial"
    assert store.read_manifest(writer.path).outcome["state"] == "recording"
    final = writer.finish(store.new_manifest(command=("a", "b"), outcome={"state": "complete"}))
    assert final == tmp_path / "run.pinprof"
    assert [path.name for path in final.iterdir()] == [store.MANIFEST]
    assert store.read_manifest(final) == store.new_manifest(command=("a", "b"), outcome={"state": "complete"})


def test_an_existing_capture_is_only_replaced_on_request(tmp_path: Path) -> None:
    store.CaptureWriter.create(tmp_path / "run.pinprof", store.new_manifest()).finish(store.new_manifest())
    with pytest.raises(CollectError, match="exists already"):
        store.CaptureWriter.create(tmp_path / "run.pinprof", store.new_manifest())
    again = store.CaptureWriter.create(tmp_path / "run.pinprof", store.new_manifest(), force=True)
    assert again.finish(store.new_manifest()).is_dir()


def test_force_never_deletes_what_is_no_capture(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.pinprof"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(CollectError, match="not a pinprof capture"):
        store.CaptureWriter.create(precious, store.new_manifest(), force=True)
    assert (precious / "thesis.tex").is_file()


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CollectError, match="cannot be written"):
        store.CaptureWriter.create(tmp_path / "file" / "run", store.new_manifest())


def test_an_unknown_schema_version_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / store.MANIFEST).write_text(json.dumps({"schema_version": store.SCHEMA_VERSION + 1}))
    with pytest.raises(CaptureError, match=f"version {store.SCHEMA_VERSION + 1}"):
        store.read_manifest(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\x00", '{"schema_version": "1"}'])
def test_a_broken_manifest_is_a_clean_error(content: str, tmp_path: Path) -> None:
    (tmp_path / store.MANIFEST).write_text(content)
    with pytest.raises(CaptureError):
        store.read_manifest(tmp_path)


@pytest.mark.parametrize(
    "content",
    ['{"schema_version": 1, "host": %s}' % ("[" * 100_000), '{"schema_version": 1, "host": {"a": NaN}}',
     '{"schema_version": 1, "outcome": {"duration_ns": 1e999}}', '{"schema_version": %s}' % ("9" * 5000)],
    ids=["deep", "nan", "infinite", "endless"],
)  # fmt: skip
def test_what_is_no_json_for_others_is_a_clean_error(content: str, tmp_path: Path) -> None:
    (tmp_path / store.MANIFEST).write_text(content)
    with pytest.raises(CaptureError, match=r"manifest\.json cannot be read"):
        store.read_manifest(tmp_path)


def test_facts_of_a_wrong_type_or_range_are_not_known(tmp_path: Path) -> None:
    """Whatever a report computes with or prints as a word is one; everything else is kept."""
    wrong = {
        "schema_version": store.SCHEMA_VERSION,
        "command": ["ls", 7],
        "scenario": {"name": 7, "backend": "cuda", "calls": {"alloc": {}, "h2d": "cudaMemcpy"},
                     "parameters": {"size_bytes": 1 << 64, "iterations": -1, "device": 0}},
        "host": {"page_bytes": 0, "cpu": [1], "gpus": [3, {"name": "A", "link_width": -1}], "new": {"fact": 1}},
        "collectors": [7, {"name": "perf", "pid": -(1 << 70), "command": 5, "call_overhead_ns": {"inside": "x"}}],
        "outcome": {"notes": "none", "counters": {"pgfault": -1}, "state": "complete"},
    }  # fmt: skip
    (tmp_path / store.MANIFEST).write_text(json.dumps(wrong))
    found = store.read_manifest(tmp_path)
    assert found.command == ()
    assert found.scenario == {"backend": "cuda", "calls": {"h2d": "cudaMemcpy"}, "parameters": {"device": 0}}
    assert found.host == {"gpus": [{"name": "A"}], "new": {"fact": 1}}
    assert found.collectors == ({"name": "perf", "call_overhead_ns": {}},)
    assert found.outcome == {"counters": {}, "state": "complete"}


def test_fields_of_the_wrong_type_are_read_as_empty(tmp_path: Path) -> None:
    edited = {"schema_version": store.SCHEMA_VERSION, "host": [], "command": "ls", "collectors": [1, {"name": "perf"}]}
    (tmp_path / store.MANIFEST).write_text(json.dumps(edited))
    expected = replace(store.new_manifest(collectors=({"name": "perf"},)), tool_version="unknown")
    assert store.read_manifest(tmp_path) == expected


def modes(directory: Path) -> set[str]:
    return {f"{stat.S_IMODE(path.stat().st_mode):o}" for path in directory.rglob("*") if path.is_file()}


def test_a_capture_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        writer = store.CaptureWriter.create(tmp_path / "run", store.new_manifest())
        assert stat.S_IMODE(writer.path.stat().st_mode) == 0o700
        assert modes(writer.path) == {"600"}
        final = writer.finish(store.new_manifest())
    finally:
        os.umask(before)
    assert stat.S_IMODE(final.stat().st_mode) == 0o700
    assert modes(final) == {"600"}


def test_a_capture_that_is_being_recorded_is_never_replaced(tmp_path: Path) -> None:
    writer = store.CaptureWriter.create(tmp_path / "run", store.new_manifest())
    with pytest.raises(CollectError, match="in use by another"):
        store.CaptureWriter.create(tmp_path / "run", store.new_manifest(), force=True)
    assert store.is_capture(writer.path)
    # What a forked child still holds is not a recording.
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        writer.finish(store.new_manifest())
        store.CaptureWriter.create(tmp_path / "run", store.new_manifest(), force=True).finish(store.new_manifest())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_capture_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    left = tmp_path / "run.pinprof.partial"
    left.mkdir()
    (left / store.MANIFEST).write_text("{}")
    store.CaptureWriter.create(tmp_path / "run", store.new_manifest(), force=True).finish(store.new_manifest())
    assert not left.exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["run.pinprof", "run.pinprof.partial"])
def test_a_link_at_the_place_of_a_capture_is_left_alone(name: str, force: bool, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(CollectError, match=r"exists already|not a pinprof capture"):
        store.CaptureWriter.create(tmp_path / "run", store.new_manifest(), force=force)
    assert (tmp_path / name).is_symlink()


def test_what_took_the_name_meanwhile_costs_no_recording(tmp_path: Path) -> None:
    writer = store.CaptureWriter.create(tmp_path / "run", store.new_manifest())
    (tmp_path / "run.pinprof").write_text("somebody else's")
    kept = writer.finish(store.new_manifest(command=("a",)))
    assert store.read_manifest(kept).command == ("a",)
    assert (tmp_path / "run.pinprof").read_text() == "somebody else's"


def test_a_full_disk_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "written", full)
    with pytest.raises(CollectError) as told:
        store.CaptureWriter.create(tmp_path / "run", store.new_manifest())
    assert told.value.slug == "disk-full"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "link to a folder", "fifo", "socket"])
@pytest.mark.parametrize("name", [store.MANIFEST, store.PERF_DATA, store.RANGES, "nvtx/1.bin", store.NVTX])
def test_links_and_fifos_inside_a_capture_are_refused(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"name": "precious", "start_ns": 1, "end_ns": 2}\n')
    capture = store.CaptureWriter.create(tmp_path / "c", store.new_manifest()).finish(store.new_manifest())
    place = capture / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        # A socket's path has 107 bytes at most, wherever temporary files lie.
        monkeypatch.chdir(place.parent)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(place.name)
    else:
        place.symlink_to(victim if kind == "link" else tmp_path)
    with pytest.raises(CaptureError) as told:
        read(capture)
    assert told.value.slug == "irregular-file"
    assert place.name in told.value.problem


def _fields(shape: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a manifest may hold a field; of a list, in its first element."""
    if isinstance(shape, Facts):
        for name, inner in shape.fields.items():
            yield (*place, name)
            yield from _fields(inner, (*place, name))
    elif isinstance(shape, Each):
        yield from _fields(shape.shape, (*place, 0))


def _null_at(place: tuple[str | int, ...]) -> Any:
    """A document that has nothing but null at a place."""
    value: Any = None
    for at in reversed(place):
        value = [value] if at == 0 else {at: value}
    return value


def test_a_field_that_is_null_is_as_one_that_is_not_there(tmp_path: Path) -> None:
    places = list(_fields(SHAPE))
    assert {("collectors", 0, "command"), ("outcome", "exit_status"), ("host", "gpus", 0, "name")} < set(places)
    for place in places:
        (tmp_path / store.MANIFEST).write_text(json.dumps({"schema_version": 1, **_null_at(place)}))
        assert "null" not in json.dumps(asdict(store.read_manifest(tmp_path))), place


def test_labels_are_kept_and_others_than_text_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    store.write_manifest(tmp_path, store.new_manifest(labels={"host": "n1"}))
    assert store.read_manifest(tmp_path).labels == {"host": "n1"}
    facts = json.loads((tmp_path / store.MANIFEST).read_text()) | {"labels": {"host": 7, "job": "x"}}
    (tmp_path / store.MANIFEST).write_text(json.dumps(facts))
    assert store.read_manifest(tmp_path).labels == {"job": "x"}
