"""What the kernel lets us do with the programs that we record, asked by trying it, and what lets us do more.

Both the recorders and `pinprof doctor` decide by these functions, and say what they say.
"""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

from pinprof.base.errors import CollectError
from pinprof.collect.native import perf_event as pe
from pinprof.collect.python_frames import memory
from pinprof.data import perf_format as perf
from pinprof.machine import small_files
from pinprof.machine.whereabouts import CAPABILITIES, Whereabouts, here

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
KPTR_RESTRICT = Path("/proc/sys/kernel/kptr_restrict")
KALLSYMS = Path("/proc/kallsyms")
_USER_ONLY, _KERNEL, _EVERYTHING = 2, 1, 0
"""The highest levels of kernel.perf_event_paranoid that permit samples of a program's own code, of the kernel's part,
and of every process."""
_YAMA_NOBODY = 3
"""The value of kernel.yama.ptrace_scope at which no capability helps."""
_HIDDEN_FROM_ALL = 2
"""The value of kernel.kptr_restrict likewise."""


def paranoid() -> int | None:
    """kernel.perf_event_paranoid; None when the kernel has no perf events."""
    return small_files.number(PARANOID)


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


def filtered() -> bool:
    """Whether a seccomp filter refuses perf_event_open: it does before the kernel looks at what is asked."""
    attr = pe.EventAttr(perf.TYPE_SOFTWARE, pe.SW_CPU_CLOCK, 0)
    try:
        os.close(pe.open_event(attr, 0, -1, flags=-1))
    except OSError as error:
        return error.errno != errno.EINVAL and here().filtered
    return False


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
    return any(granted >> CAPABILITIES[name] & 1 for name in ("SYS_ADMIN", "PERFMON"))


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
            others(),
            "pid",
        )


def others() -> str:
    """What lets pinprof look into a process of another user, or with more privileges (ptrace(2))."""
    more = "Run pinprof with all capabilities that the process has."
    return "Run pinprof as root, or as the process's user." if os.geteuid() else more


def buffers_refused(tool: str) -> CollectError:
    """What to say where the kernel does not let a tool lock memory."""
    return CollectError(
        f"{tool} is not permitted to lock enough memory for its buffers.",
        _either(here().setting("kernel.perf_event_mlock_kb=8192"), "Run `ulimit -l unlimited`."),
        "perf-memlock",
    )


def refusal(number: int, *, system_wide: bool, user: bool = False) -> CollectError:
    """What to say about an errno of perf_event_open(2); `user`: not even the program's own code may be sampled."""
    level, place = paranoid(), here()
    if level is None:
        if place.kind == "gVisor":
            return _denied("gVisor has no perf events.", place.flags("PERFMON"))
        remedy = "Use a kernel with CONFIG_PERF_EVENTS, or record on the container's host."
        return _denied("This kernel has no perf events.", remedy)
    what = "every process" if system_wide else "programs" if user else "the kernel's part of a program"
    problem, wanted = f"pinprof is not permitted to sample {what}", _EVERYTHING if system_wide else _KERNEL
    if filtered():
        why = f"a seccomp filter refuses perf_event_open ({os.strerror(number)})"
        return _denied(f"{problem}: {why}.", _through_the_filter(place, level, wanted))
    setting = f"kernel.perf_event_paranoid is {level}"
    if level <= (_USER_ONLY if user else wanted):
        why = f"perf_event_open fails with {os.strerror(number)} although {setting}"
        remedy = "Look for the refusal of a security module, such as SELinux, in the kernel's log (`dmesg`)."
        return _denied(f"{problem}: {why}.", remedy)
    by_command = place.setting(f"kernel.perf_event_paranoid={wanted}")
    if place.user_namespace:
        why, remedy = f"{setting}, and capabilities of a user namespace do not count", by_command
    elif place.slurm or place.provider:
        why, remedy = setting, by_command
    elif place.contained:
        why, remedy = f"{setting}, and the container has no CAP_PERFMON", place.flags("PERFMON")
    else:
        why = f"{setting}, and root has no CAP_PERFMON here" if place.root else setting
        remedy = _either(by_command, place.flags("PERFMON"))
    return _denied(f"{problem}: {why}.", remedy)


