"""Whether a real memory snapshot is read as PyTorch counts itself, and what the ledger of the same run has.

usage: python -m tests.truth.gpu.torch_memory FOLDER

FOLDER gets the capture, PyTorch's files and the report. Exit status 1 where a figure differs from PyTorch's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs/torch_memory.py"


def main(folder: Path) -> int:
    """Record, report, compare."""
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / "run.pinprof"
    record = ["record", "--force", "--no-report", "--no-calibrate", "-o", str(capture), "--", sys.executable]
    subprocess.run([sys.executable, "-m", "pinprof", *record, str(PROGRAM), str(folder)], check=True)
    told = json.loads((folder / "told.json").read_text())
    files = ["--torch", str(folder / "snapshot.pickle")]
    if json.loads((folder / "stats.json").read_text()):
        files += ["--torch", str(folder / "stats.json")]
    asked = ["report", str(capture), *files, "-o", str(folder / "report.json")]
    subprocess.run([sys.executable, "-m", "pinprof", *asked], check=True)
    report = json.loads((folder / "report.json").read_text())
    pools = {pool["name"]: pool for pool in report["torch"]["pools"]}
    gpu = pools["cuda:0"]
    of_line = {line["line"].partition(" ")[0]: line for line in gpu["lines"]}
    rows = [
        ("reserved", told["reserved_bytes.all.current"], gpu["reserved_bytes"]),
        ("used", told["active_bytes.all.current"], gpu["used_bytes"]),
        ("requested", told["requested_bytes.all.current"], gpu["requested_bytes"]),
        ("peak", told["requested_bytes.all.peak"], gpu["peak_bytes"]),
        ("weights' line", told["weights"], of_line.get("build", {}).get("bytes")),
    ]
    if host := report["torch"]["host"]:
        ledger = sum(one["peak_granted_bytes"] for one in report["ledger"]["totals"] if one["kind"] != "device")
        rows.append(("pinned pool, ledger", host["most_held_bytes"], ledger))
    print(f"PyTorch {told['torch']}; pools {', '.join(pools)}; a step copies {report['torch']['step_bytes']}")
    print("| | PyTorch | pinprof |\n|---|---:|---:|")
    wrong = 0
    for name, its, ours in rows:
        print(f"| {name} | {its:,} | {ours} |")
        wrong += ours is None or abs(ours - its) > 0.01 * its
    if "pinned" in pools:
        print("pinned lines", [(line["line"], line["bytes"]) for line in pools["pinned"]["lines"]], told["batches"])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
