"""Launches of many processes (torchrun, mpirun, srun): one capture for each rank, all in one folder.

    NAME-DATE.ranks/rank-0.pinprof, rank-1.pinprof, …

Every rank runs its own pinprof and must find the same folder by itself: DATE is when their common parent, the launcher,
began; where the launch has an id of its own, which ranks on other machines share, the id stands in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pinprof.base import files
from pinprof.base.errors import CaptureError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.streams.store import MANIFEST, RANKS, SUFFIX, read_manifest

_MARKER = ".launch"
"""In a folder that was given a name: whose it is."""
_MOST_FOLDERS = 1000

_RANKS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "torchrun"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"),
    ("PMIX_RANK", "", "", "mpirun"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpirun"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE", "srun"),
)
"""(rank, number of ranks, number on this machine, launcher).

RANK alone is too common a name: it counts with WORLD_SIZE only. Slurm tells the numbers of all machines, as `8(x2),4`.
"""

_RESTARTED = re.compile(r"-restart-\d+$")
_LONGEST_LIST, _MOST_HERE = 1000, 4096

_NO_IDS = ("", "none")
"""What torchrun sets where nobody gave a run id."""


@dataclass(frozen=True)
class Rank:
    """Which process of a launch this is."""

    number: int
    size: int | None
    launcher: str
    launch: str
    """The same in every rank of the launch: its id, or when the launcher began."""
    here: int = 1
    """How many ranks this machine has, at most; 1 where the launcher does not say."""

    @property
    def processors(self) -> float:
        """Those of this machine for each rank: the launcher's, which binds its ranks to some of them."""
        try:
            count = len(os.sched_getaffinity(os.getppid()))
        except OSError:
            count = os.cpu_count() or 1
        return count / self.here

    def facts(self) -> dict[str, int | str | None]:
        """For the manifest."""
        return {"number": self.number, "size": self.size, "launcher": self.launcher, "launch": self.launch}


def this_rank(environment: Mapping[str, str]) -> Rank | None:
    """The rank from the environment; None outside a launch, and for a launch of one."""
    for rank, size, local, launcher in _RANKS:
        number, ranks = environment.get(rank, ""), environment.get(size, "") if size else ""
        if not number.isdecimal() or (rank == "RANK" and not ranks.isdecimal()):
            continue
        count = int(ranks) if ranks.isdecimal() else None
        if count == 1:
            return None
        here = max(map(int, re.findall(r"\d+(?=[(,]|$)", environment.get(local, "")[:_LONGEST_LIST])), default=1)
        return Rank(int(number), count, launcher, _launch(environment, launcher), min(max(here, 1), _MOST_HERE))
    return None


def output(name: str, rank: Rank, number: int = 1) -> Path:
    """The capture of a rank in the launch's folder, in the current directory.

    A launch that looks like an earlier one has folder number 2, where no rank of the same number is yet.
    """
    again = f"-{number}" if number > 1 else ""
    return Path(f"{_plain(name) or 'program'}-{rank.launch}{again}{RANKS}") / f"rank-{rank.number}{SUFFIX}"


def named_output(given: Path, rank: Rank, number: int = 1, *, force: bool = False) -> Path:
    """The capture of a rank in the folder that a launch has a name for: NAME.ranks, or from this number on the first
    NAME-2.ranks, … that no other launch has. With `force`, captures of another launch in the folder make room, but not
    those of the same launch before its ranks were started again.
    """
    stem = given.name.removesuffix(SUFFIX).removesuffix(RANKS) or "program"
    for again in range(number, _MOST_FOLDERS):
        folder = given.with_name(f"{stem}-{again}{RANKS}" if again > 1 else f"{stem}{RANKS}")
        if _is_ours(folder, rank.launch, force=force):
            break
    return folder / f"rank-{rank.number}{SUFFIX}"


def _is_ours(folder: Path, launch: str, *, force: bool) -> bool:
    """Whether a folder is for this launch: the first rank that comes says whose it is, in a file."""
    marker = folder / _MARKER
    mine = folder / f"{_MARKER}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.written(mine, launch)
        try:
            os.link(mine, marker)
        except FileExistsError:
            there = marker.read_text()
            if there == launch:
                return True
            if not force or _RESTARTED.sub("", there) == _RESTARTED.sub("", launch):
                return False
            mine.replace(marker)
            _make_room(folder, launch)
        return True
    except OSError:
        return True  # whoever makes the capture there says what is wrong
    finally:
        with contextlib.suppress(OSError):
            mine.unlink(missing_ok=True)


def _make_room(folder: Path, launch: str) -> None:
    """Remove the finished captures of other launches."""
    for capture in expanded(folder) if any(folder.glob(f"rank-*{SUFFIX}")) else ():
        with contextlib.suppress(CaptureError, OSError):
            there = read_manifest(capture).outcome.get("rank")
            if isinstance(there, Mapping) and there.get("launch") != launch:
                shutil.rmtree(capture)


def expanded(path: Path) -> list[Path]:
    """The captures of a folder of ranks in their order; any other path as it is."""
    if not path.is_dir() or (path / MANIFEST).is_file():
        return [path]
    named = ((re.fullmatch(r"rank-(\d+)\.pinprof", entry.name), entry) for entry in path.iterdir())
    ranks = {int(match[1]): entry for match, entry in named if match}
    if not ranks and path.name.endswith(RANKS):
        raise CaptureError(
            f"{path} holds no finished capture of any rank.",
            "Wait until the launch has ended, or record again.",
            "ranks",
        )
    return [ranks[number] for number in sorted(ranks)] or [path]


def _launch(environment: Mapping[str, str], launcher: str) -> str:
    torch, restart = environment.get("TORCHELASTIC_RUN_ID", ""), environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    ids = {
        "torchrun": "" if torch in _NO_IDS else torch,
        "mpirun": _unnamed(environment.get("PMIX_NAMESPACE", "")) or environment.get("OMPI_MCA_ess_base_jobid", ""),
        "srun": environment.get("SLURM_JOB_ID", "") and "slurm-{SLURM_JOB_ID}".format_map(environment),
    }
    step = environment.get("SLURM_STEP_ID", "")
    launch = ids[launcher] + (f".{step}" if launcher == "srun" and step.isdecimal() else "")
    again = f"-restart-{restart}" if launcher == "torchrun" and restart.isdecimal() and int(restart) else ""
    return (_plain(launch) or _parent_began()) + again


def _unnamed(namespace: str) -> str:
    """A PMIx namespace without the host name that Open MPI 5 puts into it (`prterun-HOST-PID@N`)."""
    if not namespace or namespace.isdecimal():
        return namespace
    return f"mpi-{hashlib.sha256(namespace.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def _plain(text: str) -> str:
    """An id as part of a file name; slashes, dots in front and whatever else a name may not hold become `_`."""
    return re.sub(r"[^\w.+-]", "_", text).lstrip(".-")[:60]


def _parent_began() -> str:
    """When the parent process began, and its pid: the same for all that it started."""
    parent = os.getppid()
    try:
        # Field 22, in clock ticks since boot, counted behind the name, which may hold spaces and parentheses.
        ticks = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return str(parent)
    began = datetime.fromtimestamp(boot + ticks // os.sysconf("SC_CLK_TCK")).astimezone()
    return f"{began:%Y%m%d-%H%M%S}-{parent}"
