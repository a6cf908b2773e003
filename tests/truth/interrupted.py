"""What an interrupted `pinprof fix` leaves: SIGINT, SIGTERM and SIGKILL by turns, at random moments of a whole run.

usage: python -m tests.truth.interrupted [COUNT] [--seed 1] [--time 8s]

Nothing of it may stay: no process (all inherit a variable of the environment), no folder of pinprof where temporary
ones are made, no work tree, branch or change in the git repository of the program. Each is looked for until 30 s after
pinprof has ended. Ends with status 1 where something stayed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CASE = Path(__file__).parents[1] / "cases" / "fresh_temporaries.py"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_MARK = "PINPROF_INTERRUPTED"
_PATIENCE_S = 30.0


def git(folder: Path, *words: str) -> str:
    """What git says."""
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def state(project: Path) -> tuple[str, ...]:
    """All that git tells of a repository and its files."""
    asked = (("status", "--porcelain", "--ignored"), ("worktree", "list"), ("branch", "-a"), ("stash", "list"))
    return (*(git(project, *words) for words in asked), (project / "program.py").read_text())


def marked(mark: str) -> list[str]:
    """The processes that inherited a mark: what each runs."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"{_MARK}={mark}\0".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:90])
        except OSError:
            continue
    return found


def once(folder: Path, number: signal.Signals | None, after_s: float, time_: str) -> tuple[float, list[str]]:
    """One run, ended by a signal after a while; how long it took, and what stayed."""
    project, temporary = folder / "project", folder / "temporary"
    project.mkdir()
    temporary.mkdir()
    (project / "program.py").write_text(CASE.read_text().replace("STEPS = 768 << 10, 250", "STEPS = 768 << 10, 60"))
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    before = state(project)
    words = [sys.executable, "-P", "-m", "pinprof", "fix", "--time", time_, "--", sys.executable, "program.py"]
    given = {**os.environ, "TMPDIR": str(temporary), _MARK: str(folder), "PYTHONPATH": str(Path.cwd())}
    begun = time.monotonic()
    running = subprocess.Popen(
        words, cwd=project, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    if number is not None:
        time.sleep(after_s)
        running.send_signal(number)
    running.wait()
    took, until = time.monotonic() - begun, time.monotonic() + _PATIENCE_S
    while True:
        left = [f"process {one}" for one in marked(str(folder))]
        left += [f"folder {one.name}: {sorted(path.name for path in one.iterdir())}" for one in temporary.iterdir()]
        if not left or time.monotonic() > until:
            break
        time.sleep(0.1)
    return took, left + ([] if state(project) == before else ["a change of the repository"])


def main() -> None:
    """COUNT runs, after a whole one, which tells how long one is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", default="8s")
    asked = parser.parse_args()
    pick, wrong, ran = random.Random(asked.seed), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        (whole := Path(place) / "whole").mkdir()
        took, left = once(whole, None, 0, asked.time)
        print(f"a whole run: {took:.1f} s, left {left or 'nothing'}", flush=True)
        for at in range(asked.count):
            (folder := Path(place) / str(at)).mkdir()
            number, after_s = SIGNALS[at % len(SIGNALS)], pick.uniform(0, took)
            _, left = once(folder, number, after_s, asked.time)
            ran[number.name] += 1
            wrong += bool(left)
            if left:
                print(f"{number.name} after {after_s:.2f} s left {left}", flush=True)
    print(f"{dict(ran)}: {wrong} left something")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
