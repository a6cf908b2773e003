"""The driver's events of managed memory beside CUPTI's, and beside what a program knows that it moved.

    python -m tests.truth.gpu.uvm_events OUT [--program FILE] [--nvcc nvcc] [--mib 64] [--rounds 3] [--turns 5]
    python -m tests.truth.gpu.uvm_events OUT --probe

OUT is a folder: `uvm_events.json` and `uvm_events.txt` say what was found, the captures lie beside them. Recorded are
programs/managed.cu by `--gpu uvm` and by `--gpu cupti`, the same while it runs (`--pid`), and a program that records
itself. Bytes each way are to be those of the program, to the byte. `--turns` times it runs alone and under
`--gpu uvm`, by turns: what an event costs.

`--probe` asks the driver step by step instead, and notes every answer and the first events as bytes (`probe.json`,
`probe.txt`), so that one run shows where a layout is not as pinprof takes it. `--program` names a managed.cu that was
built before. Exit status 1 when something differs, 2 without a GPU or a compiler.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pinprof.collect.uvm import driver
from pinprof.data.activity import CopyKind, MigrationCause, OpKind
from pinprof.data.uvm_events import Counter, UvmEvent
from pinprof.read import ReadOptions, read, uvm
from tests.truth.gpu import uvm_probe

PROGRAMS = Path(__file__).with_name("programs")
PINPROF = (sys.executable, "-m", "pinprof", "record", "--no-report", "--no-calibrate", "--force")
WAYS = {CopyKind.UVM_HOST_TO_DEVICE: "to_device", CopyKind.UVM_DEVICE_TO_HOST: "to_host"}
PATIENCE_S = 120


def build(nvcc: str, folder: Path) -> Path:
    """managed.cu, built."""
    program = folder / "managed"
    subprocess.run([nvcc, "-O2", "-o", program, PROGRAMS / "managed.cu"], check=True)
    return program


def said(output: str) -> dict[str, Any]:
    """What the program printed of itself, the last line that is an object."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


def ran(command: Sequence[object]) -> tuple[dict[str, Any], str]:
    """A command, what its program said and what went wrong."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return said(done.stdout), f"status {done.returncode}: {done.stderr[-2000:]}" if done.returncode else ""


def recorded_while_it_runs(command: Sequence[object], capture: Path) -> tuple[dict[str, Any], str]:
    """The same for a program that waits until `pinprof record --pid` has found its memory."""
    program = subprocess.Popen(
        [*map(str, command), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout
    program.stdout.readline()
    recorder = subprocess.Popen(
        [*PINPROF, "--gpu", "uvm", "-o", str(capture), "--pid", str(program.pid)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and recorder.poll() is None:
        if list(capture.parent.glob(f"{capture.name}*/uvm/*.bin")):
            break
        time.sleep(0.05)
    output, problem = program.communicate("\n", timeout=PATIENCE_S)
    _, more = recorder.communicate(timeout=PATIENCE_S)
    failed = program.returncode or recorder.returncode
    return said(output), f"status {failed}: {problem}{more}" if failed else ""


def found_in(capture: Path) -> dict[str, Any]:
    """What a capture says of managed memory."""
    activity = read(str(capture), ReadOptions()).activity
    if activity is None:
        return {}
    moved = activity.gpu_ops.take(activity.gpu_ops.kind == OpKind.MIGRATION)
    result: dict[str, Any] = {}
    for kind, way in WAYS.items():
        rows = moved.take(moved.copy_kind == kind)
        causes = {
            cause.words: {
                "count": int(np.count_nonzero(rows.cause == cause)),
                "bytes": int(rows.size_bytes[rows.cause == cause].sum()),
            }
            for cause in MigrationCause
        }
        result[way] = {
            "count": len(rows),
            "bytes": int(rows.size_bytes.sum()),
            "busy_ns": int((rows.end_ns - rows.start_ns).sum()),
            "causes": {name: of for name, of in causes.items() if of["count"]},
        }
    on_gpu = activity.faults.device >= 0
    result["gpu_faults"] = {"groups": int(on_gpu.sum()), "faults": int(activity.faults.count[on_gpu].sum())}
    result["cpu_faults"] = int(activity.faults.count[~on_gpu].sum())
    result["files"] = [_file(path) for path in sorted((capture / "uvm").glob("*.bin"))]
    return result


def _file(path: Path) -> dict[str, Any]:
    file = uvm.load(path)
    if file is None:
        return {"name": path.name, "unreadable": True}
    counters = {counter.name.lower(): file.counters[counter] for counter in Counter} if file.counters else None
    events = {kind.name.lower(): file.count(kind) for kind in UvmEvent if file.count(kind)}
    facts = {name: getattr(file, name) for name in ("layout", "state", "dropped", "damaged", "cost_ns")}
    return {"name": path.name, **facts, "counters": counters, "events": events}


def compared(program: Path, given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Every way of recording, with what the program knows."""
    command = [program, given.mib, given.rounds]
    results: dict[str, Any] = {}
    for name, gpu in (("uvm", "uvm"), ("cupti", "cupti")):
        capture = out / f"{name}.pinprof"
        knows, problem = ran([*PINPROF, "--gpu", gpu, "-o", capture, "--", *command])
        results[name] = _result(knows, problem, capture)
    capture = out / "pid.pinprof"
    results["pid"] = _result(*recorded_while_it_runs(command, capture), capture)
    capture = out / "itself.pinprof"
    knows, problem = ran([sys.executable, PROGRAMS / "managed_itself.py", capture, given.mib])
    results["itself"] = _result(knows, problem, capture)
    return results


