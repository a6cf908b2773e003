"""Whether `pinprof fleet` finds what is planted in a large fleet, and how its cost grows.

usage: python -m tests.truth.fleet make FOLDER [--captures 1010]
       python -m tests.truth.fleet judge FOLDER [--captures 1010] [--workers 2] [--memory 4GB]
       python -m tests.truth.fleet alike FOLDER [--work FOLDER]
       python -m tests.truth.fleet changes FOLDER [STORE] [--times 200]
       python -m tests.truth.fleet grow FOLDER STORE [--sizes 1000,3000,10000]

`make` writes a fleet made from committed captures (tests/support/fleet_captures.py): 20 stragglers, one driver version
that is slow in CUDA's calls, one NUMA node that is slow in all, 5 damaged files. The last ten captures are held back.
`judge` asks `pinprof fleet` for the rest, then for all, and says what was found, what was missed, what is false, and
what it took.

`alike` asks for the fleet in one process, by processes of this machine, and by a Dask scheduler with two workers; one
of these is killed when half of the captures are done; it says whether all three give the same answer, to the byte.

`changes` deals the captures' work out over the dates anew, so that nothing changes with time, and says how often a
change is reported all the same. Then one program takes longer from a date on, by chance: how often that is found there.

`grow` simulates larger fleets: it maps nothing, but has a Dask scheduler run one task a capture that hands out tables
of `STORE`, and answers from copies of them under other names. It prints time and memory of scheduler and reduce.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from pinprof.fleet import answer, database, tables
from pinprof.fleet.engine import _distributed
from pinprof.fleet.mapping import MappedCapture
from pinprof.fleet.panel import panel_of
from pinprof.fleet.sources import Source
from pinprof.fleet.store import BATCH, CapturePlace, Store
from pinprof.fleet.trends import FEWEST as FEWEST_IN_SERIES
from pinprof.fleet.trends import series_of
from pinprof.report.fleet.sections import FORMS
from pinprof.report.page import html
from tests.support.dask_cluster import cluster
from tests.support.fleet_captures import BAD_HOST, BAD_NODE, BASES, SLOW_DRIVER, Plan, bases_of, make, plan

HELD_BACK = 10


def planned(count: int) -> Plan:
    """The fleet of this size."""
    return plan(count, 20, 5, 25)


def _make(folder: Path, count: int, part: int, parts: int) -> None:
    fleet = planned(count)
    names = list(fleet.captures)
    here = names[part : count - HELD_BACK : parts]
    bases = bases_of(BASES, folder / f"bases-{part}")
    make(fleet, bases, folder / "captures", here)
    if not part:
        make(fleet, bases, folder / "held-back", names[count - HELD_BACK :])


def make_all(folder: Path, count: int) -> None:
    """Write the fleet, in as many processes as there are processors."""
    parts = len(os.sched_getaffinity(0))
    with get_context("spawn").Pool(parts) as pool:
        pool.starmap(_make, [(folder, count, part, parts) for part in range(parts)])


def judge(folder: Path, count: int, workers: int, memory: str) -> bool:
    """Ask for the fleet twice; whether all that is planted is found, with at most five that is not."""
    good = True
    for given in ((folder / "captures",), (folder / "captures", folder / "held-back")):
        began = time.monotonic()
        command = [sys.executable, "-m", "pinprof", "fleet", *map(str, given), "--store", str(folder / "store")]
        command += ["--workers", str(workers), "--memory", memory]
        subprocess.run([*command, "-o", str(folder / "fleet.html")], check=True, stdout=subprocess.DEVNULL)
        took = time.monotonic() - began
        subprocess.run([*command, "-o", str(folder / "fleet.json")], check=True)
        found = json.loads((folder / "fleet.json").read_text())
        page = (folder / "fleet.html").stat().st_size
        good &= _told(planned(count), found, took, page)
    return good


def alike(folder: Path, work: Path) -> bool:
    """Ask for the fleet in three ways, each with a store of its own; whether the answers are the same."""
    captures = folder / "captures"
    half = sum(1 for _ in captures.glob("*/*")) // 2
    serial = _asked(captures, work / "serial", "--workers", "0")
    local = _asked(captures, work / "local", "--workers", "2", "--memory", "4GB")
    with cluster(work) as (address, workers):
        killer = Thread(target=_kill_when, args=(work / "scheduler", half, workers[0]), daemon=True)
        killer.start()
        scheduled = _asked(captures, work / "scheduler", "--scheduler", address)
        status = workers[0].poll()
    print(f"The killed worker ended with {status}; alike: processes {local == serial}, scheduler {scheduled == serial}")
    return status == -signal.SIGKILL and serial == local == scheduled


def _asked(captures: Path, store: Path, *options: str) -> bytes:
    """The answer's JSON, by a store that is new."""
    store.mkdir(parents=True)
    output, began = store.with_suffix(".json"), time.monotonic()
    command = [sys.executable, "-m", "pinprof", "fleet", str(captures), "--store", str(store), "-o", str(output)]
    subprocess.run([*command, *options], check=True)
    answer = output.read_bytes()
    print(f"{store.name}: {json.loads(answer)['captures']:,} captures in {time.monotonic() - began:.1f} s", flush=True)
    return answer


