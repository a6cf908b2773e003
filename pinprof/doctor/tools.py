"""Other programs and packages that pinprof uses."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path

from pinprof.base.errors import ToolMissing
from pinprof.base.units import format_counted
from pinprof.collect import host, nsys_keeper
from pinprof.collect.nsys import find_nsys
from pinprof.collect.perf import find_perf
from pinprof.doctor.check import Check, State, lacking
from pinprof.machine import nsys

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - nsys's choice


def _perf() -> Check:
    try:
        perf = find_perf()
    except ToolMissing as error:
        found = f"{error.problem.rstrip('.')}; needed only for --call-graph dwarf and lbr"
        return Check("perf", "info", found, error.remedy)
    return Check("perf", "ok", f"{perf.version}, {perf.path}")


def _cuda_python() -> Check:
    try:
        version = importlib.metadata.version("cuda-bindings")
    except importlib.metadata.PackageNotFoundError:
        state: State = "warning" if host.gpus() else "info"
        return Check("cuda-python", state, "not installed", "Run `pip install 'pinprof[cuda]'`." if host.gpus() else "")
    return Check("cuda-python", "ok", f"cuda.bindings {version}")


def _nsys() -> Check:
    try:
        recorder = find_nsys()
    except ToolMissing as error:
        state: State = "warning" if host.gpus() else "info"
        return Check("nsys", state, error.problem, error.remedy if host.gpus() else "")
    return Check("nsys", "ok", f"{recorder.version}, {recorder.path}")


def _nsys_shared() -> Check:
    left = nsys_keeper.left_behind(_SHARED_MEMORY)
    if not left:
        return Check("nsys's shared memory", "ok", "nothing left behind")
    found = (
        f"{format_counted(len(left), 'file is', 'files are')} left over from a killed nsys, so nsys fails with "
        "“Agent launcher failed”"
    )
    fix = f"Run `rm -f {' '.join(str(_SHARED_MEMORY / pattern) for pattern in nsys_keeper.SHARED)}`."
    return Check("nsys's shared memory", "warning", found, fix)


def _nsys_importer() -> Check:
    try:
        importers = nsys.find_importers(nsys.find_nsys())
    except ToolMissing as error:
        return lacking("nsys importer", error)
    return Check("nsys importer", "ok" if importers else "info", str(importers[0]) if importers else "none found")


CHECKS: tuple[Callable[[], Check], ...] = (_perf, _cuda_python, _nsys, _nsys_shared, _nsys_importer)