def _result(knows: dict[str, Any], problem: str, capture: Path) -> dict[str, Any]:
    found = found_in(capture) if capture.is_dir() else {}
    expected = knows.get("bytes_each_way")
    exact = {way: found.get(way, {}).get("bytes") == expected for way in WAYS.values()} if expected else {}
    return {"program": knows, "problem": problem, "found": found, "exact": exact}


def cost(program: Path, given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """What following costs the program, alone and followed by turns."""
    command, seconds = [program, given.mib, given.rounds], {"alone": [], "uvm": []}
    events = 0
    for _ in range(given.turns):
        seconds["alone"].append(ran(command)[0].get("seconds", 0.0))
        capture = out / "cost.pinprof"
        knows, _ = ran([*PINPROF, "--gpu", "uvm", "-o", capture, "--", *command])
        seconds["uvm"].append(knows.get("seconds", 0.0))
        events = sum(sum(file.get("events", {}).values()) for file in found_in(capture).get("files", ()))
    more = statistics.median(seconds["uvm"]) - statistics.median(seconds["alone"])
    return {"seconds": seconds, "events": events, "ns_per_event": more / events * 1e9 if events else None}


def text_of(results: dict[str, Any]) -> str:
    """The same for people."""
    lines = []
    for name, result in results["recordings"].items():
        lines.append(
            f"{name}: {'; '.join(f'{way} exact: {is_so}' for way, is_so in result['exact'].items()) or 'nothing'}"
        )
        if result["problem"]:
            lines.append(f"  {result['problem']}")
        lines.append(f"  program: {result['program']}")
        lines += [f"  {key}: {value}" for key, value in result["found"].items()]
    lines.append(f"cost: {results['cost']}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare, or probe."""
    parser = argparse.ArgumentParser(description="The driver's events of managed memory, checked on a GPU.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--probe", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.program is None and shutil.which(given.nvcc) is None:
        print(f"{given.nvcc} is not installed: name CUDA's compiler with --nvcc, or the program.", file=sys.stderr)
        return 2
    if not driver.DEVICE.exists():
        print(f"{driver.DEVICE} is not there: no driver of NVIDIA's.", file=sys.stderr)
        return 2
    program = (given.program or build(given.nvcc, given.out)).resolve()
    if given.probe:
        steps = uvm_probe.probe([program, given.mib, given.rounds, "wait"])
        (given.out / "probe.json").write_text(json.dumps(steps, indent=1))
        (given.out / "probe.txt").write_text(text := uvm_probe.text_of(steps))
        print(text)
        return int(not any(step.get("events") for step in steps))
    results = {"recordings": compared(program, given, given.out), "cost": cost(program, given, given.out)}
    (given.out / "uvm_events.json").write_text(json.dumps(results, indent=1))
    (given.out / "uvm_events.txt").write_text(text := text_of(results))
    print(text)
    return int(not all(all(result["exact"].values()) and result["exact"] for result in results["recordings"].values()))


if __name__ == "__main__":
    sys.exit(main())
