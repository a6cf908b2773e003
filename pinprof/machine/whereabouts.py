"""Where this process runs: a machine, a container, a cluster, a cloud; and how one gives it more rights there.

Capabilities are those that the kernel's own checks see: of a user namespace they do not count. Sources: the files that
Docker, Podman and Kubernetes put into each container, user_namespaces(7), gVisor's and WSL's kernel releases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pinprof.base.lazy_dataclass import dataclass
from pinprof.machine import small_files

CAPABILITIES = {"IPC_LOCK": 14, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "SYSLOG": 34, "PERFMON": 38}
"""Those that pinprof has a use for (capabilities(7))."""

Kind = Literal["Docker", "Podman", "Kubernetes", "Apptainer", "container", "gVisor", "WSL2", "machine"]
_TITLES: Mapping[Kind, str] = {
    "Docker": "a Docker container", "Podman": "a Podman container", "Kubernetes": "a container of Kubernetes",
    "Apptainer": "an Apptainer container", "container": "a container", "gVisor": "a gVisor sandbox",
    "WSL2": "WSL2", "machine": "a machine",
}  # fmt: skip
_RENTED = {"RUNPOD_POD_ID": "RunPod", "VAST_CONTAINERLABEL": "Vast.ai"}
"""Variables of providers that start containers by themselves."""
_ROOT = Path("/")
_ALL_USERS = 0xFFFFFFFF
_INITIAL = {"uts": 0xEFFFFFFE, "ipc": 0xEFFFFFFF, "pid": 0xEFFFFFFC}
"""The namespaces of the machine itself, by number (include/linux/proc_ns.h)."""
_GVISOR_VERSION = "Sun Jan 10 15:06:54 PST 2016"
"""Of gVisor's kernel, in every release."""


@dataclass(frozen=True)
class Whereabouts:
    """Where a process runs, and what it may do by itself."""

    kind: Kind = "machine"
    provider: str = ""
    """Who starts the container, where its user cannot choose its flags."""
    slurm: bool = False
    user_namespace: bool = False
    root: bool = False
    effective: int = 0
    """Its capabilities, a bit for each."""
    filtered: bool = False
    """It has a seccomp filter."""

    @property
    def contained(self) -> bool:
        """Whether settings of the kernel are another machine's to change."""
        return self.kind not in ("machine", "WSL2")

    @property
    def title(self) -> str:
        """As a sentence names it."""
        words = [f"a container of {self.provider}" if self.provider else _TITLES[self.kind]]
        words += ["in a job of Slurm"] if self.slurm else []
        words += ["in a user namespace"] if self.user_namespace else []
        return ", ".join(words)

    def holds(self, capability: str) -> bool:
        """Whether it has a capability in its own user namespace."""
        return bool(self.effective >> CAPABILITIES[capability] & 1)

    def may(self, capability: str) -> bool:
        """Whether the kernel grants it what a capability permits on the whole machine."""
        return not self.user_namespace and self.holds(capability)

    def setting(self, *assignments: str) -> str:
        """Who has to change settings of the kernel, and how."""
        command = f"sysctl {' '.join(assignments)}"
        if self.provider:
            return (
                f"{self.provider} sets this for its machines: rent a virtual machine, and run `sudo {command}` there."
            )
        if self.slurm:
            return f"Ask the cluster's administrators to run `{command}` on its nodes."
        if self.kind == "Kubernetes":
            return f"On the node, run `sudo {command}`."
        below = self.contained or self.user_namespace
        return f"On the host, run `sudo {command}`." if below else f"Run `sudo {command}`."

    def flags(self, *capabilities: str, unconfined: bool = False) -> str:
        """How to start it with capabilities, or without its seccomp filter."""
        if self.provider:
            return f"{self.provider} chooses the flags of its containers: rent a virtual machine."
        if self.kind == "gVisor":
            return "Start the container with `--runtime=runc` (Kubernetes: without this runtimeClassName)."
        if self.kind == "Kubernetes":
            return self._security_context(capabilities, unconfined=unconfined)
        if self.kind == "Apptainer":
            return self._apptainer(capabilities)
        if self.contained:
            flags = [f"--cap-add {name}" for name in capabilities]
            flags += ["--security-opt seccomp=unconfined"] if unconfined else []
            flags += ["--user 0"] if not self.root and capabilities else []
            return self._run(*flags)
        names = " and ".join(f"CAP_{name}" for name in capabilities)
        if unconfined:
            tried = f"`docker run --cap-add {capabilities[0]}`, or if that does not help, with " if capabilities else ""
            return (
                f"In a container, start it with {tried}`{'' if tried else 'docker run '}--security-opt "
                "seccomp=unconfined`; in a service of systemd, change its SystemCallFilter."
            )
        return f"Run pinprof with {names}." if self.root else f"Run pinprof as root, or with {names}."

    def locked_memory(self) -> str:
        """How to let it lock more memory."""
        if self.kind == "Kubernetes" or self.provider:
            return self.flags("IPC_LOCK")
        if self.kind in ("Docker", "Podman", "container", "gVisor"):
            return self._run("--ulimit memlock=-1")
        if self.slurm:
            return "Ask the cluster's administrators for `PropagateResourceLimitsExcept=MEMLOCK` in slurm.conf."
        return "Run `ulimit -l unlimited`, or raise `memlock` in /etc/security/limits.conf."

    def _run(self, *flags: str) -> str:
        return f"Start the container with `{'podman' if self.kind == 'Podman' else 'docker'} run {' '.join(flags)}`."

    def _security_context(self, capabilities: tuple[str, ...], *, unconfined: bool) -> str:
        parts = [f"capabilities: {{add: [{', '.join(capabilities)}]}}"] if capabilities else []
        parts += ["seccompProfile: {type: Unconfined}"] if unconfined else []
        # A user's process gets no capability from the container.
        parts += ["runAsUser: 0"] if not self.root and capabilities else []
        return (
            f"In the container's securityContext, set `{', '.join(parts)}`; the policies baseline and restricted "
            "forbid that, so use a namespace with the policy privileged."
        )

    def _apptainer(self, capabilities: tuple[str, ...]) -> str:
        names = ",".join(f"CAP_{name}" for name in capabilities)
        if not names:
            return "Start the container without `--security seccomp`."
        return (
            f"Have an administrator run `apptainer capability add --user $USER {names}`, and start the container with "
            f"`--add-caps {names}`."
        )


