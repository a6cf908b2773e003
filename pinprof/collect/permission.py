"""Whether the kernel lets us sample it, asked by perf_event_open(2) itself, and what to change when it does not."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

from pinprof.base.errors import CollectError
from pinprof.collect.native import perf_event as pe
from pinprof.data import perf_format as perf
from pinprof.machine.small_files import number

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38


def paranoid() -> int | None:
    """kernel.perf_event_paranoid; None when the kernel has no perf events."""
    return number(PARANOID)


def sampling_errno(*, system_wide: bool = False, kernel: bool = True, of: int = 0) -> int:
    """0 when this process may sample its own programs (or every CPU), the kernel's part too or not; or the errno.

    `of`: the same of a process that runs already.
    """
    flags = pe.DISABLED | (0 if kernel else pe.EXCLUDE_KERNEL | pe.EXCLUDE_CALLCHAIN_KERNEL)
    attr = pe.EventAttr(perf.TYPE_SOFTWARE, pe.SW_CPU_CLOCK, 0, 10_000_000, flags)
    pid, cpu = (-1, 0) if system_wide else (of, -1)
    try:
        os.close(pe.open_event(attr, pid, cpu))
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def granted_to(perf: str) -> bool:
    """Whether the perf binary itself carries the right: setuid root, or file capabilities (vfs_cap_data)."""
    path = os.path.realpath(perf)
    try:
        status = Path(path).stat()
        if status.st_mode & 0o4000 and status.st_uid == 0:
            return True
        raw = os.getxattr(path, "security.capability")
    except OSError:
        return False
    if len(raw) < 20:
        return False
    low, high = struct.unpack_from("<I", raw, 4)[0], struct.unpack_from("<I", raw, 12)[0]
    granted = low | high << 32
    return bool(granted >> _CAP_SYS_ADMIN & 1 or granted >> _CAP_PERFMON & 1)


def require(perf: str, *, system_wide: bool) -> None:
    """CollectError naming the sysctl and the capability when sampling with kernel stacks is not permitted.

    perf on its own would quietly leave the kernel out, which is where pinprof's causes are.
    """
    number = sampling_errno(system_wide=system_wide)
    if number and not granted_to(perf):
        raise refusal(number, system_wide=system_wide)


def require_process(pid: int, *, kernel: bool) -> None:
    """CollectError when a running process may not be sampled where this one's own programs may (perf_event_open(2))."""
    if sampling_errno(kernel=kernel, of=pid) in (errno.EACCES, errno.EPERM) and not sampling_errno(kernel=kernel):
        raise CollectError(
            f"pinprof is not permitted to record process {pid}, which belongs to another user or has more privileges.",
            "Run pinprof as root, or as the process's user.",
            "pid",
        )


def memory_refusal(tool: str) -> CollectError:
    """What to say where the kernel does not let a tool lock memory."""
    return CollectError(
        f"{tool} is not permitted to lock enough memory for its buffers.",
        "Raise it: `sudo sysctl kernel.perf_event_mlock_kb=8192`, or `ulimit -l unlimited`.",
        "perf-memlock",
    )


def refusal(number: int, *, system_wide: bool, user: bool = False) -> CollectError:
    """What to say about an errno of perf_event_open(2); `user`: not even the program's own code may be sampled."""
    level = paranoid()
    if level is None:
        return CollectError(
            "This kernel has no perf events.",
            "Use a kernel with CONFIG_PERF_EVENTS, or record on the container's host.",
            "perf-permission",
        )
    wanted = 0 if system_wide else 1
    what = "every process" if system_wide else "programs" if user else "the kernel's part of a program"
    permitted = level <= (2 if user else wanted)
    if number == errno.ENOSYS or permitted or os.geteuid() == 0:
        setting = f"kernel.perf_event_paranoid is {level}"
        why = f"although {setting}" if permitted else f"although it runs as root ({setting})"
        return CollectError(
            f"pinprof is not permitted to sample {what} here {why}: perf_event_open fails with {os.strerror(number)}.",
            "In a container, start it with `docker run --cap-add PERFMON`; if its seccomp profile still denies "
            "perf_event_open, add `--security-opt seccomp=unconfined`.",
            "perf-permission",
        )
    return CollectError(
        f"pinprof is not permitted to sample {what}: kernel.perf_event_paranoid is {level}.",
        f"Run `sudo sysctl kernel.perf_event_paranoid={wanted}`, or run pinprof as root or with CAP_PERFMON "
        "(in a container: --cap-add PERFMON).",
        "perf-permission",
    )
