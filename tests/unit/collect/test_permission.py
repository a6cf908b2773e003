"""What is said where the kernel does not permit something: by what forbids it, and by the place."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pinprof.collect import kallsyms, permission
from pinprof.collect.python_frames import memory
from pinprof.machine.whereabouts import CAPABILITIES, Whereabouts

PERFMON = 1 << CAPABILITIES["PERFMON"]
At = Whereabouts
BY_COMMAND = "sudo sysctl kernel.perf_event_paranoid=1"


def at(monkeypatch: pytest.MonkeyPatch, place: At, level: int | None = 2, *, filtered: bool = False) -> None:
    monkeypatch.setattr(permission, "here", lambda: place)
    monkeypatch.setattr(permission, "paranoid", lambda: level)
    monkeypatch.setattr(permission, "filtered", lambda: filtered)


@pytest.mark.parametrize(
    ("place", "level", "filtered", "number", "said", "unsaid"),
    [
        (At(), 2, False, errno.EACCES, ["is 2.", f"Run `{BY_COMMAND}`, or run pinprof as root"], ["root has no"]),
        (At(), 4, False, errno.EACCES, ["is 4.", BY_COMMAND], ["docker"]),
        (At(root=True), 2, False, errno.EACCES, ["root has no CAP_PERFMON here", BY_COMMAND], ["as root"]),
        (At(), 1, False, errno.EACCES, ["although kernel.perf_event_paranoid is 1", "dmesg"], ["sysctl"]),
        (At(), 1, True, errno.EPERM, ["seccomp", "--cap-add PERFMON", "SystemCallFilter"], ["paranoid"]),
        (At(), 2, True, errno.ENOSYS, ["seccomp", "Function not implemented"], ["paranoid"]),
        (At("Docker", root=True), 2, True, errno.EPERM, ["docker run --cap-add PERFMON`"], ["unconfined", "--user"]),
        (At("Docker"), 2, True, errno.EPERM, ["docker run --cap-add PERFMON --user 0`"], ["unconfined"]),
        (At("Docker", effective=PERFMON, root=True), 2, True, 1, ["seccomp=unconfined`"], ["cap-add", "sysctl"]),
        (At("Podman", user_namespace=True, effective=PERFMON), 2, True, 1, ["unconfined", BY_COMMAND], ["cap-add"]),
        (At("Podman", user_namespace=True), 1, True, 1, ["podman run --security-opt"], ["sysctl", "cap-add"]),
        (At(user_namespace=True, root=True), 2, False, 13, ["do not count", f"On the host, run `{BY_COMMAND}`"], []),
        (At("Kubernetes", user_namespace=True), 2, False, 13, [f"On the node, run `{BY_COMMAND}`"], ["add:"]),
        (At("Kubernetes"), 2, True, 1, ["add: [PERFMON]", "runAsUser: 0", "restricted"], ["sysctl"]),
        (At(slurm=True), 2, False, 13, ["Ask the cluster's administrators to run `sysctl"], ["sudo", "as root"]),
        (At("Docker", "RunPod", root=True), 2, True, 1, ["RunPod chooses", "virtual machine"], ["docker run"]),
        (At("Apptainer"), 2, False, 13, ["apptainer capability add --user $USER CAP_PERFMON"], ["docker"]),
        (At("gVisor"), None, False, errno.ENODEV, ["gVisor has no perf events", "--runtime=runc"], []),
        (At("WSL2"), 2, False, 13, [f"Run `{BY_COMMAND}`, or"], ["host"]),
        (At(), None, False, errno.ENOSYS, ["no perf events"], ["gVisor"]),
    ],
)
def test_a_refusal_of_samples_names_what_forbids_them_and_what_permits_them_in_this_place(
    place: At,
    level: int | None,
    filtered: bool,
    number: int,
    said: list[str],
    unsaid: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at(monkeypatch, place, level, filtered=filtered)
    text = str(permission.refusal(number, system_wide=False))
    assert [word for word in said if word not in text] == [], text
    assert [word for word in unsaid if word in text] == [], text


def test_system_wide_needs_a_lower_level(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, At(), 1)
    assert "perf_event_paranoid=0" in str(permission.refusal(errno.EACCES, system_wide=True))


@pytest.mark.parametrize(
    ("place", "restrict", "said", "unsaid"),
    [
        (
            At(root=True),
            2,
            "from root as well, so kernel frames have no names. Run `sudo sysctl kernel.kptr",
            "as root,",
        ),
        (At(root=True), 1, "or run pinprof with CAP_SYSLOG.", "as root"),
        (At(), 0, "sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1`, or run pinprof as root", "docker"),
        (At("Docker", root=True), 1, "docker run --cap-add SYSLOG`", "sysctl kernel"),
        (At("Podman", user_namespace=True, root=True), 1, "On the host, run `sudo sysctl kernel.kptr", "cap-add"),
        (At("Docker", root=True), 2, "On the host, run `sudo sysctl kernel.kptr_restrict=1`", "cap-add"),
    ],
)
def test_hidden_addresses_name_what_hides_them(
    place: At, restrict: int, said: str, unsaid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, place)
    (tmp_path / "restrict").write_text(f"{restrict}\n")
    monkeypatch.setattr(permission, "KPTR_RESTRICT", tmp_path / "restrict")
    text = str(permission.symbols_hidden())
    assert said in text
    assert unsaid not in text


def test_a_kernel_without_symbols_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "KALLSYMS", tmp_path / "kallsyms")
    monkeypatch.setattr(kallsyms, "SOURCE", tmp_path / "kallsyms")
    assert "There is no" in kallsyms.save(tmp_path)


@pytest.mark.parametrize(
    ("scope", "place", "reason", "cure"),
    [
        (0, At(), "", ""),
        (1, At(root=True, effective=1 << 19), "", ""),
        (1, At(user_namespace=True, effective=1 << 19), "", ""),
        (1, At(root=True), "ptrace_scope is 1", "Run `sudo sysctl kernel.yama.ptrace_scope=0`, or run pinprof with"),
        (1, At("Docker", root=True), "ptrace_scope is 1", "docker run --cap-add SYS_PTRACE`"),
        (3, At(root=True, effective=1 << 19), "ptrace_scope is 3", "Restart the machine"),
    ],
)
def test_what_keeps_from_another_process_is_told_by_scope_and_capability(
    scope: int, place: At, reason: str, cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, place)
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(permission, "PTRACE_SCOPE", tmp_path / "scope")
    monkeypatch.setattr(memory, "refused", lambda: 0)
    assert permission.forbidden() == (f"kernel.yama.{reason}" if reason else "")
    assert not reason or cure in permission.allow()


def test_a_system_call_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, At("Docker", root=True))
    monkeypatch.setattr(memory, "refused", lambda: errno.ENOSYS)
    assert permission.forbidden() == "process_vm_readv fails with Function not implemented"
    assert "docker run --cap-add SYS_PTRACE" in permission.allow()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (At(root=True, effective=1 << 21), ""),
        (At(root=True), "CAP_SYS_ADMIN, which root does not have here"),
        (At(), "uprobes need root"),
        (At(root=True, effective=1 << 21, user_namespace=True), "outside of a user namespace"),
    ],
)
def test_probes_ask_for_what_is_missing(place: At, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, place)
    assert said in permission.probes_refused()
    assert bool(said) == bool(permission.probes_refused())