def changes(store: Path, times: int) -> bool:
    """Change points by chance, and planted ones; whether at most one in twenty is false and nine in ten are found."""
    panel, random, good = panel_of(database.connect(store)), np.random.default_rng(1), True
    rows = [np.flatnonzero(panel.program == at) for at in range(len(panel.programs))]
    rows = [mine for mine in rows if len(mine) >= 2 * FEWEST_IN_SERIES]
    for factor in (1.0, 1.05, 1.1, 1.2):
        found, false, off = 0, 0, []
        for _ in range(times):
            residual = panel.residual.copy()
            for at in range(len(panel.programs)):
                mine = np.flatnonzero(panel.program == at)
                residual[mine] = residual[random.permutation(mine)]
            changed = rows[random.integers(len(rows))]
            where = int(random.uniform(0.25, 0.75) * len(changed))
            residual[changed[where:], 0] += np.log(factor)
            name = panel.programs[panel.program[changed[0]]]
            for series in series_of(replace(panel, residual=residual)):
                near = [abs(one.before - where) for one in series.changes[:1]] if series.program == name else []
                found += bool(near) and factor > 1
                off += near if factor > 1 else []
                # The series of all programs holds the changed one as well.
                false += (
                    len(series.changes) if factor == 1 else bool(series.program not in ("", name) and series.changes)
                )
        away = np.median(off) if off else 0
        print(
            f"{factor:.2f} times: found in {found} of {times}, in the median {away:.0f} captures from where it is; "
            f"elsewhere {false} in {times} fleets of {len(panel.capture)} captures",
            flush=True,
        )
        good &= false <= times // 20 and (factor < 1.1 or found >= 0.9 * times)
    return good


