"""Nsight Systems on this machine: find `nsys` and its importer, and have them turn a report into SQLite.

A report (.nsys-rep, .qdrep before 2021.4) or a raw stream (.qdstrm) can be opened by NVIDIA's own tool alone, and only
by one at least as new as the recorder. Debian's package and the copy inside Nsight Compute look for their importer in
the wrong place and leave raw streams; `import_stream` runs it from where it lies.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from pinprof.base.errors import CaptureError, PinprofError, ToolMissing, readable
from pinprof.machine import children
from pinprof.machine.children import AT_ONCE, Ended, Limits

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report "
STREAM_MAGIC = b"NVIDIA Nsight Systems Stream "
HEAD_BYTES = 256

NSYS_VARIABLE, IMPORTER_VARIABLE = "NSYS", "NSYS_IMPORTER"
LIBRARY_VARIABLE = "NSYS_LIBRARY_PATH"
"""Folders of libraries for nsys and its importer alone, as in LD_LIBRARY_PATH."""
_EXPORT_WHERE = "or export it on the machine that recorded it: nsys export --type sqlite {name}"

_INSTALLED = (
    "/opt/nvidia/nsight-systems*/*/bin/nsys",
    "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/local/cuda*/nsight-systems-*/bin/nsys",
    "/opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Systems/bin/nsys",
    "/usr/lib/nsight-systems/bin/nsys",
    "/usr/lib/*-linux-gnu/nsight-systems/target-linux-*/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "/usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
"""Where NVIDIA's packages, the CUDA toolkit, the HPC SDK, Debian and Nsight Compute put nsys."""

_IMPORTERS = ("host-linux-*/QdstrmImporter", "linux-desktop-*/QdstrmImporter")
"""Importers, relative to the folder that holds `target-linux-*`."""
_IMPORTERS_ELSEWHERE = (
    "/usr/lib/nsight-systems/host-linux-*/QdstrmImporter",
    "/opt/nvidia/nsight-systems*/*/host-linux-*/QdstrmImporter",
    "/opt/nvidia/nsight-compute/*/host/linux-desktop-*/QdstrmImporter",
)

_BUILDS = (
    (33147223, "2023.3"),
    (33557503, "2023.4"),
    (34140272, "2024.2"),
    (34382004, "2024.4"),
    (34619542, "2024.5"),
    (35690618, "2025.2"),
    (36398880, "2025.3"),
    (36895201, "2025.6"),
    (37639646, "2026.2"),
    (38048394, "2026.3"),
)
"""Build number → version, from what `nsys --version` printed (2024.5.1.113-245134619542v0 is build 34619542).
The first line of a report has the build; before about 2023 it has a small number instead."""

_TOO_OLD = re.compile(r"Version not supported|Version number is invalid|newer version", re.IGNORECASE)
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")
_VERSION = re.compile(r"version (\d{4}(?:\.\d+)+)")
_PROGRESS = re.compile(r".*\[[=\s]*\d+%[^\]]*\]")


def find_nsys() -> list[Path]:
    """Every nsys of this machine, the preferred first: $NSYS, PATH, then the usual folders, newest first.

    ToolMissing if $NSYS is set to something else than a program.
    """
    named = _named_by(NSYS_VARIABLE, "nsys")
    first = [shutil.which(name) for name in (named, "nsys") if name]
    return _distinct(chain((Path(path) for path in first if path), _present(_INSTALLED)))


def find_importers(nsys: Sequence[Path]) -> list[Path]:
    """Every importer of raw streams: $NSYS_IMPORTER, then those that belong to the given nsys, then any other."""
    named = _named_by(IMPORTER_VARIABLE, "QdstrmImporter")
    homes = [path.resolve().parent.parent for path in nsys]
    own = (path for home in homes for pattern in _IMPORTERS for path in sorted(home.glob(pattern), reverse=True))
    return _distinct(chain([Path(named)] if named else [], own, _present(_IMPORTERS_ELSEWHERE)))


def _named_by(variable: str, what: str) -> str:
    """The program that an environment variable names, empty when it is not set; ToolMissing when it names none."""
    named = os.environ.get(variable, "")
    if named and shutil.which(named) is None:
        remedy = f"Set it to the path of {what}, or unset it."
        raise ToolMissing(f"${variable} is {named}, which is not a program.", remedy, "nsys")
    return named


def version_of(nsys: Path) -> str:
    """`2022.4.2.1`, or an empty string when it does not say."""
    with suppress(OSError):
        match = _VERSION.search(run([str(nsys), "--version"]).output)
        return match[1] if match else ""
    return ""


