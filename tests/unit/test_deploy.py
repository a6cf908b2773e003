"""What deploy/ has for containers, clusters and conda, by the systems' own schemas and parsers; run where it can be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinprof import __version__
from tests.support import seccomp_profile

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PROFILE = DEPLOY / "seccomp.json"
SRUN = """#!/bin/sh
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURMD_NODENAME=node$rank "$@" &
done
wait
"""
CALLS = """
import ctypes, errno, threading
libc = ctypes.CDLL(None, use_errno=True)
for call in (lambda: libc.unshare(0x10000000), lambda: libc.umount2(b"/nowhere", 0)):
    assert call() == -1 and ctypes.get_errno() == errno.EPERM
thread = threading.Thread(target=print, args=("a thread",))
thread.start()
thread.join()
"""


def pod_of(path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    spec: dict[str, Any] = manifest["spec"]
    return spec["template"]["spec"] if manifest["kind"] == "Job" else spec


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_have_the_form_that_kubernetes_takes(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    manifest = yaml.safe_load(path.read_text("utf-8"))
    validate.validate(manifest, "1.31.0", strict=True)
    with pytest.raises(validate.ValidationError):
        validate.validate(manifest | {"spec": manifest["spec"] | {"container": []}}, "1.31.0", strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_mounts_are_volumes_and_capabilities_are_those_of_the_documentation(path: Path) -> None:
    pod = pod_of(path)
    (container,) = (one for one in pod["containers"] if "securityContext" in one)
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    told = (ROOT / "docs/containers.md").read_text("utf-8")
    assert all(f"`--cap-add {name}`" in told for name in container["securityContext"]["capabilities"]["add"])
    assert container["securityContext"]["runAsUser"] == 0


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_options_in_manifests_are_those_of_the_command(path: Path) -> None:
    from pinprof.cli.record import command

    known = {name for option in command.params for name in option.opts}
    said = path.read_text("utf-8").replace('", "', " ").partition("pinprof record")[2]
    options = set(re.findall(r"(?<= )--?[a-z]+(?= )", said))
    assert {"-o", "--label"} <= options <= known


def behind_the_profile(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, seccomp_profile.__file__, str(PROFILE), *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == seccomp_profile.UNAVAILABLE:
        pytest.skip(done.stderr)
    return done


def test_the_seccomp_profile_refuses_what_it_names_and_lets_threads_start(tmp_path: Path) -> None:
    done = behind_the_profile(sys.executable, "-c", CALLS, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "a thread\n"), done.stderr


def test_a_program_is_recorded_behind_the_profile_as_without(tmp_path: Path) -> None:
    program = "import numpy\nfor _ in range(60): numpy.ones(1 << 22)"
    command = [
        sys.executable,
        "-m",
        "pinprof",
        "record",
        "--no-calibrate",
        "-o",
        "run",
        "--",
        sys.executable,
        "-c",
        program,
    ]
    done = behind_the_profile(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "seccomp" not in done.stderr
    assert json.loads((tmp_path / "run.pinprof/manifest.json").read_text("utf-8"))


def test_ranks_of_the_slurm_script_are_captures_in_one_folder(tmp_path: Path) -> None:
    """`srun` is a stand-in that starts two tasks with Slurm's variables."""
    (tmp_path / "bin").mkdir()
    for name, text in (("srun", SRUN), ("pinprof", f'#!/bin/sh\nexec {sys.executable} -m pinprof "$@"\n')):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "4711",
    }
    command = ["bash", DEPLOY / "slurm.sh", sys.executable, "-c", "print(sum(range(10**6)))"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("499999500000\n") == 2
    found = {path.name: json.loads((path / "manifest.json").read_text("utf-8")) for path in tmp_path.rglob("*.pinprof")}
    assert sorted(found) == ["rank-0.pinprof", "rank-1.pinprof"]
    assert [found[name]["labels"] for name in sorted(found)] == [
        {"host": f"node{rank}", "job": "4711"} for rank in range(2)
    ]


def test_the_image_installs_what_its_build_is_given_and_starts_a_command_that_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^(ARG|FROM|RUN|CMD|ENTRYPOINT)", text, re.MULTILINE) == ["ARG", "FROM", "ARG", "RUN", "CMD"]
    from pinprof.cli import COMMANDS

    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    assert json.loads(command)[1] in COMMANDS


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = yaml.safe_load((DEPLOY / "conda/recipe.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = [re.sub(r" ;.*|(?<=\w)(?=>=)", lambda match: " " if not match[0] else "", one).lower() for one in (
        *project["project"]["dependencies"], f"python{project['project']['requires-python']}",
    )]  # fmt: skip
    run = [one["then"] if isinstance(one, dict) else one for one in recipe["requirements"]["run"]]
    assert sorted(run) == sorted(needed)
    assert {"setuptools >=77", "pyelftools >=0.31"} <= set(recipe["requirements"]["host"])
    assert recipe["context"]["version"] == __version__
    assert recipe["about"]["license_file"] == project["project"]["license-files"]


def test_rattler_build_takes_the_conda_recipe() -> None:
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed")
    recipe = rattler.Stage0Recipe.from_yaml((DEPLOY / "conda/recipe.yaml").read_text("utf-8"))
    variant = {"python": ["3.12"], "c_compiler": ["gcc"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.17"]}
    (made,) = recipe.render(rattler.VariantConfig(variant))
    assert made.recipe.package.version == __version__
    assert "backports.zstd >=1" in made.recipe.requirements.run
