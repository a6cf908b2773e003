"""Prints what pinprof says to each of a hundred wrong uses, with the exit status: to be read by a person.

python tools/wrong_uses.py [WORD]      those whose command line has WORD
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "tests/data/cases"
USES = """
pinprof
pinprof recrd -- true
pinprof train.py
pinprof some.pinprof
pinprof train --now
pinprof --verson
pinprof record
pinprof record --
pinprof record train.py
pinprof record -- ./train.py
pinprof record -- train.py
pinprof record -- no-such-program
pinprof record -- ./notes.txt
pinprof record -- folder
pinprof record -o missing/folder/x -- true
pinprof record -o x.html -- true
pinprof record -o x.json -- true
pinprof record --frequency 0 -- true
pinprof record --frequency often -- true
pinprof record --frequency -- true
pinprof record --fault-period 0 -- true
pinprof record --with perv -- true
pinprof record --with perf,timers -- true
pinprof record --with '' -- true
pinprof record --call-graph best -- true
pinprof record --python-rate 0 -- true
pinprof record --python-rate 99999 -- true
pinprof record --probe-budget 0 -- true
pinprof record --probe-budget 500 -- true
pinprof record --gpu on -- true
pinprof record --max-size 3 -- true
pinprof record --max-size big -- true
pinprof record --max-size -1GB -- true
pinprof record --label host -- true
pinprof record --label 1=2 -- true
pinprof record --delay 0 -- true
pinprof record --delay soon -- true
pinprof record --duration 0s -- true
pinprof record --duration -3s -- true
pinprof record --pid 0
pinprof record --pid 2
pinprof record --pid 999999
pinprof record --pid python
pinprof record --pid 1 -- true
pinprof record --recrod -- true
pinprof record --output -- true
pinprof run
pinprof run zero-copy
pinprof run zerocpy
pinprof run pinned --size 0
pinprof run pinned --size huge
pinprof run pinned --iterations 0
pinprof run pinned --iterations ten
pinprof run pinned --variant fastest
pinprof run pinned --backend gpu
pinprof run pinned --threads -2
pinprof run pinned --record=nothing
pinprof run pinned extra
pinprof report
pinprof report nowhere.pinprof
pinprof report notes.txt
pinprof report picture.png
pinprof report folder
pinprof report .
pinprof report captures
pinprof report empty.json
pinprof report train.py
pinprof report {capture} --format pdf
pinprof report {capture} -o out.json
pinprof report {capture} -o out.pdf
pinprof report {capture} -o out.md
pinprof report {capture} -o folder
pinprof report {capture} -o -
pinprof report {capture} -o missing/x.html
pinprof report {capture} --format json -o missing/x.json
pinprof report {capture} --after 1h
pinprof report {capture} --after 5s --until 2s
pinprof report {capture} --after soon
pinprof report {capture} --range nothing
pinprof report {capture} --thread nobody
pinprof report {capture} --process nobody
pinprof report {capture} --rank 3
pinprof report {capture} --explain nothing
pinprof report {capture} --event nothing
pinprof report {capture} --format folded --event nothing
pinprof report {capture} --collapse-style flamegraph
pinprof report {capture} --format json --open
pinprof report {capture} --kallsyms nowhere
pinprof report {capture} {capture} --format json
pinprof report {capture} --share -o out.pinprof --after 1s
pinprof report {capture} --port 99999
pinprof diff
pinprof diff {capture}
pinprof diff {capture} {capture}
pinprof diff {capture} nowhere
pinprof diff {capture} folder
pinprof diff {capture} {other} --per second
pinprof diff {capture} {other} -o out.pdf
pinprof check
pinprof check {capture}
pinprof check {capture} --budget nothing
pinprof check {capture} -c nowhere.toml
pinprof check -- true
pinprof try
pinprof try -- no-such-program
pinprof try --cure magic -- true
pinprof try --measure speed -- true
pinprof try --measure 'regex:(' --no-record --cure arena-max -- true
pinprof try --time 0s -- true
pinprof try --time soon -- true
pinprof try --error 0 -- true
pinprof try --no-record -- true
pinprof fleet
pinprof fleet nowhere
pinprof fleet folder
pinprof fleet {capture} --workers many
pinprof fleet {capture} --workers 0 --sql 'select nothing'
pinprof fleet {capture} --workers 0 --sql 'select 1' --format html
pinprof fleet {capture} --workers 0 -o out.pdf
pinprof fleet {capture} --scheduler nowhere:1
pinprof fleet {capture} --memory much
pinprof fleet {capture} --workers 0
pinprof bench --quik
pinprof bench --only nothing
pinprof bench compare
pinprof list nothing
pinprof doctor now
pinprof explain no-such-name
pinprof explain pin.faultn
pinprof record --ring 60s
pinprof record --ring soon -- true
pinprof record --trigger crash -- true
pinprof record --ring 60s --trigger 'range:step' -- true
pinprof record --ring 60s --trigger 'lunch>3' -- true
pinprof record --ring 60s --with nsys -- true
pinprof record --demo -- true
pinprof record --demo --pid 1
pinprof dump
pinprof dump --pid 999999
pinprof record --metrics x.prom -- true
pinprof top
pinprof top --pid 999999
pinprof fix
pinprof fix -- no-such-program
pinprof fix --copy /nowhere -- python train.py
pinprof schema nothing
pinprof mcp --root nowhere
pinprof report captures.zip
pinprof report {capture} --format agnt
pinprof report {capture} --shared-assets notes.txt
pinprof diff --before {capture}
pinprof check init
pinprof check --self-test
"""


def prepared(folder: Path) -> dict[str, str]:
    """Make the files that the uses name; the paths of two captures by their names in `USES`."""
    (folder / "folder").mkdir()
    (folder / "notes.txt").write_text("Notes of a Monday.\n")
    (folder / "train.py").write_text("print('training')\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (folder / "empty.json").touch()
    (folder / "captures").mkdir()
    names = [f"{name}.pinprof.tar.xz" for name in ("staged_h2d", "gpu_faults")]
    captures = [shutil.copy(CAPTURES / name, folder / "captures" / name) for name in names]
    return {"capture": str(captures[0]), "other": str(captures[1])}


def main() -> None:
    """Run each use in a new folder, and print what it says."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    uses = [use for use in USES.strip().splitlines() if word in use]
    for number, use in enumerate(uses, 1):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            names = prepared(folder)
            shown = use.format(capture="A.pinprof", other="B.pinprof")
            command = [sys.executable, "-P", "-m", *shlex.split(use.format(**names))]
            done = subprocess.run(
                command, cwd=folder, env=os.environ | {"COLUMNS": "100"}, stdin=subprocess.DEVNULL, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=100,
            )  # fmt: skip
            said = done.stdout.strip()
            print(f"{number:3} $ {shown}\n{said[:1500]}\n    → {done.returncode}\n", flush=True)


if __name__ == "__main__":
    main()
