"""Whether the ledger has what a program holds: a random plan through six functions of CUDA, and blocks of PyTorch.

usage: python3 -m tests.truth.gpu.ledger --out DIR [--seed 17] [--program BINARY] [--runtime LIBCUDART] [--no-torch]

`programs/ledger.c` is built with gcc unless BINARY is given. It says at checkpoints what lives by line; the ledger of
its recording has to say the same, to the byte. With PyTorch, `programs/pin_blocks.py` pins eight blocks of 260 MiB:
2.03 GiB requested, 4 GiB granted. One JSON object on standard output; the exit status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.truth.gpu.blame import recorded

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = PROGRAMS / "ledger.c"
FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread")
STEPS, CHECKPOINTS = 60, 10
BLOCKS, BLOCK_BYTES, GRANTED_BYTES = 8, 260 << 20, 512 << 20
_LINE = re.compile(rf"{re.escape(SOURCE.name)}:(\d+)\)$")
_CHECKPOINT = re.compile(r"(checkpoint \d+):((?: \d+=\d+)+)")


def built(binary: Path) -> Path:
    """The program, built."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    headers = next((folder for folder in _header_folders() if (folder / "nvtx3/nvToolsExt.h").is_file()), None)
    if gcc is None or headers is None:
        raise SystemExit(
            "There is no gcc, or no nvtx3/nvToolsExt.h: build programs/ledger.c elsewhere, give --program."
        )
    subprocess.run([gcc, *FLAGS, f"-I{headers}", str(SOURCE), "-o", str(binary), "-ldl"], check=True)
    return binary


def _header_folders() -> list[Path]:
    """Where NVTX's headers may be: toolkits, and packages of NVIDIA's."""
    toolkits = [*Path("/usr/local").glob("cuda*/include"), *Path("/usr/local").glob("cuda*/targets/*/include")]
    return [*toolkits, *(folder for root in _nvidia() for folder in root.glob("*/include")), Path("/usr/include")]


def _nvidia() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    return [Path(place) for place in (spec.submodule_search_locations or [] if spec else [])]


def runtime() -> Path:
    """CUDA's runtime library, of a package or a toolkit."""
    folders = [folder for root in _nvidia() for folder in root.glob("*/lib")]
    folders += [*Path("/usr/local").glob("cuda*/lib64"), *Path("/usr/local").glob("cuda*/targets/*/lib")]
    files = [file for folder in folders for file in sorted(folder.glob("libcudart.so.*"))]
    if not files:
        raise SystemExit("There is no libcudart.so: give --runtime.")
    return files[0]


def told(output: str) -> dict[str, dict[int, int]]:
    """Checkpoint → line → live bytes, as the program says."""
    found = {}
    for name, rest in _CHECKPOINT.findall(output):
        pairs = (pair.split("=") for pair in rest.split())
        found[name] = {int(line): int(size) for line, size in pairs if int(size)}
    return found


def of_ledger(report: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """The same, as the ledger says; 0 for what has no line in the program."""
    found: dict[str, dict[int, int]] = {}
    for point in (report["ledger"] or {"checkpoints": []})["checkpoints"]:
        lines: dict[int, int] = {}
        for place, size in point["by_line"].items():
            match = _LINE.search(place)
            line = int(match[1]) if match else 0
            lines[line] = lines.get(line, 0) + size
        found[point["name"]] = lines
    return found


def compared(printed: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """What both say, and where they differ."""
    theirs, ours = told(printed), of_ledger(report)
    wrong = [
        f"{name}, line {line}: {truth.get(line, 0)} bytes live, the ledger has {ours.get(name, {}).get(line, 0)}"
        for name, truth in theirs.items()
        for line in sorted(truth.keys() | ours.get(name, {}).keys())
        if truth.get(line, 0) != ours.get(name, {}).get(line, 0)
    ]
    ledger = report["ledger"] or {}
    names = ("frees", "unknown_frees", "undecided_frees", "unsized_allocations", "kernel", "notes")
    return {
        "checkpoints": len(theirs),
        "live_bytes": [sum(lines.values()) for lines in theirs.values()],
        "apis": sorted({site["api"] for site in ledger.get("sites", ()) if _LINE.search(site["line"])}),
        "threads": len({site["tid"] for site in ledger.get("sites", ())}),
        "wrong": len(wrong),
        "first_wrong": wrong[:12],
        **{name: ledger.get(name) for name in names},
    }


def of_blocks(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the ledger has of PyTorch's blocks."""
    sites = [site for site in report["ledger"]["sites"] if site["granted_bytes"] >= GRANTED_BYTES]
    names = "api line allocations requested_bytes granted_bytes live_granted_bytes requested_by unused_bytes"
    requested, granted = (sum(site[name] for site in sites) for name in ("requested_bytes", "granted_bytes"))
    return {
        "requested_bytes": requested,
        "granted_bytes": granted,
        "right": (requested, granted) == (BLOCKS * BLOCK_BYTES, BLOCKS * GRANTED_BYTES),
        "sites": [{name: site[name] for name in names.split()} for site in sites],
        "kernel": report["ledger"]["kernel"],
    }


def main() -> int:
    """Record and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", default="17")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--runtime", type=Path)
    parser.add_argument("--no-torch", dest="torch", action="store_false")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    binary = options.program or built(options.out / "ledger")
    library = options.runtime or runtime()
    # The shell keeps what the program prints apart from what pinprof does.
    printed = options.out / "printed.txt"
    plan = [str(library), options.seed, str(STEPS), str(CHECKPOINTS), "0"]
    command = ["sh", "-c", 'exec "$@" > "$0"', str(printed), str(binary.resolve()), *plan]
    report = recorded(options.out / "plan", command)
    result = {"plan": compared(printed.read_text(), report)}
    right = result["plan"]["wrong"] == 0 and result["plan"]["checkpoints"] == CHECKPOINTS
    if options.torch and importlib.util.find_spec("torch"):
        blocks = recorded(options.out / "blocks", [sys.executable, str(PROGRAMS / "pin_blocks.py")])
        result["blocks"] = of_blocks(blocks)
        right = right and result["blocks"]["right"]
    print(json.dumps(result, indent=1))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