def _kill_when(store: Path, many: int, worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker as soon as so many captures lie in the store."""
    while sum(parquet.read_metadata(rows).num_rows for rows in store.glob(f"*/{BATCH}*/captures.parquet")) < many:
        time.sleep(0.05)
    worker.kill()


def _told(fleet: Plan, found: dict[str, Any], took: float, page: int) -> bool:
    there = {Path(one["capture"]).name for one in found["members"]}
    stragglers = fleet.stragglers & there
    alone = {Path(one["capture"]).name for one in found["outliers"] if one["capture"]}
    groups = {(one["dimension"], one["group"]) for one in found["outliers"] if one["group"]}
    wanted = {("driver", SLOW_DRIVER), ("NUMA node of host", f"{BAD_HOST} node {BAD_NODE}")}
    false = len(alone - stragglers) + len(groups - wanted)
    print(
        f"{found['captures']:,} captures in {took:.1f} s, page {page / 1e6:.2f} MB: {len(stragglers & alone)} of "
        f"{len(stragglers)} stragglers, {len(wanted & groups)} of 2 groups, {len(found['unreadable'])} unreadable, "
        f"{false} false: {sorted(alone - stragglers)} {sorted(groups - wanted)}"
    )
    return stragglers <= alone and wanted <= groups and false <= 5


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _copied(source: Source, _: str) -> MappedCapture:
    """In place of mapping: the tables that lie in a folder."""
    return MappedCapture(source.path, source.stamp, source.stamp, _tables_in(source.url))


@cache
def _tables_in(folder: str) -> dict[str, bytes]:
    return {name: Path(folder, f"{name}.parquet").read_bytes() for name in tables.COLUMNS}


def grow(folder: Path, store: Path, sizes: list[int]) -> None:
    """Print the table of growth."""
    print("| captures | scheduler s | scheduler MB | store MB | reduce s | reduce MB |")
    print("|---|---|---|---|---|---|")
    for size in sizes:
        scheduled = _apart(_scheduled, folder, store, size)
        written = _apart(_written, folder / f"store-{size}", store, size)
        reduced = _apart(_reduced, folder / f"store-{size}")
        figures = (f"{scheduled[0]:.1f}", scheduled[1], written, f"{reduced[0]:.1f}", reduced[1])
        print(f"| {size:,} | {' | '.join(map(str, figures))} |", flush=True)


def _apart(what: Callable[..., Any], *arguments: object) -> Any:
    """What a function returns in a process of its own, so that memory is its own as well."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(what, *arguments).result()


def _scheduled(folder: Path, store: Path, size: int) -> tuple[float, int]:
    """How long so many tasks take that do nothing but return what a capture becomes, and the scheduler's memory."""
    import distributed

    from pinprof.fleet import engine

    place = folder / "one"
    place.mkdir(parents=True, exist_ok=True)
    batch = next(iter((store / tables.KEY).glob(f"{BATCH}*")))
    for name in tables.COLUMNS:
        rows = parquet.read_table(batch / f"{name}.parquet")
        (place / f"{name}.parquet").write_bytes(tables.to_parquet(rows.slice(0, len(rows) // 64 + 1)))
    engine.map_source = _copied  # type: ignore[assignment]
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        began = time.monotonic()
        sources = [Source(f"c{number}", f"c{number}", str(place)) for number in range(size)]
        count = sum(1 for _ in _distributed(client, sources))
        assert count == size
        # Scheduler and client are this process.
        return time.monotonic() - began, _peak_mb()


def _written(target: Path, store: Path, size: int) -> int:
    """A store of so many captures, in batches as many as real ones make; its size in MB."""
    batches = [
        {name: parquet.read_table(batch / f"{name}.parquet") for name in tables.COLUMNS}
        for batch in sorted((store / tables.KEY).glob(f"{BATCH}*"))
    ]
    whole = sum(len(batch["captures"]) for batch in batches)
    names: list[str] = []
    with Store(target) as opened:
        for again in range(-(-size // whole)):
            for number, batch in enumerate(batches):
                folder = opened.folder / f"{BATCH}{again}-{number}"
                folder.mkdir(exist_ok=True)
                for name, rows in batch.items():
                    copied = [f"{capture}-{again}" for capture in rows.column("capture").to_pylist()]
                    names += copied if name == "captures" else []
                    renamed = rows.set_column(0, rows.schema.field("capture"), pa.array(copied, pa.string()))
                    (folder / f"{name}.parquet").write_bytes(tables.to_parquet(renamed))
        opened.finish([CapturePlace(f"/captures/{name}.pinprof", name, name) for name in names[:size]])
    return sum(file.stat().st_size for file in target.rglob("*.parquet")) >> 20


def _reduced(store: Path) -> tuple[float, int]:

    began = time.monotonic()
    found = answer.answer_of(database.connect(store))
    page = html.render(FORMS.of(found))
    assert page
    return time.monotonic() - began, _peak_mb()


def main() -> None:
    """See the module's words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "judge", "alike", "changes", "grow"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path, nargs="?")
    parser.add_argument("--work", type=Path, help="Where `alike` keeps its stores (default: in FOLDER).")
    parser.add_argument("--captures", type=int, default=1010)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--sizes", default="1000,3000,10000")
    given = parser.parse_args()
    if given.what == "make":
        make_all(given.folder, given.captures)
    elif given.what == "judge":
        sys.exit(not judge(given.folder, given.captures, given.workers, given.memory))
    elif given.what == "alike":
        sys.exit(not alike(given.folder, given.work or given.folder / "alike"))
    elif given.what == "changes":
        sys.exit(not changes(given.store or given.folder / "store", given.times))
    else:
        grow(given.folder, given.store or given.folder / "store", [int(size) for size in given.sizes.split(",")])


if __name__ == "__main__":
    main()
