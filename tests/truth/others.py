"""Public programs that nobody wrote for pinprof, and what the report says of each unasked.

usage: python -m tests.truth.others SOURCES PYTHON [NAME…] [--keep FOLDER] [--tries]

others.toml has the programs and where they come from. Each is recorded once with plain `pinprof record`, and its
answer is printed: a person judges it. With `--tries`, a promise of more than 2 % that a setting keeps is tried: the
program runs in turns with and without.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.cases.measure import PINPROF
from tests.truth.healthy import MOST_SHARE, saved

LIMIT_S = 240
HERE = Path(__file__).parent


def programs(python: str) -> dict[str, tuple[str, list[str]]]:
    """Name → the folder of its sources, and the command."""
    table = tomllib.loads((HERE / "others.toml").read_text())
    packages = str(next(Path(python).parents[1].glob("lib/python3*/site-packages"), ""))
    places = {"python": python}
    return {
        name: (folder, [places.get(word, word.replace("PACKAGES", packages)) for word in shlex.split(command)])
        for folder, commands in table.items()
        for name, command in commands.items()
    }


def answer(words: Sequence[str], folder: Path, capture: Path) -> dict[str, Any]:
    """The report of one recording of a command, as JSON.

    Raises:
        RuntimeError: pinprof fails, or made no capture.
    """
    record = [*PINPROF, "record", "--no-report", "--force", "-o", str(capture), "--", *words]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    try:
        done = subprocess.run(
            record, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"it takes more than {LIMIT_S} s") from error
    if not capture.exists():
        raise RuntimeError(done.stderr[-400:])
    if done.returncode:
        print(f"    status {done.returncode}: {done.stderr[-200:]!r}")
    report = [*PINPROF, "report", "--format", "json", str(capture)]
    said = subprocess.run(report, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if said.returncode:
        raise RuntimeError(said.stderr[-400:])
    document: dict[str, Any] = json.loads(said.stdout)
    return document


def lines(document: dict[str, Any], words: Sequence[str], folder: Path, *, tries: bool) -> Iterator[str]:
    """What the report promises, largest first, each with what a trial of its setting says."""
    yield f"{document['headline']}"
    for one in document.get("opportunities", []):
        low, likely, high = (one["saving_ns"][key] / 1e9 for key in ("low", "likely", "high"))
        site = one["site"]
        cure = f"{one['cure']['id']} {one['cure']['option']}".rstrip()
        yield f"  {one['title']} | {cure} | {low:.3f} – {likely:.3f} – {high:.3f} s"
        yield f"      {site['file']}:{site['line']} of {one['phase']}"
        setting = one["cure"]["environment"]
        if tries and setting and likely > MOST_SHARE * _work(document):
            yield f"      {setting} saves {saved(words, setting, folder):.3f} s of CPU time"


def _work(document: dict[str, Any]) -> float:
    return sum(phase["wall_ns"] for phase in document["phases"] if phase["name"] == "work") / 1e9


def main() -> None:
    """Record those that are named, or all."""
    parser = argparse.ArgumentParser(description="What reports say of programs that nobody wrote for pinprof.")
    parser.add_argument("sources", type=Path)
    parser.add_argument("python", help="the interpreter that has the packages")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=Path, help="where captures stay")
    parser.add_argument("--tries", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        kept = (asked.keep or Path(made)).resolve()
        kept.mkdir(exist_ok=True)
        for name, (where, words) in programs(asked.python).items():
            if asked.names and name not in asked.names:
                continue
            folder = asked.sources / where
            try:
                document = answer(words, folder, kept / f"{name}.pinprof")
                for line in lines(document, words, folder, tries=asked.tries):
                    print(f"{name}: {line}", flush=True)
            except RuntimeError as error:
                print(f"{name}: not recorded. {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
