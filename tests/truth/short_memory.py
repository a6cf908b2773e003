"""Programs where memory is short, and the cause that the report names for each.

usage: python -m tests.truth.short_memory [NAME…] [--limit 512] [--keep FOLDER]

Each program of churned.c runs three times in such a place and three times without what is short, in turns, and is
recorded there once: the recorder stands under the same limit, as in a container. Each run has a place of its own, since
a run leaves whole pages behind. Printed is a table: what both runs take, what the opportunity with the right cure
promises, its rank, and whether it names the right line. Wrong is also whatever asks for huge pages or maps all pages at
once, which would need more memory. Exit status 1 where something is wrong. The folder for temporary files has to be on
a disk; control groups and the splintered host take root, and the latter drops the machine's page cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pinprof.collect.host import meminfo, numa_nodes
from tests.cases.measure import PINPROF, Promise, recorded
from tests.cases.programs import Program, seconds
from tests.support.pressed import MIB, Unable, in_memory, inside, limited, written

SOURCE = Path(__file__).with_name("churned.c")
RUNS = 3
TIMES_LIMIT = 2
"""A file that is so much larger than the limit."""
LEFT = 1 << 30
"""Free memory that stays whole where the rest is splintered, in bytes."""
LEAST_FREE = 6 << 30
"""Free memory that is enough to be splintered."""
HUGE = 3 << 10
"""The memory that asks for huge pages, in MiB: more than stays whole."""
WORTH = 0.1
"""The share that a cure may save which is said not to be worth it: two of these runs differ by that."""
NEEDS_MEMORY = ("huge-pages", "map-at-once")


@dataclass(frozen=True)
class Case:
    """One place with a program."""

    name: str
    cure: str
    """What answers the shortage."""
    words: Callable[[Path], list[str]]
    """The program's arguments, by its folder."""
    place: Callable[[Path], AbstractContextManager[Path | None]]
    """Makes memory short; a control group to run in, or None."""
    plenty: Callable[[Path], list[str]] | None = None
    """The arguments of what runs without the shortage; None for the same ones."""
    cured: bool = False
    """Whether these run in the same place, as the cure."""


def cases(limit: int) -> tuple[Case, ...]:
    """All, under a limit in bytes."""

    def weights(folder: Path) -> list[str]:
        return ["weights", str(folder / "file")]

    def huge(_: Path) -> list[str]:
        return ["huge", str(HUGE)]

    def group(folder: Path) -> AbstractContextManager[Path]:
        written(folder / "file", TIMES_LIMIT * limit)
        return limited(limit)

    @contextmanager
    def cold(folder: Path) -> Iterator[None]:
        written(folder / "file", limit)
        yield None

    return (
        Case("mapped file above the limit", "memory-limit", weights, group),
        Case("new memory beside a cached file", "memory-limit", lambda folder: ["beside", *weights(folder)[1:]], group),
        Case("mapped file on the disk", "read-ahead", weights, cold, lambda folder: [*weights(folder), "ahead"]),
        Case("splintered host", "defer-compaction", huge, splintered, lambda folder: [*huge(folder), "small"], True),
        Case("far node", "bind-memory", huge, far),
    )


@contextmanager
def splintered(folder: Path) -> Iterator[None]:
    """Free memory lies in small pieces, but for LEFT."""
    if os.geteuid():
        raise Unable("takes root")
    # The kernel gives the pages of the cache to the program instead of making room.
    Path("/proc/sys/vm/drop_caches").write_text("1")
    free = meminfo("MemFree") or 0
    if free < LEAST_FREE:
        raise Unable("takes free memory")
    words = [*program(folder), "splinter", str((free - LEFT) // MIB)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as taker:
        try:
            Path(f"/proc/{taker.pid}/oom_score_adj").write_text("1000")
            assert taker.stdout is not None
            if not taker.stdout.readline():
                raise Unable("the memory could not be had")
            yield None
        finally:
            taker.kill()


def far(_: Path) -> AbstractContextManager[None]:
    """The program's processor and its memory are free to be on different nodes."""
    if (numa_nodes() or 1) < 2:
        raise Unable("this machine has one node")
    return nullcontext()


def program(folder: Path) -> list[str]:
    """What starts the program, built where it is first needed."""
    return Program(SOURCE).command(folder, sys.executable)


def guilty(kind: str) -> int:
    """The number of the line that waits."""
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"// GUILTY: {kind}"))


