"""Where a process runs, by what containers, clusters and kernels leave for it to see."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinprof.machine import whereabouts
from pinprof.machine.whereabouts import Whereabouts, here

STATUS = "Name:\tx\nCapEff:\t0000004000200000\nSeccomp:\t{}\n"
INITIAL = "         0          0 4294967295\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own `/`, of a machine."""
    own = tmp_path / "proc/self"
    own.mkdir(parents=True)
    (own / "status").write_text(STATUS.format(0))
    (own / "uid_map").write_text(INITIAL)
    (own / "mountinfo").write_text("22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n")
    monkeypatch.setattr(whereabouts, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="6.8.0-45-generic"))
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "files", "environment", "release"),
    [
        ("machine", {}, {}, ""),
        ("Docker", {".dockerenv": ""}, {}, ""),
        (
            "Docker",
            {"proc/self/mountinfo": "9 8 0:5 /var/lib/docker/containers/4/hosts /etc/hosts rw - ext4 /d rw"},
            {},
            "",
        ),
        ("Podman", {"run/.containerenv": ""}, {}, ""),
        ("Podman", {}, {"container": "podman"}, ""),
        ("Kubernetes", {".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ""),
        (
            "Kubernetes",
            {"proc/self/mountinfo": "9 8 0:5 /var/lib/kubelet/pods/4/etc-hosts /etc/hosts rw - a b c"},
            {},
            "",
        ),
        ("Apptainer", {}, {"APPTAINER_CONTAINER": "/a.sif"}, ""),
        ("Apptainer", {}, {"SINGULARITY_CONTAINER": "/a.sif"}, ""),
        ("container", {}, {"container": "lxc"}, ""),
        ("gVisor", {"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"}, {}, "4.4.0"),
        ("gVisor", {".dockerenv": ""}, {}, "4.19.0-gvisor"),
        ("WSL2", {}, {}, "5.15.167.4-microsoft-standard-WSL2"),
        ("Docker", {".dockerenv": ""}, {}, "5.15.167.4-microsoft-standard-WSL2"),
    ],
)
def test_a_place_is_known_by_what_it_leaves(
    kind: str,
    files: dict[str, str],
    environment: dict[str, str],
    release: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    if release:
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    assert here(environment).kind == kind


def test_a_machine_that_was_made_of_a_containers_image_is_a_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".dockerenv").touch()
    (root / "proc/self/ns").mkdir()
    for name in whereabouts._INITIAL:
        (root / "proc/self/ns" / name).touch()
    inodes = {name: (root / "proc/self/ns" / name).stat().st_ino for name in whereabouts._INITIAL}
    monkeypatch.setattr(whereabouts, "_INITIAL", inodes)
    assert here({}).kind == "machine"
    monkeypatch.setattr(whereabouts, "_INITIAL", {**inodes, "uts": 0})
    assert here({}).kind == "Docker"


def test_rights_are_those_that_count(root: Path) -> None:
    own = here({"SLURM_JOB_ID": "7", "RUNPOD_POD_ID": "x"})
    assert (own.slurm, own.provider, own.user_namespace, own.filtered) == (True, "RunPod", False, False)
    assert (own.may("PERFMON"), own.may("SYS_ADMIN"), own.may("SYSLOG")) == (True, True, False)
    (root / "proc/self/uid_map").write_text("         0       1000          1\n")
    (root / "proc/self/status").write_text(STATUS.format(2))
    own = here({})
    assert (own.user_namespace, own.filtered, own.may("PERFMON"), own.holds("PERFMON")) == (True, True, False, True)


def test_a_place_that_shows_nothing_of_itself_has_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "_ROOT", tmp_path / "nothing")
    own = here({})
    assert (own.effective, own.user_namespace, own.filtered) == (0, False, False)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (Whereabouts("Docker"), "docker run --ulimit memlock=-1"),
        (Whereabouts("Podman"), "podman run --ulimit memlock=-1"),
        (Whereabouts("gVisor"), "docker run --ulimit memlock=-1"),
        (Whereabouts("Docker", provider="RunPod"), "RunPod chooses the flags of its containers"),
        (Whereabouts("Kubernetes", root=True), "add: [IPC_LOCK]"),
        (Whereabouts(slurm=True), "PropagateResourceLimitsExcept=MEMLOCK"),
        (Whereabouts(), "ulimit -l unlimited"),
    ],
)
def test_locked_memory_is_raised_where_the_place_sets_it(own: Whereabouts, said: str) -> None:
    assert said in own.locked_memory()


def test_a_place_is_named_with_what_it_is_in() -> None:
    assert Whereabouts("Podman", user_namespace=True).title == "a Podman container, in a user namespace"
    assert Whereabouts(slurm=True).title == "a machine, in a job of Slurm"
    assert Whereabouts("Docker", "Vast.ai").title == "a container of Vast.ai"
