"""What CI systems run: the action, the template and their script, with a stand-in for Python that says what it got."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
ACTION, TEMPLATE, SCRIPT = ROOT / "action.yml", ROOT / "ci/pinprof.gitlab-ci.yml", ROOT / "ci/check.sh"
RELEASE = ROOT / ".github/workflows/release.yml"
STAND_IN = """#!/bin/sh
case "$*" in
*" pip "*) shift 3; for one; do printf 'pip %s\\n' "$one" >>called; done; exit 0 ;;
-c*) echo 00ff; exit 0 ;;
esac
for one; do
  printf '%s\\n' "$one" >>called
  case $one in --write=github=*) printf '::error title=a::b\\n' >"${one#*=github=}" ;; esac
done
echo '::error::said by a program'
exit "${STATUS:-0}"
"""
REPORTS = [
    f"--write={form}=pinprof-check/{name}"
    for form, name in (
        ("junit", "junit.xml"), ("sarif", "pinprof.sarif"), ("gitlab", "codequality.json"),
        ("markdown", "summary.md"), ("github", "annotations.txt"),
    )
]  # fmt: skip


class Job:
    """A working directory of a job, and what runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.called: list[str] = []
        (folder / "bin").mkdir()
        (folder / "bin/python3").write_text(STAND_IN)
        (folder / "bin/python3").chmod(0o755)

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command, by default the script, with such an environment."""
        (self.folder / "called").unlink(missing_ok=True)
        search = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            command or (SCRIPT,),
            cwd=self.folder,
            env={"PATH": search, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        called = self.folder / "called"
        self.called = called.read_text().splitlines() if called.exists() else []
        return done


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("schema", "path"), [("github-actions", ACTION), ("gitlab-ci", TEMPLATE), ("github-workflows", RELEASE)]
)
def test_the_files_have_the_form_that_their_systems_take(schema: str, path: Path, tmp_path: Path) -> None:
    import check_jsonschema

    # The schema of GitLab looks into no job whose name begins with a dot.
    text = path.read_text("utf-8").replace("\n.pinprof-check:", "\ncheck:")
    good, bad = (tmp_path / f"{name}.yml" for name in ("good", "bad"))
    good.write_text(text)
    bad.write_text(re.sub("using: composite|when: always|runs-on: .*", "when: a", text))
    words = ["--builtin-schema", f"vendor.{schema}"]
    told, refused = (CliRunner().invoke(check_jsonschema.main, [*words, str(one)]) for one in (good, bad))
    assert (told.exit_code, refused.exit_code) == (0, 1), told.output
    assert "Schema validation errors" in refused.output


def test_only_the_upload_of_a_release_may_prove_who_it_is() -> None:
    workflow = loaded(RELEASE)
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"}, "publish": {"id-token": "write"},
    }  # fmt: skip
    assert not any("run" in step for step in jobs["publish"]["steps"]), "no code of ours runs with that right"
    scripts = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def test_inputs_are_never_part_of_a_shell_script() -> None:
    action = loaded(ACTION)
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"]
    assert set(step["env"].values()) == {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    known = set(re.findall(r"^#   (PINPROF_\w+) ", SCRIPT.read_text(), re.MULTILINE))
    assert set(step["env"]) == set(loaded(TEMPLATE)[".pinprof-check"]["variables"]) == known
    assert known == set(re.findall(r"\$\{?(PINPROF_\w+)", SCRIPT.read_text()))


def test_the_template_holds_the_script_of_the_action() -> None:
    (script,) = loaded(TEMPLATE)[".pinprof-check"]["script"]
    assert script == SCRIPT.read_text()


def test_budgets_of_the_checkout_are_named_whoever_may_write_them(job: Job) -> None:
    def budget() -> list[str]:
        job.run(PINPROF_CAPTURES="a.pinprof")
        return [word for word in job.called if word.startswith("--budget")]

    assert budget() == []
    (job.folder / "pyproject.toml").write_text("[tool.ruff]\n")
    assert budget() == []
    (job.folder / "pyproject.toml").write_text("[[tool.pinprof.budget]]\npairs = 0\n")
    assert budget() == ["--budget=pyproject.toml"]
    (job.folder / "pinprof.toml").touch(0o666)
    assert budget() == ["--budget=pinprof.toml"]


def test_captures_are_judged_and_every_report_is_written(job: Job) -> None:
    (job.folder / "out").mkdir()
    for name in ("out/a 1.pinprof", "out/b.pinprof", "-o.pinprof"):
        (job.folder / name).touch()
    done = job.run(
        PINPROF_CAPTURES="out/*.pinprof\n*.pinprof\n", PINPROF_AGAINST="old/a b\nold/c", PINPROF_BUDGET="-my budgets",
        PINPROF_OPTIONS="--jobs=2\n*", PINPROF_ALLOW_UNASSESSABLE="true",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert job.called == [
        "-P", "-m", "pinprof", "check", "--budget=-my budgets", "--allow-unassessable", "--jobs=2", "*",
        "--against=old/a b", "--against=old/c", *REPORTS, "out/a 1.pinprof", "out/b.pinprof", "./-o.pinprof",
    ]  # fmt: skip


def test_a_command_is_run_by_the_shell_that_its_author_meant(job: Job) -> None:
    command = "python train.py --name 'a b' && echo $HOME"
    job.run(PINPROF_COMMAND=command, PINPROF_REPORTS="-here", PINPROF_BASELINE="old/train.py --fast")
    assert job.called[-4:] == ["--", "sh", "-c", command]
    assert "--baseline=old/train.py --fast" in job.called
    assert (job.folder / "-here/annotations.txt").exists()


@pytest.mark.parametrize(
    ("status", "outcome"), [("0", "holds"), ("3", "broken"), ("4", "not-assessable"), ("1", "error")]
)
def test_the_exit_status_is_that_of_the_check_and_an_output(status: str, outcome: str, job: Job) -> None:
    output = job.folder / "output"
    output.write_text("before=1\n")
    done = job.run(STATUS=status, PINPROF_CAPTURES="a", GITHUB_OUTPUT=str(output), GITHUB_ACTIONS="true")
    assert done.returncode == int(status)
    assert output.read_text() == f"before=1\nstatus={status}\noutcome={outcome}\n"


def test_github_reads_the_annotations_and_no_command_of_a_program(job: Job) -> None:
    said = job.run(PINPROF_CAPTURES="a", GITHUB_ACTIONS="true").stdout.splitlines()
    assert said == ["::stop-commands::00ff", "::error::said by a program", "::00ff::", "::error title=a::b"]
    assert job.run(PINPROF_CAPTURES="a").stdout.splitlines() == ["::error::said by a program"]


@pytest.mark.parametrize("name", ["PINPROF_CAPTURES", "PINPROF_BUDGET", "PINPROF_AGAINST", "PINPROF_OPTIONS"])
def test_no_variable_is_read_as_shell(name: str, job: Job) -> None:
    attack = "$(touch broken)`touch broken`;touch broken"
    job.run(**{name: attack})
    assert [word for word in job.called if word.endswith(attack)]
    assert not (job.folder / "broken").exists()


def test_pip_installs_what_is_named_and_nothing_else(job: Job) -> None:
    job.run(PINPROF_PACKAGE="pinprof==1.0 ; x", PINPROF_CAPTURES="a")
    assert job.called[:2] == ["pip --quiet", "pip pinprof==1.0 ; x"]
    job.run(PINPROF_CAPTURES="a")
    assert job.called[0] == "-P"


def test_the_action_installs_its_own_commit(job: Job) -> None:
    (step,) = loaded(ACTION)["runs"]["steps"]
    empty = dict.fromkeys(step["env"], "")
    done = job.run(step["shell"], "-e", "-c", step["run"], **empty, GITHUB_ACTION_PATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert job.called[:3] == ["pip --quiet", f"pip {ROOT}", "-P"]


def test_what_is_neither_true_nor_false_is_refused(job: Job) -> None:
    done = job.run(PINPROF_ALLOW_UNASSESSABLE="yes", PINPROF_CAPTURES="a")
    assert (done.returncode, job.called) == (2, [])
    assert "neither true nor false" in done.stderr


def test_reports_of_an_earlier_run_are_gone(job: Job) -> None:
    old = job.folder / "pinprof-check/junit.xml"
    old.parent.mkdir()
    old.write_text("old")
    job.run(PINPROF_CAPTURES="a", STATUS="1")
    assert not old.exists()


@pytest.mark.slow
def test_the_script_and_pinprof_understand_each_other(job: Job) -> None:
    (job.folder / "run.folded").write_text("main;asm_exc_page_fault_[k];do_anonymous_page_[k] 7001\nmain;read 3002\n")
    (job.folder / "pinprof.toml").write_text('[[budget]]\ncause = { fault = "20 %" }\n\n[[budget]]\npairs = 0\n')
    done = job.run(
        PINPROF_CAPTURES="*.folded", PINPROF_PYTHON=sys.executable, PYTHONPATH=str(ROOT), GITHUB_ACTIONS="true",
        GITHUB_OUTPUT="output", GITHUB_STEP_SUMMARY="summary",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")
    assert (job.folder / "output").read_text() == "status=3\noutcome=broken\n"
    stop, *said, resume, broken, unknown = done.stdout.splitlines()
    assert stop == f"::stop-commands::{resume.strip(':')}"
    assert said[0] == "1 of 2 budgets is broken, 1 is not assessable."
    assert broken.startswith("::error file=pinprof.toml,line=")
    assert unknown.startswith("::warning file=pinprof.toml,line=")
    reports = {path.name for path in (job.folder / "pinprof-check").iterdir()}
    assert reports == {word.rpartition("/")[2] for word in REPORTS}
    summary = (job.folder / "summary").read_text()
    assert summary == "\n" + (job.folder / "pinprof-check/summary.md").read_text()