def judged(case: Case, folder: Path) -> tuple[list[str], bool]:
    """A row of the table, and whether all of it is right.

    Raises:
        Unable: this machine has no such place.
    """
    words = case.words(folder)
    command = [*program(folder), *words]
    plenty = [*program(folder), *(case.plenty or case.words)(folder)]
    times, without = [], []
    for _ in range(RUNS):
        with case.place(folder) as group:
            times.append(_timed(folder, _within(group, *command)))
        with case.place(folder) if case.cured else nullcontext():
            without.append(_timed(folder, plenty))
    short = statistics.median(times)
    with case.place(folder) as group:
        _drop(folder)
        said = recorded(command, folder / "short.pinprof", folder, _within(group, *PINPROF))
    saved = short - statistics.median(without)
    text, right = _refused(case, words[0], said, saved / short) or _said(case, words[0], said)
    return [case.name, f"{short:.2f} s", f"{saved:.2f} s", *text], right


def _within(group: Path | None, *command: str) -> list[str]:
    return list(command) if group is None else inside(group, *command)


def _timed(folder: Path, command: list[str]) -> float:
    _drop(folder)
    return seconds(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _drop(folder: Path) -> None:
    if (folder / "file").exists():
        in_memory(folder / "file")


def _refused(case: Case, kind: str, said: Promise, saved: float) -> tuple[list[str], bool] | None:
    """Where the cure is said to save nothing worth changing; `saved` is the share that it saves."""
    named = [one for one in said.refused if f"({case.cure})" in one["reason"]]
    if not named:
        return None
    right = named[0]["site"]["line"] == guilty(kind) and saved < WORTH
    verdict = "named, not worth changing" if right else f"**wrong**: {named[0]['reason']}"
    return [named[0]["reason"].partition(":")[0], f"`{case.cure}`", verdict], right


def _said(case: Case, kind: str, said: Promise) -> tuple[list[str], bool]:
    needs = {one["cure"]["id"] for one in said.opportunities} & set(NEEDS_MEMORY)
    named = [one for one in said.opportunities if one["cure"]["id"] == case.cure]
    if not named or needs:
        return ["–", "–", f"**wrong**: {said.headline}"], False
    low, likely, high = (named[0]["saving_ns"][key] / 1e9 for key in ("low", "likely", "high"))
    right = named[0]["site"]["line"] == guilty(kind)
    verdict = f"named, {named[0]['rank']} of {len(said.opportunities)}" if right else f"**wrong line**: {said.headline}"
    return [f"{likely:.2f} s ({low:.2f}–{high:.2f})", f"`{case.cure}`", verdict], right


def main() -> int:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description="What reports say where memory is short.")
    parser.add_argument("names", nargs="*", help="words of the names of cases; all without")
    parser.add_argument("--limit", type=int, default=512, help="MiB that a control group may use")
    parser.add_argument("--keep", type=Path, help="where programs and captures stay")
    asked = parser.parse_args()
    wrong = 0
    print("| place | as is | without it | promised | cure | judged |\n|---|---:|---:|---:|---|---|")
    with tempfile.TemporaryDirectory() as made:
        folder = (asked.keep or Path(made)).resolve()
        folder.mkdir(exist_ok=True)
        for case in cases(asked.limit * MIB):
            if asked.names and not set(asked.names) & set(case.name.split()):
                continue
            try:
                row, right = judged(case, folder)
            except Unable as error:
                row, right = [case.name, "–", "–", "–", "–", f"not here: {error}"], True
            wrong += not right
            print(f"| {' | '.join(row)} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
