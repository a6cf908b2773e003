"""Build what a release uploads, and check it: python tools/make_wheels.py [--out FOLDER]

A source archive, and from it a wheel for each processor, compiled by zig against glibc 2.17. Every wheel must hold all
C libraries, bear the tag of that glibc and agree with `auditwheel`; `twine` must take all of it. Needs the extra
`release`. Set PINPROF_REPOSITORY and PINPROF_SITE to have the addresses in the package (tools/readme.py). Exit status 1
when anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from pinprof.machine.libraries import LIBRARIES, MACHINES

ROOT = Path(__file__).parents[1]
GLIBC = "2.17"
TAG = "manylinux_2_17"
ZIG = "-m ziglang cc -target {machine}-linux-gnu.{glibc} -fno-sanitize=undefined -s"
"""Options beside those of `pinprof/machine/libraries.py`; they do not enter the names of the libraries."""


def main() -> int:
    """Build, check, and say what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    try:
        built = build_all(out)
        for wheel, machine in built[1:]:
            check(wheel, machine)
        run("twine", "check", "--strict", *(str(path) for path, _ in built))
    except (subprocess.CalledProcessError, ValueError) as error:
        print(f"{error}\n{getattr(error, 'stdout', '') or ''}", file=sys.stderr)
        return 1
    for path, _ in built:
        print(f"{path} {path.stat().st_size / 1e6:.2f} MB")
    return 0


def build_all(out: Path) -> list[tuple[Path, str]]:
    """The source archive, then each wheel with its processor."""
    with tempfile.TemporaryDirectory() as folder:
        source = copied(Path(folder) / "source")
        run("build", "--sdist", "--no-isolation", "--outdir", str(out), str(source))
        (archive,) = out.glob("*.tar.gz")
        found = [(archive, "")]
        for machine in MACHINES:
            place = Path(folder) / machine
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
            (unpacked,) = place.iterdir()
            compiler = f"{sys.executable} {ZIG.format(machine=machine, glibc=GLIBC)}"
            run("build", "--wheel", "--no-isolation", "--outdir", str(out), str(unpacked), CC=compiler)
            found.append((next(out.glob(f"*_{machine}.whl")), machine))
    return found


def copied(place: Path) -> Path:
    """What git tracks: the folder may hold libraries and archives of earlier builds."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "reports/")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def check(wheel: Path, machine: str) -> None:
    """ValueError where a wheel lacks a library, or needs more than its tag says."""
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    if missing := [library.title for library in LIBRARIES if library.name_on(machine) not in names]:
        raise ValueError(f"{wheel.name} lacks the {', the '.join(missing)}.")
    if not wheel.name.endswith(f"-py3-none-{TAG}_{machine}.whl"):
        raise ValueError(f"{wheel.name} is not for {TAG}.")
    said = run("auditwheel", "show", str(wheel))
    if f'"{TAG}_{machine}"' not in said:
        raise ValueError(f"auditwheel finds another tag for {wheel.name}:\n{said}")


def run(module: str, *arguments: str, **variables: str) -> str:
    """What a Python tool prints; CalledProcessError where it fails."""
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
