"""The place, its memory and its GPUs."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
from collections.abc import Callable
from pathlib import Path

from pinprof.base.units import format_bytes
from pinprof.collect import host
from pinprof.doctor.check import Check
from pinprof.machine import small_files, whereabouts

_ROOMY_BYTES = 2 << 30
"""A scenario of the default size holds 256 MiB twice, and perf its buffers."""
_SYSCALL_IO_URING_SETUP = 425
"""The same number on every architecture (Linux 5.1)."""
_SYSCALL_MLOCK2 = {"x86_64": 325, "ppc64le": 378, "s390x": 374}.get(platform.machine(), 284)
_ON_FAULT, _NO_RESERVE = 1, 0x4000
_SYSCALL_USERFAULTFD = {"x86_64": 323, "aarch64": 282, "riscv64": 282, "ppc64le": 364, "s390x": 355}


def place() -> Check:
    """Where this is, and which rights it has."""
    here = whereabouts.here()
    held = [f"CAP_{name}" for name in ("PERFMON", "SYSLOG", "SYS_PTRACE", "SYS_ADMIN") if here.may(name)]
    words = [here.title, "as root" if here.root else "not as root"]
    words.append(f"with {', '.join(held)}" if held else "without capabilities that pinprof uses")
    words += ["behind a seccomp filter"] if here.filtered else []
    return Check("place", "info", ", ".join(words))


def _gpu() -> Check:
    gpus = host.gpus()
    if gpus:
        return Check("GPU", "ok", ", ".join(str(gpu["name"] or gpu["pci"]) for gpu in gpus))
    return Check("GPU", "info", "none found; scenarios run as host emulation")


def _driver() -> Check:
    driver, cuda = host.nvidia_driver(), host.cuda_driver()
    if driver:
        return Check("NVIDIA driver", "ok", driver + (f", CUDA {cuda}" if cuda else ""))
    if host.gpus():
        return Check("NVIDIA driver", "warning", "unknown version (no /proc/driver/nvidia/version)")
    return Check("NVIDIA driver", "info", "not loaded")


def _link() -> Check:
    links, narrow = [], False
    for gpu in host.gpus():
        generation, width = gpu.get("link_generation"), gpu.get("link_width")
        if not generation or not width:
            continue
        most = gpu.get("link_width_max")
        links.append(f"PCIe {generation} ×{width} (at most {gpu.get('link_generation_max')} ×{most})")
        narrow |= bool(most and width < most)
    if not links:
        return Check("GPU link", "info", "unknown")
    if narrow:
        # An idle GPU lowers its generation to save power, but never gives up lanes.
        return Check(
            "GPU link",
            "warning",
            "; ".join(links),
            "The link uses fewer lanes than the card has: check the slot and the risers.",
        )
    return Check("GPU link", "ok", "; ".join(links))


def _thp() -> Check:
    enabled = host.chosen(small_files.text(Path("/sys/kernel/mm/transparent_hugepage/enabled")))
    if enabled is None:
        return Check("transparent huge pages", "info", "unknown: the kernel has none, or /sys is not mounted")
    if enabled == "never":
        command = "`echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`"
        fix = f"{'On the host, run' if whereabouts.here().contained else 'Run'} {command}."
        return Check("transparent huge pages", "warning", "off; every page fault maps 4 KiB", fix)
    return Check("transparent huge pages", "ok", enabled)


def _numa() -> Check:
    nodes = host.numa_nodes()
    places = sorted({gpu["numa_node"] for gpu in host.gpus() if gpu.get("numa_node") is not None})
    found = f"{nodes or 'unknown number of'} node{'s' if nodes != 1 else ''}"
    if places:
        found += f"; GPUs at node {', '.join(map(str, places))}"
    if nodes and nodes > 1:
        return Check("NUMA", "info", found, f"Compare with `numactl -N {places[0] if places else 0} pinprof run …`.")
    return Check("NUMA", "ok" if nodes else "info", found)


def _memory() -> Check:
    free = host.meminfo("MemAvailable")
    if free is None:
        return Check("memory", "info", "unknown")
    if free < _ROOMY_BYTES:
        return Check("memory", "warning", f"{format_bytes(free)} available", "Use a smaller --size.")
    return Check("memory", "ok", f"{format_bytes(free)} available")


def _memlock() -> Check:
    name, limit = "locked memory", host.memlock()
    most = format_bytes(limit) if limit is not None else "unlimited"
    if _may_lock(_ROOMY_BYTES if limit is None else limit + mmap.PAGESIZE):
        return Check(name, "ok", most if limit is None else f"{most}, and this process is exempt from it")
    if limit is None:
        return Check(
            name,
            "warning",
            f"{format_bytes(_ROOMY_BYTES)} can't be locked, although the limit is {most}",
            whereabouts.here().flags(unconfined=True),
        )
    fix = whereabouts.here().locked_memory()
    return Check(name, "warning" if limit < _ROOMY_BYTES else "ok", most, fix, "memory that host emulation can pin.")


def _may_lock(size: int) -> bool:
    """Whether this process may lock `size` bytes of memory: tried, on pages that do not exist (mlock2(2))."""
    try:
        pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except OSError:
        return False
    with pages:
        start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pages)))
        return not ctypes.CDLL(None).syscall(_SYSCALL_MLOCK2, start, ctypes.c_size_t(size), _ON_FAULT)


def _io_uring() -> Check:
    # io_uring_setup(0, NULL) fails with EINVAL or EFAULT where it is allowed (io_uring/io_uring.c).
    number = _syscall_errno(_SYSCALL_IO_URING_SETUP, 0, None)
    disabled = small_files.number(Path("/proc/sys/kernel/io_uring_disabled"))
    setting = "kernel.io_uring_disabled=0" if disabled else ""
    return _emulation("io_uring", 0 if number in (errno.EINVAL, errno.EFAULT) else number, "pinning", setting)


def _userfaultfd() -> Check:
    syscall = _SYSCALL_USERFAULTFD.get(platform.machine())
    if syscall is None:
        return Check("userfaultfd", "info", "unknown on this architecture")
    # An unknown flag is refused with EINVAL only after the permission check (fs/userfaultfd.c).
    number = _syscall_errno(syscall, 0x40000000)
    setting = "" if number == errno.ENOSYS or whereabouts.here().may("SYS_PTRACE") else "vm.unprivileged_userfaultfd=1"
    return _emulation("userfaultfd", 0 if number == errno.EINVAL else number, "managed memory", setting)


def _emulation(name: str, number: int, what: str, setting: str) -> Check:
    """Whether host emulation may use a system call, by its errno; `setting`: the kernel's that forbids it."""
    if not number:
        return Check(name, "ok", "permitted")
    here = whereabouts.here()
    fix = here.flags(unconfined=True) if here.filtered or not setting else here.setting(setting)
    return Check(name, "info", f"not permitted ({os.strerror(number)})", fix, f"host emulation of {what}.")


def _syscall_errno(number: int, *arguments: int | None) -> int:
    """The errno of a system call that is called so that it must fail; 0 if it succeeded."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, *arguments)
    if result < 0:
        return ctypes.get_errno()
    os.close(result)
    return 0


CHECKS: tuple[Callable[[], Check], ...] = (
    _gpu,
    _driver,
    _link,
    _thp,
    _numa,
    _memory,
    _memlock,
    _io_uring,
    _userfaultfd,
)
