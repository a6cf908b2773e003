"""Options from the settings of a project."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from pinprof.base.errors import UsageError
from pinprof.base.settings import COMMANDS
from pinprof.cli import cli, main
from pinprof.cli.defaults import defaults_of

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(command: str) -> dict[str, object]:
    module = cli.get_command(click.Context(cli), command)
    assert module is not None
    return defaults_of(module, command)


def parsed(words: list[str]) -> dict[str, object]:
    """What a command would be called with."""
    with cli.make_context("pinprof", words) as context:
        name, command, others = cli.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        with command.make_context(name, others, parent=context) as inner:
            return inner.params


def test_every_kind_of_option_can_be_set_and_the_command_line_wins(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[tool.pinprof.record]\nfrequency = 1999\nno-off-cpu = true\ngpu = 'cupti'\nlabel = ['team=vision']\n"
    )
    given = parsed(["record", "--", "true"])
    assert (given["frequency"], given["off_cpu"], given["gpu"]) == (1999, False, "cupti")
    assert given["labels"] == ("team=vision",)
    given = parsed(["record", "--frequency", "49", "--label", "a=b", "--", "true"])
    assert (given["frequency"], given["labels"], given["gpu"]) == (49, ("a=b",), "cupti")
    given = parsed(["--no-settings", "record", "--", "true"])
    assert (given["frequency"], given["off_cpu"], given["labels"]) == (999, True, ())


def test_each_command_has_its_own_table_in_the_nearest_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pinprof.toml").write_text("[report]\nformat = 'json'\n[[budget]]\npairs = 0\n[run]\nsize = '1MiB'\n")
    inner = project / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert found("report") == {"form": "json"}
    assert found("run") == {"size": "1MiB"}
    assert found("record") == {}


@pytest.mark.slow
def test_a_report_is_written_as_the_settings_say(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pinprof.toml").write_text("[report]\nformat = 'json'\n")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(DATA / "cases/host_churn.pinprof.tar.xz")])
    assert not ended.value.code
    assert "headline" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[record]\nfrequenzy = 9", "unknown key 'frequenzy'. Did you mean 'frequency'?"),
        ("[record]\nfault_period = 9", "unknown key 'fault_period'. Did you mean 'fault-period'?"),
        ("[recordd]\nfrequency = 9", "table 'recordd' that pinprof does not know. Did you mean 'record'?"),
        ("record = 3", "[record] is not a table"),
        ("[record]\nfrequency = 'fast'", "[record]: frequency is not valid: 'fast' is not a valid integer"),
        ("[record]\nfrequency = inf", "[record]: frequency is not valid: 'inf' is not a valid integer"),
        ("[record]\nfrequency = 1999.7", "[record]: frequency is not valid: '1999.7' is not a valid integer"),
        ("[record]\nfrequency = [9]", "[record]: frequency is not valid. Write one value."),
        ("[record]\nlabel = 'a=b'", "label is not valid. Write a list"),
        ("[record]\nno-off-cpu = 'yes'", "no-off-cpu is not valid. Write true or false."),
        ("[record]\noutput = '/etc/passwd'", "Give --output on the command line only."),
        ("[record]\nforce = true", "Give --force on the command line only."),
    ],
)
def test_what_cannot_be_meant_is_refused(project: Path, text: str, said: str) -> None:
    (project / "pinprof.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        found("record")
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["[record\n", "[record]\nfrequenzy = 9", "record = 3", "\0"])
def test_settings_above_that_cannot_be_meant_stop_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (project / "pinprof.toml").write_text(text)
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    assert found("record") == {}
    said = capsys.readouterr().err
    assert said.startswith(str(project / "pinprof.toml"))
    assert said.endswith("None of its settings are used.\n")


def test_settings_that_others_can_write_are_left_out_and_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pinprof.toml").write_text("[record]\nsystem-wide = true\n")
    (project / "pinprof.toml").chmod(0o666)
    assert found("record") == {}
    assert "is left out: other users can write it." in capsys.readouterr().err


@pytest.mark.slow
def test_a_check_names_budgets_that_others_can_write(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pinprof.toml").write_text("[[budget]]\npairs = 0\n")
    (project / "pinprof.toml").chmod(0o666)
    capture = str(DATA / "cases/host_churn.pinprof.tar.xz")
    with pytest.raises(SystemExit):
        main(["check", capture])
    said = capsys.readouterr().err
    assert "is left out: other users can write it." in said
    assert "--budget" in said
    with pytest.raises(SystemExit) as ended:
        main(["check", capture, "--budget", "pinprof.toml"])
    assert ended.value.code in (0, 3, 4)


def test_no_option_that_names_a_file_can_be_set(project: Path) -> None:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for option in command.params:
            if isinstance(option.type, click.Path) and isinstance(option, click.Option):
                long = max(option.opts, key=len)[2:]
                (project / "pinprof.toml").write_text(f"[{name}]\n{long} = 'x'\n")
                with pytest.raises(UsageError, match="on the command line only"):
                    defaults_of(command, name)


def test_settings_that_ask_for_small_captures_keep_their_other_options(project: Path) -> None:
    from pinprof.cli.recording import _not_given

    def left(words: list[str]) -> set[str]:
        with cli.make_context("pinprof", words) as context:
            name, command, others = cli.resolve_command(context, [*context._protected_args, *context.args])
            assert command is not None
            with command.make_context(name, others, parent=context):
                return set(_not_given({"frequency": 19, "fault_period": 4096}))

    (project / "pinprof.toml").write_text("[record]\nfrequency = 49\n")
    assert left(["record", "--small", "--", "true"]) == {"frequency", "fault_period"}
    (project / "pinprof.toml").write_text("[record]\nfrequency = 49\nsmall = true\n")
    assert left(["record", "--", "true"]) == {"fault_period"}
    assert left(["record", "--fault-period", "9", "--", "true"]) == set()
