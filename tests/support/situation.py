"""`python situation.py WORD… -- COMMAND …` runs a command where something is forbidden, missing or full:

    refuse=EPERM:perf_event_open,bpf   a seccomp filter, as a container runtime's
    paranoid=3                         a level of kernel.perf_event_paranoid that permits nothing
    capabilities=chown,setuid          these alone, as in a container; user=65534 has none
    namespace=user|uts                 a user namespace with this user as its root; a container's name
    file=PATH:TEXT                     another content, in a mount namespace; `rofs=PATH` cannot be written,
                                       `tmpfs=PATH:OPTIONS` is a new and empty folder
    limit=NOFILE:16                    a resource limit
    closed=1                           a closed standard stream

It ends with UNAVAILABLE and says why where a situation cannot be made here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

UNAVAILABLE = 87
"""The exit status where a situation cannot be made."""
DOCKER = (
    "chown,dac_override,fsetid,fowner,mknod,net_raw,setgid,setuid,setfcap,setpcap,net_bind_service,sys_chroot,kill,"
    "audit_write"
)
"""Docker's default capabilities."""
PODMAN = "chown,dac_override,fowner,fsetid,kill,net_bind_service,setfcap,setgid,setpcap,setuid,sys_chroot"
"""Podman's."""
DENIED = "perf_event_open,bpf,userfaultfd,io_uring_setup,fanotify_init,mount,unshare,setns,kcmp,pidfd_getfd,syslog"
"""What Docker's default profile refuses and pinprof has a use for."""
GVISOR = "Linux~version~4.4.0~Sun~Jan~10~15:06:54~PST~2016"
"""What gVisor's /proc/version says; `~` stands for a blank."""
CAPABILITIES = (
    "chown,dac_override,dac_read_search,fowner,fsetid,kill,setgid,setuid,setpcap,linux_immutable,net_bind_service,"
    "net_broadcast,net_admin,net_raw,ipc_lock,ipc_owner,sys_module,sys_rawio,sys_chroot,sys_ptrace,sys_pacct,sys_admin,"
    "sys_boot,sys_nice,sys_resource,sys_time,sys_tty_config,mknod,lease,audit_write,audit_control,setfcap,mac_override,"
    "mac_admin,syslog,wake_alarm,block_suspend,audit_read,perfmon,bpf,checkpoint_restore"
)
"""All, in the order of their numbers."""
SITUATION = (sys.executable, "-S", __file__)
"""Begins a command in a situation: its words follow, then `--`."""
_CALLS = {
    "x86_64": {
        "perf_event_open": 298, "ptrace": 101, "process_vm_readv": 310, "bpf": 321, "userfaultfd": 323, "mount": 165,
        "unshare": 272, "setns": 308, "kcmp": 312, "fanotify_init": 300, "memfd_create": 319, "syslog": 103,
        "move_pages": 279, "mlock2": 325, "statx": 332, "flock": 73, "sched_setscheduler": 144,
    },
    "aarch64": {
        "perf_event_open": 241, "ptrace": 117, "process_vm_readv": 270, "bpf": 280, "userfaultfd": 282, "mount": 40,
        "unshare": 97, "setns": 268, "kcmp": 272, "fanotify_init": 262, "memfd_create": 279, "syslog": 116,
        "move_pages": 239, "mlock2": 284, "statx": 291, "flock": 32, "sched_setscheduler": 119,
    },
}  # fmt: skip
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_CALLS_EVERYWHERE = {"io_uring_setup": 425, "pidfd_open": 434, "pidfd_getfd": 438, "clone3": 435}
_NEWNS, _NEWUSER, _NEWUTS = 0x20000, 0x10000000, 0x4000000
_PRIVATE, _BIND, _REMOUNT, _READ_ONLY = 1 << 14 | 1 << 18, 1 << 12, 1 << 5, 1
_DROP_BOUND, _SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 24, 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000
_FIFTH_ARGUMENT, _CLOSE_ON_EXEC = 48, 8
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _must(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def refuse(value: str) -> None:
    """From now on, for this process and all that it starts."""
    name, _, calls = value.partition(":")
    known = _CALLS[platform.machine()] | _CALLS_EVERYWHERE
    steps = [(_LOAD, 0, 0, 0)]
    for call in calls.split(","):
        steps += [(_EQUAL, 0, 1, known[call]), (_RETURN, 0, 0, _ERRNO | getattr(errno, name))]
    _filter([*steps, (_RETURN, 0, 0, _ALLOW)])


def forbid_events(level: str) -> None:
    """As the kernel does: it refuses what is asked, and not the call as such."""
    known = _CALLS[platform.machine()]["perf_event_open"]
    asked = [(_LOAD, 0, 0, _FIFTH_ARGUMENT), (_EQUAL, 0, 1, _CLOSE_ON_EXEC), (_RETURN, 0, 0, _ERRNO | errno.EACCES)]
    _filter([(_LOAD, 0, 0, 0), (_EQUAL, 0, 3, known), *asked, (_RETURN, 0, 0, _ALLOW)])


def _filter(steps: list[tuple[int, int, int, int]]) -> None:
    """A filter of system calls (seccomp(2), struct sock_filter, struct seccomp_data)."""
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    _must(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _must(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(steps), code)), 0, 0), "seccomp")