def is_report(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a report or a raw stream."""
    return head.startswith(REPORT_MAGIC) or STREAM_MAGIC in head[:64]


def needed_version(head: bytes) -> str:
    """The version that can open a report with this head, as `2025.3`; empty when the head does not say."""
    if match := re.search(re.escape(STREAM_MAGIC) + rb"(\d{4}\.\d+)", head[:HEAD_BYTES]):
        return match[1].decode()
    match = re.match(re.escape(REPORT_MAGIC) + rb"(\d{1,12})\.", head)
    build = int(match[1]) if match else 0
    if build < 10**6:
        return ""
    place = bisect_left(_BUILDS, (build, ""))
    return _BUILDS[min(place, len(_BUILDS) - 1)][1]


def export_sqlite(report: Path, directory: Path) -> Path:
    """The SQLite export of a report or raw stream, written into a directory.

    Every nsys found is tried until one succeeds. ToolMissing when there is none, CaptureError when none can.
    """
    head = _head(report)
    tools = find_nsys()
    if not tools:
        raise ToolMissing(
            f"{report} is an Nsight Systems report. Only nsys can open it, and nsys is not installed here.",
            f"Install {_or_newer(head)}, {_EXPORT_WHERE.format(name=report.name)}",
            "nsys-missing",
        )
    if STREAM_MAGIC in head[:64]:
        report = import_stream(report, directory / f"{report.stem}.nsys-rep", tools)
    target = directory / f"{report.stem}.sqlite"
    arguments = ["export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target), str(report)]
    return _made_by_first(tools, arguments, target, report, head, _is_export)


def import_stream(stream: Path, target: Path, nsys: Sequence[Path]) -> Path:
    """The report that an importer makes of a raw stream; ToolMissing without importer, CaptureError when it fails."""
    importers = find_importers(nsys)
    if not importers:
        raise ToolMissing(
            f"{stream} is a raw stream of Nsight Systems, and its QdstrmImporter is not installed here.",
            f"Install {_or_newer(_head(stream))} whole, or set ${IMPORTER_VARIABLE} to the importer's path.",
            "nsys-importer",
        )
    arguments = ["-i", str(stream), "-o", str(target)]
    return _made_by_first(importers, arguments, target, stream, _head(stream), _is_written)


def tool_environment() -> dict[str, str]:
    """This process's environment, with the libraries that nsys and its importer alone need before all others."""
    environment = dict(os.environ)
    if libraries := environment.get(LIBRARY_VARIABLE):
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [libraries, environment.get("LD_LIBRARY_PATH")]))
    return environment


def run(command: Sequence[str], limits: Limits = AT_ONCE) -> Ended:
    """Run a command of Nsight Systems; what it prints comes without progress bars. OSError if it cannot be started."""
    ended = children.ran(command, limits, tool_environment(), errors=True)
    return replace(ended, output=_PROGRESS.sub("", ended.output))


def _made_by_first(
    tools: Sequence[Path],
    arguments: Sequence[str],
    target: Path,
    report: Path,
    head: bytes,
    is_whole: Callable[[Path], bool],
) -> Path:
    """What the first tool that can makes of a report; CaptureError or ToolMissing when none can."""
    failures: list[tuple[Path, str]] = []
    limits = _limits(report.stat().st_size)
    for tool in tools:
        target.unlink(missing_ok=True)
        try:
            ended = run([str(tool), *arguments], limits)
        except OSError as error:
            ended = Ended(None, f"{error.strerror}: {tool}")
        if not ended.stopped and is_whole(target):
            return target
        why = f"\nIt {ended.stopped}, and was ended" if ended.stopped else ""
        failures.append((tool, ended.output + why))
    raise _failure(report, head, failures)


def _limits(size: int) -> Limits:
    """What exporting or importing a file of `size` bytes may take: nsys does some 10 MB a second."""
    return Limits(120 + 10 * size / 1e6, 120 + size / 1e6, printed=16 << 20, written=(64 << 20) + 100 * size)


def _is_written(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _is_export(path: Path) -> bool:
    """Whether an export came out whole: an importer that gives up leaves no file, or one with a table or two."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            count: int = base.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            return count > 2
    except sqlite3.Error:
        return False


def _failure(report: Path, head: bytes, failures: Sequence[tuple[Path, str]]) -> PinprofError:
    """Why no tool could open a report, from what they printed: too old, not startable, or in their own words."""
    old = [tool for tool, output in failures if _TOO_OLD.search(output)]
    if old:
        version = version_of(old[0]) or "of this machine"
        return CaptureError(
            f"{report} was written by a newer Nsight Systems than the {version} at {old[0]}.",
            f"Install {_or_newer(head)}, {_EXPORT_WHERE.format(name=report.name)}",
            "nsys-too-old",
        )
    tool, output = failures[0]
    if missing := _LIBRARY.search(output):
        return ToolMissing(
            f"{tool} cannot start: the library {missing[1]} is missing.",
            f"Install the package that has it (libdw.so.1 is in libdw1 or elfutils-libs), "
            f"{_EXPORT_WHERE.format(name=report.name)}",
            "nsys-library",
        )
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()]
    said = f" said: {lines[-1][:300].rstrip('.')}." if lines else " wrote no export and no message."
    return CaptureError(
        f"{report} could not be exported; {tool}{said}",
        f"The report may be truncated or damaged. Copy it again, {_EXPORT_WHERE.format(name=report.name)}",
        "nsys-export",
    )


def _or_newer(head: bytes) -> str:
    version = needed_version(head)
    return f"Nsight Systems {version} or newer" if version else "Nsight Systems (the recorder's version or newer)"


def _head(report: Path) -> bytes:
    with readable(report), report.open("rb") as file:
        return file.read(HEAD_BYTES)


def _present(patterns: Sequence[str]) -> Iterator[Path]:
    """Programs that match absolute patterns, within each the newest version first."""
    for pattern in patterns:
        programs = [path for path in Path("/").glob(pattern[1:]) if os.access(path, os.X_OK)]
        yield from sorted(programs, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], reverse=True)


def _distinct(paths: Iterator[Path]) -> list[Path]:
    """Each program once, whatever links lead to it."""
    return list({path.resolve(): path for path in reversed(list(paths))}.values())[::-1]