def here(environment: Mapping[str, str] = os.environ) -> Whereabouts:
    """The place of this process."""
    status = _read("proc/self/status")
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    seccomp = re.search(r"^Seccomp:\s*2", status, re.MULTILINE)
    # `inside outside count` of each range: all users, as they are, without a namespace.
    users = [[int(word) for word in line.split()] for line in _read("proc/self/uid_map").splitlines()]
    return Whereabouts(
        kind=_kind(environment),
        provider=next((name for variable, name in _RENTED.items() if environment.get(variable)), ""),
        slurm="SLURM_JOB_ID" in environment,
        user_namespace=bool(users) and users != [[0, 0, _ALL_USERS]],
        root=os.geteuid() == 0,
        effective=int(effective[1], 16) if effective else 0,
        filtered=seccomp is not None,
    )


def _kind(environment: Mapping[str, str]) -> Kind:
    release, named, mounts = os.uname().release.lower(), environment.get("container", ""), _read("proc/self/mountinfo")
    known: tuple[tuple[Kind, bool], ...] = (
        ("gVisor", "gvisor" in release or _GVISOR_VERSION in _read("proc/version")),
        ("Kubernetes", "KUBERNETES_SERVICE_HOST" in environment or "/kubelet/pods/" in mounts),
        ("Apptainer", "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment),
        ("Podman", named == "podman" or _left("run/.containerenv")),
        ("Docker", named == "docker" or _left(".dockerenv") or "/docker/containers/" in mounts),
        ("container", bool(named) or "/containerd/" in mounts or "/containers/storage/" in mounts),
        ("WSL2", "microsoft" in release),
    )
    return next((kind for kind, true in known if true), "machine")


def _left(file: str) -> bool:
    """Whether a container's runtime has left a file; a virtual machine that was made of an image may have it too."""
    try:
        initial = all((_ROOT / "proc/self/ns" / name).stat().st_ino == number for name, number in _INITIAL.items())
    except OSError:
        initial = False
    return (_ROOT / file).exists() and not initial


def _read(path: str) -> str:
    return small_files.text(_ROOT / path) or ""
