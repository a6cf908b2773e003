"""A file that others can have written is none to take settings from."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinprof.base import trust

OTHER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "pinprof.toml"
    path.parent.mkdir(mode=0o755)
    path.write_text("")
    path.chmod(0o644)
    return path


def test_a_file_of_ones_own_is_to_trust(file: Path) -> None:
    assert trust.distrusted(file) == ""


@pytest.mark.parametrize(
    ("mode", "folder", "why"),
    [
        (0o646, 0o755, "other users can write it"),
        (0o664, 0o755, "can write it"),
        (0o644, 0o757, "other users can write the folder of it"),
        (0o644, 0o775, "can write the folder of it"),
        (0o644, 0o1777, ""),
        (0o666, 0o1777, "other users can write it"),
    ],
)
def test_a_file_that_others_can_write_or_put_there_is_not(file: Path, mode: int, folder: int, why: str) -> None:
    file.chmod(mode)
    file.parent.chmod(folder)
    assert why in trust.distrusted(file)
    assert bool(trust.distrusted(file)) == bool(why)


@as_root
def test_a_file_of_another_user_is_not(file: Path) -> None:
    os.chown(file, OTHER, OTHER)
    assert trust.distrusted(file) == f"user {OTHER} owns it"
    os.chown(file, 0, 0)
    os.chown(file.parent, OTHER, OTHER)
    assert trust.distrusted(file) == f"user {OTHER} owns the folder of it"


@as_root
def test_under_sudo_the_files_of_who_called_it_are_to_trust(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(file, OTHER, OTHER)
    os.chown(file.parent, OTHER, OTHER)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert trust.distrusted(file) == ""
    monkeypatch.setattr(os, "geteuid", lambda: OTHER + 1)
    assert trust.distrusted(file)


@as_root
def test_a_link_counts_for_its_target_as_well(file: Path) -> None:
    link = file.parent.parent / "pinprof.toml"
    link.symlink_to(file)
    assert trust.distrusted(link) == ""
    file.chmod(0o666)
    assert trust.distrusted(link) == "other users can write what it links to"
    file.chmod(0o644)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert trust.distrusted(link) == f"user {OTHER} owns it"


@pytest.mark.parametrize(("members", "why"), [([], ""), (["me"], ""), (["me", "you"], "can write it")])
def test_a_group_that_is_the_users_alone_is_nobody_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, members: list[str], why: str
) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name="me", gr_mem=members))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(trust, "_ROOT", -1)
    file.chmod(0o664)
    assert why in trust.distrusted(file)
    assert bool(trust.distrusted(file)) == bool(why)


def test_what_is_gone_is_not(tmp_path: Path) -> None:
    assert "cannot be looked at" in trust.distrusted(tmp_path / "gone")