def keep_capabilities(value: str) -> None:
    """A program that root executes then has no others."""
    kept = value.split(",")
    for number, name in enumerate(CAPABILITIES.split(",")):
        if name not in kept and _libc.prctl(_DROP_BOUND, number, 0, 0, 0) and ctypes.get_errno() != errno.EINVAL:
            raise OSError(ctypes.get_errno(), f"capabilities: {os.strerror(ctypes.get_errno())}")


def become(value: str) -> None:
    os.setgroups([])
    os.setgid(int(value))
    os.setuid(int(value))


def separate(value: str) -> None:
    user, group = os.getuid(), os.getgid()
    _must(_libc.unshare(_NEWUSER if value == "user" else _NEWUTS), "unshare")
    if value == "user":
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [os.fsencode(word) if word else None for word in (source, target, kind)]
    _must(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)), f"mount {target}")


def _own_mounts() -> None:
    _must(_libc.unshare(_NEWNS), "unshare")
    _mount("none", "/", flags=_PRIVATE)


def put(value: str) -> None:
    target, _, text = value.partition(":")
    _own_mounts()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        _mount(file.name, target, flags=_BIND)


def read_only(target: str) -> None:
    _own_mounts()
    _mount(target, target, flags=_BIND)
    _mount("none", target, flags=_BIND | _REMOUNT | _READ_ONLY)


def empty(value: str) -> None:
    target, _, options = value.partition(":")
    _own_mounts()
    # Options that are flags: the rest is the file system's.
    flags = 8 if "noexec" in options else 0
    _mount("tmpfs", target, "tmpfs", flags, ",".join(word for word in options.split(",") if word != "noexec"))


def limit(value: str) -> None:
    name, _, most = value.partition(":")
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (int(most), int(most)))


def close(value: str) -> None:
    os.close(int(value))


WORDS: dict[str, Callable[[str], None]] = {
    "namespace": separate, "file": put, "rofs": read_only, "tmpfs": empty, "limit": limit,
    "capabilities": keep_capabilities, "user": become, "paranoid": forbid_events, "refuse": refuse,
    "closed": close,
}  # fmt: skip
"""In the order in which they are done: each may forbid what stands before it."""


def main(words: list[str]) -> NoReturn:
    end = words.index("--")
    asked = [word.partition("=") for word in words[:end]]
    asked += [("file", "=", f"{PARANOID}:{level}") for name, _, level in asked if name == "paranoid"]
    try:
        for name, do in WORDS.items():
            for _, _, value in (word for word in asked if word[0] == name):
                do(value)
    except (OSError, KeyError, ValueError) as error:
        os.write(2, f"cannot be made here: {error}".encode())
        os._exit(UNAVAILABLE)
    os.execvp(words[end + 1], words[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
