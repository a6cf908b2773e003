"""Whether the kernel lets us sample it, asked by perf_event_open(2) itself, and what to change when it does not."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from pinprof.errors import CollectError

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTR_SIZE = 112
"""PERF_ATTR_SIZE_VER5, Linux 4.1."""
_TYPE_SOFTWARE, _CPU_CLOCK, _DISABLED = 1, 0, 1
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38


def paranoid() -> int | None:
    """kernel.perf_event_paranoid; None when the kernel has no perf events."""
    try:
        return int(PARANOID.read_text())
    except (OSError, ValueError):
        return None


def sampling_errno(*, system_wide: bool = False) -> int:
    """0 when this process may sample user and kernel of its own programs (or of every CPU), else the errno."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        return 0  # perf itself will say
    attr = struct.pack("=IIQQQQQ", _TYPE_SOFTWARE, _ATTR_SIZE, _CPU_CLOCK, 10_000_000, 0, 0, _DISABLED)
    buffer = ctypes.create_string_buffer(attr.ljust(_ATTR_SIZE, b"\0"), _ATTR_SIZE)
    pid, cpu = (-1, 0) if system_wide else (0, -1)
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(number, buffer, pid, cpu, -1, 0)
    if file < 0:
        return ctypes.get_errno()
    os.close(file)
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


def refusal(number: int, *, system_wide: bool) -> CollectError:
    """What to say about an errno of perf_event_open(2)."""
    level = paranoid()
    if level is None or number == errno.ENOSYS:
        return CollectError(
            "This kernel has no perf events.",
            "Use a kernel with CONFIG_PERF_EVENTS, or record on the container's host.",
            "perf-permission",
        )
    wanted = 0 if system_wide else 1
    what = "every process" if system_wide else "the kernel's part of a program"
    if level <= wanted or os.geteuid() == 0:
        return CollectError(
            f"perf may not sample {what} here although kernel.perf_event_paranoid is {level}: "
            f"perf_event_open says {os.strerror(number)}.",
            "In a container, start it with --cap-add PERFMON and a seccomp profile that allows perf_event_open "
            "(--security-opt seccomp=unconfined).",
            "perf-permission",
        )
    return CollectError(
        f"perf may not sample {what}: kernel.perf_event_paranoid is {level}.",
        f"Run `sudo sysctl kernel.perf_event_paranoid={wanted}`, or run pinprof as root or with CAP_PERFMON "
        "(in a container: --cap-add PERFMON).",
        "perf-permission",
    )
