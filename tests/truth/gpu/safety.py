"""Programs that end early, fork, capture graphs or profile themselves: the same output and status under pinprof.

usage: python -m tests.truth.gpu.safety OUT [--rounds 6] [--beside 6]

Each program runs alone once, and then under the default so many times, several programs beside each other. What it
prints and how it ends must be the same, and the number of its copies that the capture has must be what it says. Needs
PyTorch. Writes OUT/safety.json; exit status 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pinprof import read
from pinprof.base.errors import PinprofError
from tests.truth.gpu import runs

HEAD = """
import os, signal, subprocess, sys, threading, torch
host, device = torch.ones(5000), torch.empty(5000, device="cuda")
def copy(times):
    for _ in range(times): device.copy_(host)
    torch.cuda.synchronize()
"""
PROGRAMS = {
    "graph": """
x = torch.ones(256, 256, device="cuda")
torch.mm(x, x); torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y = x @ x
for _ in range(500): graph.replay()
copy(10); print(float(y.sum()))
""",
    "threads": """
threads = [threading.Thread(target=copy, args=(250,)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("joined")
""",
    "left by _exit": "copy(20); print('left', flush=True); os._exit(7)",
    "raises": "copy(20); print('raises', flush=True); raise ValueError('as meant')",
    "killed": "copy(20); print('killed', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "daemon threads": """
for _ in range(3): threading.Thread(target=lambda: [copy(1) for _ in iter(int, 1)], daemon=True).start()
copy(20); print("ends"); sys.stdout.flush(); sys.exit(5)
""",
    "forks": """
child = os.fork()
if not child: os._exit(9)
print(os.waitpid(child, 0)[1]); copy(20)
""",
    "starts others": "copy(20); print(subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True).stdout)",
    "profiles itself": """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CUDA]) as profiler: copy(20)
print(sum(event.name().startswith("Memcpy") for event in profiler.profiler.kineto_results.events()))
""",
}
COPIES = {"graph": 10, "threads": 1000, "daemon threads": None}
"""How many of 5,000 floats each makes, else 20; None where nobody knows."""


def once(name: str, folder: Path, recorder: str) -> dict[str, Any]:
    """One run: what it printed, its status, and under a recorder how many copies that saw."""
    script = folder / f"{name.replace(' ', '_')}.py"
    script.write_text(HEAD + PROGRAMS[name], "utf-8")
    command = runs.under(recorder, [sys.executable, str(script)], folder)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=runs.LIMIT_S)
    told: dict[str, Any] = {"printed": done.stdout, "status": done.returncode}
    if recorder == runs.NONE:
        # A shell's words for a program that a signal ended, as pinprof's own status has them.
        return told | {"status": done.returncode if done.returncode >= 0 else 128 - done.returncode}
    told["said"] = done.stderr[-500:]
    try:
        activity = read.read(folder / "capture.pinprof").activity
    except PinprofError as error:
        return told | {"said": str(error)}
    if activity is not None and activity.calls.size_bytes is not None:
        told["copies"] = int((activity.calls.size_bytes == 20_000).sum())
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.gpu.safety", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--beside", type=int, default=6)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    asked = [(name, turn) for turn in range(given.rounds + 1) for name in PROGRAMS]
    with tempfile.TemporaryDirectory(prefix="pinprof-safety-") as place, ThreadPoolExecutor(given.beside) as pool:

        def one(task: tuple[str, int]) -> dict[str, Any]:
            name, turn = task
            folder = Path(place) / f"{name.replace(' ', '_')}-{turn}"
            folder.mkdir()
            return {"program": name, **once(name, folder, runs.DEFAULT if turn else runs.NONE)}

        found = list(pool.map(one, asked))
    alone = {run["program"]: run for run in found[: len(PROGRAMS)]}
    wrong = [run for run in found[len(PROGRAMS) :] if differs(run, alone[run["program"]])]
    (given.out / "safety.json").write_text(json.dumps({"runs": len(found) - len(PROGRAMS), "wrong": wrong}, indent=1))
    print(f"{len(found) - len(PROGRAMS)} runs of {len(PROGRAMS)} programs, {len(wrong)} differ")
    for run in wrong:
        print(run, alone[run["program"]])
    return bool(wrong)


def differs(run: dict[str, Any], alone: dict[str, Any]) -> bool:
    """Whether a recorded run is not what it is alone, or its copies are not all there."""
    wanted = COPIES.get(run["program"], 20)
    same = all(run[what] == alone[what] for what in ("printed", "status"))
    return not same or (wanted is not None and run.get("copies") != wanted)


if __name__ == "__main__":
    sys.exit(main())