def _through_the_filter(place: Whereabouts, level: int, wanted: int) -> str:
    """How perf_event_open comes through a seccomp filter. The runtimes' own filters let it pass with CAP_PERFMON."""
    if not place.contained:
        return place.flags("PERFMON", unconfined=True)
    if not (place.user_namespace or place.holds("PERFMON")):
        return place.flags("PERFMON")
    more = place.user_namespace and level > wanted
    return place.flags(unconfined=True) + (f" {place.setting(f'kernel.perf_event_paranoid={wanted}')}" if more else "")


def forbidden() -> str:
    """Why another process's memory may not be read here; empty when it may (process_vm_readv(2), Yama)."""
    if number := memory.refused():
        return f"process_vm_readv fails with {os.strerror(number)}"
    scope = small_files.number(PTRACE_SCOPE) or 0
    # The reader is a sibling of the program. A capability counts in its own user namespace.
    permitted = scope == 0 or (scope < _YAMA_NOBODY and here().holds("SYS_PTRACE"))
    return "" if permitted else f"kernel.yama.ptrace_scope is {scope}"


def allow() -> str:
    """What lets pinprof read another process's memory here."""
    place, scope = here(), small_files.number(PTRACE_SCOPE) or 0
    if memory.refused():
        return place.flags("SYS_PTRACE", unconfined=not place.contained)
    if scope >= _YAMA_NOBODY:
        return "Restart the machine with a lower kernel.yama.ptrace_scope: 3 stays until then."
    by_right = place.flags("SYS_PTRACE")
    return by_right if place.contained else _either(place.setting("kernel.yama.ptrace_scope=0"), by_right)


def symbols_hidden() -> CollectError:
    """What to say where /proc/kallsyms shows no addresses (kallsyms_show_value, kernel/ksyms_common.c)."""
    place, restrict = here(), small_files.number(KPTR_RESTRICT)
    no_names = "so kernel frames have no names"
    if not KALLSYMS.exists():
        remedy = (
            place.flags("SYSLOG") if place.kind == "gVisor"
            else "Use a kernel with CONFIG_KALLSYMS." if Path("/proc/self").exists()
            else "Run `mount -t proc proc /proc`."
        )  # fmt: skip
        return _denied(f"There is no {KALLSYMS} here, {no_names}.", remedy)
    if restrict == _HIDDEN_FROM_ALL:
        why = f"kernel.kptr_restrict is {restrict}, which hides the kernel's addresses from root as well"
        return _denied(f"{why}, {no_names}.", place.setting("kernel.kptr_restrict=1"))
    if place.may("SYSLOG"):
        problem = f"{KALLSYMS} shows no addresses, although pinprof has CAP_SYSLOG, {no_names}."
        return _denied(problem, f"Look for a mount over it (`findmnt {KALLSYMS}`), or for a security module (`dmesg`).")
    level = f", kernel.perf_event_paranoid is {paranoid()}" if restrict == 0 and paranoid() is not None else ""
    problem = f"The kernel hides its addresses (kernel.kptr_restrict is {restrict}{level}), {no_names}."
    by_command = place.setting("kernel.kptr_restrict=0", "kernel.perf_event_paranoid=1")
    if place.user_namespace or place.slurm:
        return _denied(problem, by_command)
    by_right = place.flags("SYSLOG")
    return _denied(problem, by_right if place.contained else _either(by_command, by_right))


def probes_refused() -> str:
    """Why uprobes and tracepoints cannot be used here by what this process is; empty where it may try."""
    place = here()
    if place.user_namespace:
        return "uprobes need root outside of a user namespace"
    if place.holds("SYS_ADMIN"):
        return ""
    return "uprobes need CAP_SYS_ADMIN, which root does not have here" if place.root else "uprobes need root"


def _denied(problem: str, remedy: str) -> CollectError:
    return CollectError(problem, remedy, "perf-permission")


def _either(first: str, second: str) -> str:
    """Two sentences of which one is to be followed."""
    return f"{first[:-1]}, or {second[0].lower()}{second[1:]}"
