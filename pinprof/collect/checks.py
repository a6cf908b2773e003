"""What `pinprof doctor` checks: each check says what it found, how bad that is, and the fix.

`problem`: recording is impossible. `warning`: something will be missing or slower. `info`: a fact without a judgement.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pinprof.base.errors import ToolMissing
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_bytes, format_counted
from pinprof.collect import host, kallsyms, nsys_keeper, permission, py_spy, python
from pinprof.collect.cupti import candidates
from pinprof.collect.limits import max_sample_rate
from pinprof.collect.native import tracefs
from pinprof.collect.native.wakeups import SCHED_WAKING
from pinprof.collect.nsys import find_nsys
from pinprof.collect.perf import find_perf
from pinprof.collect.uvm import beside, driver
from pinprof.machine import nsys, small_files
from pinprof.machine.libraries import CUPTI, NVTX

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - nsys's choice
_ROOMY_BYTES = 2 << 30
"""A scenario of the default size holds 256 MiB twice, and perf its buffers."""
_SYSCALL_IO_URING_SETUP = 425
"""The same number on every architecture (Linux 5.1)."""
_SYSCALL_USERFAULTFD = {"x86_64": 323, "aarch64": 282, "riscv64": 282, "ppc64le": 364, "s390x": 355}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    state: Literal["ok", "info", "warning", "problem"]
    found: str
    fix: str = ""


def run() -> list[Check]:
    """All checks, in the order in which one would repair."""
    return [check() for check in CHECKS]


def _perf() -> Check:
    try:
        perf = find_perf()
    except ToolMissing as error:
        found = f"{error.problem.rstrip('.')}; needed only for --call-graph dwarf and lbr"
        return Check("perf", "info", found, error.remedy)
    return Check("perf", "ok", f"{perf.version}, {perf.path}")


def _native() -> Check:
    number = permission.sampling_errno(kernel=False)
    if number:
        error = permission.refusal(number, system_wide=False, user=True)
        instead = "recordings have CPU time by timers inside the program, and most waits are missing"
        return Check("native collector", "warning", f"{error.problem.rstrip('.')}; {instead}", error.remedy)
    rate = max_sample_rate()
    found = (
        f"perf_event_open is permitted, at most {rate:,} samples per second" if rate else "perf_event_open is permitted"
    )
    return Check("native collector", "ok", found)


def _permission() -> Check:
    level = permission.paranoid()
    found = f"kernel.perf_event_paranoid is {level}"
    number = permission.sampling_errno()
    perf = shutil.which("perf")
    if number and not (perf and permission.granted_to(perf)):
        error = permission.refusal(number, system_wide=False)
        found = f"{error.problem.rstrip('.')}; recordings have only the program's own code"
        return Check("sampling the kernel", "warning", found, error.remedy)
    return Check("sampling the kernel", "ok", f"permitted ({found})")


def _system_wide() -> Check:
    number = permission.sampling_errno(system_wide=True)
    if number:
        error = permission.refusal(number, system_wide=True)
        return Check("--system-wide", "warning", error.problem, error.remedy)
    return Check("--system-wide", "ok", "permitted")


def _kallsyms() -> Check:
    restrict = small_files.number(Path("/proc/sys/kernel/kptr_restrict"))
    found = f"kernel.kptr_restrict is {restrict}"
    if kallsyms.addresses_shown():
        return Check("kernel symbols", "ok", f"shown ({found})")
    found = f"{found}, kernel.perf_event_paranoid is {permission.paranoid()}"
    return Check("kernel symbols", "warning", f"hidden ({found})", kallsyms.hidden_note())


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


def _cuda_python() -> Check:
    try:
        version = importlib.metadata.version("cuda-bindings")
    except importlib.metadata.PackageNotFoundError:
        state: Literal["info", "problem", "warning"] = "warning" if host.gpus() else "info"
        return Check("cuda-python", state, "not installed", "Run `pip install 'pinprof[cuda]'`." if host.gpus() else "")
    return Check("cuda-python", "ok", f"cuda.bindings {version}")


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
        return Check("transparent huge pages", "info", "not in this kernel")
    if enabled == "never":
        fix = "Run `echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`."
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
    return Check("NUMA", "ok", found)


def _memlock() -> Check:
    limit = host.memlock()
    if limit is None or os.geteuid() == 0:
        return Check("locked memory", "ok", "unlimited" if limit is None else f"{format_bytes(limit)}, root is exempt")
    return Check(
        "locked memory",
        "warning" if limit < _ROOMY_BYTES else "ok",
        format_bytes(limit),
        "Run `ulimit -l unlimited`, or raise `memlock` in /etc/security/limits.conf. Host emulation pins memory.",
    )


def _io_uring() -> Check:
    # io_uring_setup(0, NULL) fails with EINVAL or EFAULT where it is allowed (io_uring/io_uring.c).
    number = _syscall_errno(_SYSCALL_IO_URING_SETUP, 0, None)
    setting = "pinning", "sudo sysctl kernel.io_uring_disabled=0"
    return _emulation("io_uring", 0 if number in (errno.EINVAL, errno.EFAULT) else number, setting)


def _userfaultfd() -> Check:
    syscall = _SYSCALL_USERFAULTFD.get(platform.machine())
    if syscall is None:
        return Check("userfaultfd", "info", "unknown on this architecture")
    # An unknown flag is refused with EINVAL only after the permission check (fs/userfaultfd.c).
    number = _syscall_errno(syscall, 0x40000000)
    setting = "uvm", "sudo sysctl vm.unprivileged_userfaultfd=1"
    return _emulation("userfaultfd", 0 if number == errno.EINVAL else number, setting)


def _emulation(name: str, number: int, setting: tuple[str, str]) -> Check:
    """Whether host emulation may use a system call, by its errno."""
    if not number:
        return Check(name, "ok", "permitted")
    what, command = setting
    fix = f"For host emulation of {what}, run `{command}`, or allow the call in the seccomp profile."
    return Check(name, "warning", f"not permitted ({os.strerror(number)})", fix)


def _python_lines() -> Check:
    if reason := python.forbidden():
        return Check("Python lines", "warning", f"pinprof can't read the program's memory: {reason}", python.ALLOW)
    path = py_spy.find_py_spy()
    if path is None:
        return Check("Python lines", "info", "CPython 3.11 to 3.15; older versions need py-spy", py_spy.INSTALL)
    return Check(
        "Python lines", "ok", f"CPython 3.11 to 3.15; older versions through py-spy {py_spy.version_of(path)}, {path}"
    )


def _nsys() -> Check:
    try:
        recorder = find_nsys()
    except ToolMissing as error:
        state: Literal["info", "warning"] = "warning" if host.gpus() else "info"
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
        return Check("nsys importer", "warning", error.problem, error.remedy)
    return Check("nsys importer", "ok" if importers else "info", str(importers[0]) if importers else "none found")


def _nvtx() -> Check:
    try:
        return Check("NVTX ranges", "ok", f"without nsys, through {NVTX.find().name}")
    except ToolMissing as error:
        return Check("NVTX ranges", "warning", error.problem, error.remedy)


def _cuda_calls() -> Check:
    if not tracefs.supported():
        return Check("CUDA calls", "info", "on this architecture only with nsys")
    if tracefs.kernel_crashed():
        found = "only with nsys: the kernel has crashed since it started, and may not survive probes"
        return Check("CUDA calls", "warning", found, "Restart the machine.")
    if os.geteuid():
        return Check("CUDA calls", "info", "only with nsys: pinprof needs root for uprobes")
    return Check("CUDA calls", "ok", "without nsys, through uprobes")


def _wakeups() -> Check:
    """Who ends a wait: a tracepoint of the scheduler tells."""
    name = "wake-ups"
    if os.geteuid():
        return Check(name, "info", "inferred: recording it needs root, for the scheduler's tracepoint")
    if tracefs.tracepoint(SCHED_WAKING) is None:
        return Check(name, "info", "inferred: this kernel does not show the tracepoint sched_waking")
    return Check(name, "ok", "recorded, by the scheduler's tracepoint sched_waking")


def _gpu_work() -> Check:
    try:
        library = CUPTI.find()
    except ToolMissing as error:
        return Check("GPU work", "warning", error.problem, error.remedy)
    files = candidates(sys.executable, os.environ)
    if not files:
        found = "without nsys, only in programs that bring CUPTI, such as those with PyTorch"
        return Check("GPU work", "info", found)
    return Check("GPU work", "ok", f"without nsys, through {library.name} and {files[0]}")


def _managed_memory() -> Check:
    text, remedy = beside.problem()
    if text:
        return Check("managed memory", "info", text, remedy if host.gpus() else "")
    return Check("managed memory", "ok", f"by the driver's events, through {driver.DEVICE}")


def _memory() -> Check:
    free = host.meminfo("MemAvailable")
    if free is None:
        return Check("memory", "info", "unknown")
    if free < _ROOMY_BYTES:
        return Check("memory", "warning", f"{format_bytes(free)} available", "Use a smaller --size.")
    return Check("memory", "ok", f"{format_bytes(free)} available")


def _syscall_errno(number: int, *arguments: int | None) -> int:
    """The errno of a system call that is called so that it must fail; 0 if it succeeded."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(number, *arguments)
    if result < 0:
        return ctypes.get_errno()
    os.close(result)
    return 0


CHECKS: tuple[Callable[[], Check], ...] = (
    _native,
    _permission,
    _perf,
    _kallsyms,
    _system_wide,
    _gpu,
    _driver,
    _cuda_python,
    _link,
    _thp,
    _numa,
    _memory,
    _memlock,
    _io_uring,
    _userfaultfd,
    _python_lines,
    _nsys,
    _nsys_shared,
    _nsys_importer,
    _nvtx,
    _cuda_calls,
    _wakeups,
    _gpu_work,
    _managed_memory,
)
