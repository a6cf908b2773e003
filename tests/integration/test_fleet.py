"""A small fleet with planted trouble, from captures to the answer: in one process, by Dask, out of an object store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import pinprof
from pinprof.base.errors import PinprofError
from pinprof.fleet import engine
from pinprof.fleet.mapping import MappedCapture
from tests.support.command import pinprof as command
from tests.support.dask_cluster import cluster
from tests.support.fleet_captures import BAD_HOST, BAD_NODE, SLOW_DRIVER, Plan, bases_of, make, plan
from tests.support.schemas import problems

BASES = ("staged_h2d", "thrash")


@dataclass
class Fleet:
    """The captures, what is planted, and a store of all."""

    plan: Plan
    folder: Path
    store: Path
    found: dict[str, Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    planned = plan(60, 2, 4, 4, BASES, seed=3)
    make(planned, bases_of(BASES, folder / "bases"), folder / "captures")
    return Fleet(planned, folder / "captures", folder / "store", asked(folder / "captures", folder / "store"))


def asked(captures: Path | str, store: Path, *options: str) -> dict[str, Any]:
    store.mkdir(exist_ok=True)
    output = store / "answer.json"
    done = command("fleet", captures, "--store", store, "-o", output, *(options or ("--workers", "0")))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(output.read_text()))


def test_what_is_planted_stands_out_and_nothing_else(fleet: Fleet) -> None:
    groups = {(one["dimension"], one["group"]) for one in fleet.found["outliers"] if one["group"]}
    assert ("driver", SLOW_DRIVER) in groups
    assert ("NUMA node of host", f"{BAD_HOST} node {BAD_NODE}") in groups
    alone = {Path(one["capture"]).name for one in fleet.found["outliers"] if one["capture"]}
    assert fleet.plan.stragglers <= alone
    assert len(groups) + len(alone) <= 2 + len(fleet.plan.stragglers) + 1
    for one in fleet.found["outliers"]:
        assert one["p"] <= 0.05
        assert one["value"] > one["expected"]
    straggler = next(one for one in fleet.found["outliers"] if Path(one["capture"] or "").name in fleet.plan.stragglers)
    assert " at " in straggler["because"][0]["what"]


def test_its_json_fits_the_schema(fleet: Fleet) -> None:
    assert problems("fleet", fleet.found) == []


def test_captures_that_cannot_be_read_are_rows_with_their_reason(fleet: Fleet) -> None:
    reasons = {Path(one["capture"]).name: one["reason"] for one in fleet.found["unreadable"]}
    assert set(reasons) == set(fleet.plan.damaged)
    assert all(reasons.values())
    assert fleet.found["captures"] == 60


def test_what_was_mapped_stays_mapped_and_new_captures_join(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[str] = []
    original = engine.map_source
    monkeypatch.setattr(engine, "map_source", lambda source: mapped.append(source.path) or original(source))
    moved, store = tmp_path / "moved", tmp_path / "store"
    shutil.copytree(fleet.store, store)
    assert asked(fleet.folder, store) == fleet.found
    assert mapped == []
    # Elsewhere, and touched: by its content it is the same.
    shutil.copytree(fleet.folder / "h00", moved)
    found = asked(moved, store)
    assert mapped == []
    assert found["captures"] == len(list(moved.iterdir()))
    kept = min(moved.iterdir())
    manifest = json.loads((kept / "manifest.json").read_text())
    (kept / "manifest.json").write_text(json.dumps(manifest | {"labels": {"host": "new"}}))
    shutil.copytree(sorted(moved.iterdir())[1], moved / "copy.pinprof")
    found = asked(moved, store)
    assert mapped == [str(kept)]
    assert found["copies"] == 1


def test_tables_are_asked_in_sql_and_from_python(fleet: Fleet, tmp_path: Path) -> None:
    output = tmp_path / "rows.json"
    done = command("fleet", fleet.folder, "--store", fleet.store, "--workers", "0", "-o", output, "--sql",
                   "SELECT state, count(*) AS n FROM captures GROUP BY state ORDER BY n")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(output.read_text()) == [{"state": "unreadable", "n": 4}, {"state": "read", "n": 56}]
    opened = pinprof.open_fleet(fleet.store)
    assert len(opened.captures) == 60
    wall = opened.sql("SELECT sum(weight) AS ns FROM costs WHERE measure = 'wall' AND phase = 'work'").ns[0]
    assert wall == pytest.approx(opened.captures.work_ns.sum(), rel=0.01)
    with pytest.raises(PinprofError, match="The SQL query failed"):
        opened.sql("SELECT nothing FROM nowhere")


def test_a_page_has_links_to_the_pages_of_what_stands_out(fleet: Fleet, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    done = command("fleet", fleet.folder, "--store", fleet.store, "--workers", "0", "-o", page, "--pages", "1")
    assert done.returncode == 0, done.stderr
    assert SLOW_DRIVER in done.stdout
    assert page.stat().st_size < 1_000_000
    written = list((tmp_path / "fleet.pages").glob("*.html"))
    assert written
    for one in written:
        assert f'href="fleet.pages/{one.name}"' in page.read_text()


def test_hostile_names_labels_and_paths_reach_no_output_as_they_are(fleet: Fleet, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>\x1b]0;owned\x07"
    whole = next(path for path in sorted((fleet.folder / "h00").iterdir()) if path.name not in fleet.plan.damaged)
    long = tmp_path / ("d" * 200) / ("e" * 200)
    target = long / f"{bad.replace('/', '')}.pinprof"
    shutil.copytree(whole, target)
    manifest = json.loads((target / "manifest.json").read_text())
    manifest |= {"labels": {bad: bad, "host": bad}, "command": [bad, bad]}
    (target / "manifest.json").write_text(json.dumps(manifest))
    page = tmp_path / "fleet.html"
    done = command("fleet", long, "--store", tmp_path / "store", "-o", page)
    assert done.returncode == 0, done.stderr
    assert "<img" not in page.read_text()
    assert "\x1b" not in done.stdout + page.read_text()
    assert asked(long, tmp_path / "store")["members"][0]["capture"] == str(target)
    text = command("fleet", long, "--store", tmp_path / "store", "-o", tmp_path / "fleet.txt", "--format", "text")
    assert text.returncode == 0
    assert "\x1b" not in (tmp_path / "fleet.txt").read_text()


def test_a_scheduler_gives_the_same_answer_though_a_worker_dies(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[MappedCapture] = []
    original = engine._result

    with cluster(tmp_path) as (address, workers):

        def counted(future: Any, source: Any) -> MappedCapture:
            done.append(original(future, source))
            if len(done) == 30:
                os.kill(workers[0].pid, signal.SIGKILL)
            return done[-1]

        monkeypatch.setattr(engine, "_result", counted)
        assert asked(fleet.folder, tmp_path / "store", "--scheduler", address) == fleet.found
        assert workers[0].wait(60) == -signal.SIGKILL
    assert len(done) == 60


def test_the_order_in_which_captures_were_mapped_changes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    answers = []
    for step in (1, -1):
        store = tmp_path / f"store{step}"
        shutil.copytree(fleet.store, store)
        for file in store.rglob("*.parquet"):
            rows = parquet.read_table(file)
            # Cures that save equally much: which capture is named as their example?
            listed = [row | {"saving_ns": 0} if "saving_ns" in row else row for row in rows.to_pylist()]
            parquet.write_table(pa.Table.from_pylist(listed[::step], rows.schema), file)
        answers.append(asked(fleet.folder, store))
    assert answers[0] == answers[1]


def test_captures_in_an_object_store(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3")
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_DEFAULT_REGION", "us-east-1"),
                        ("AWS_ENDPOINT_URL", endpoint)):  # fmt: skip
        monkeypatch.setenv(name, value)
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="captures")
        some = sorted(path for path in (fleet.folder / "h01").iterdir())[:6]
        for path in (file for one in some for file in ([one] if one.is_file() else one.iterdir())):
            client.upload_file(str(path), "captures", str(path.relative_to(fleet.folder)))
        store = tmp_path / "store"
        found = asked("s3://captures/h01", store)
        assert [one["capture"] for one in found["members"]] + [one["capture"] for one in found["unreadable"]]
        assert {one["capture"] for one in (*found["members"], *found["unreadable"])} == {
            f"s3://captures/h01/{one.name}" for one in some
        }
        here = {Path(one["capture"]).name: one["work_ns"] for one in fleet.found["members"]}
        assert {Path(one["capture"]).name: one["work_ns"] for one in found["members"]}.items() <= here.items()
        monkeypatch.setattr(engine, "map_source", lambda source: pytest.fail("reads the captures again"))
        assert asked("s3://captures/h0*/*.pinprof", store)["captures"] == len(found["members"])
        refused = command("fleet", "s3://nowhere/", "--store", store, "--workers", "0")
        assert refused.returncode == 1
        assert "fleet-store" in refused.stderr or "fleet-empty" in refused.stderr
    finally:
        threading.Thread(target=server.stop).start()
