"""A recording whose ranges all lie inside each other, as a recursive function with a range of its own leaves them.

python -m tests.support.nested_ranges FOLDER [--ranges 20000] [--samples 2000]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pinprof.read.perf import records as rec
from tests.support.perf_file import USER_IP, Spec, comm, file_mode, sample

STEP_NS = 1_000


def write_nested(folder: Path, ranges: int, samples: int) -> tuple[Path, Path]:
    """(nested.perf.data, nested.ranges.jsonl): range n begins n steps after the first and ends n steps before it."""
    spec = Spec()
    span = 2 * (ranges + 1) * STEP_NS
    taken = [
        sample(spec, (rec.CONTEXT_USER, USER_IP + 64 * (number % 50)), time=number * span // samples, period=1_000_000)
        for number in range(samples)
    ]
    recording, beside = folder / "nested.perf.data", folder / "nested.ranges.jsonl"
    recording.write_bytes(file_mode([spec], comm(spec, "program") + b"".join(taken)))
    lines = (
        {"name": f"level {n}", "start_ns": n * STEP_NS, "end_ns": span - n * STEP_NS, "pid": 7, "tid": 7}
        for n in range(ranges)
    )
    beside.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return recording, beside


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranges", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=2_000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(*write_nested(options.folder, options.ranges, options.samples), sep="\n")
