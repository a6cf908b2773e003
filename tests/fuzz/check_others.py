"""What must hold of stores of fleets, folders of ranks, settings and budgets, of copies of captures and of programs."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pinprof import analyze, read
from pinprof.analyze import Run
from pinprof.base import settings as project
from pinprof.base.errors import PinprofError
from pinprof.check import configuration
from pinprof.check.judge import judge, judgeable
from pinprof.check.selftest import self_test
from pinprof.check.taken import take
from pinprof.check.verdicts import Checked
from pinprof.cli import cli, launch
from pinprof.cli.defaults import defaults_of
from pinprof.cli.ranks import expanded
from pinprof.fleet import database
from pinprof.fleet.access import open_fleet
from pinprof.fleet.tables import COLUMNS
from pinprof.read import ReadOptions
from pinprof.read.symbols.demangle import demangle
from pinprof.read.symbols.dwarf import open_debug_information
from pinprof.read.symbols.elf import read_elf
from pinprof.report.check.sections import FORMS as CHECK_FORMS
from pinprof.report.fleet import rows
from pinprof.report.fleet.sections import FORMS as FLEET_FORMS
from pinprof.report.page import html
from pinprof.report.ranks.sections import FORMS as LAUNCH_FORMS
from pinprof.streams.share import share
from tests.fuzz.check import Known, Thorough, plain_text, quiet, refused, strict
from tests.fuzz.seeds import whole_capture, write

_JUDGED = "h200/pinned-native"
_FOREVER = 2**63


def fleet(path: Path, thorough: Thorough, _known: Known) -> bool:
    """What `pinprof fleet` says of the tables in a store, and of every one of them in SQL."""
    with quiet():
        try:
            opened = open_fleet(path)
            opened.connection.execute("SET threads = 1")
            answer = opened.answer
            for table in COLUMNS if thorough.json else ():
                asked = database.query(opened.connection, f"SELECT * FROM {table}")
                rows.write(asked, "json", path.parent / "rows")
                strict((path.parent / "rows").read_text())
        except PinprofError as error:
            refused(error)
            return False
        out = io.StringIO()
        FLEET_FORMS.of(answer).write("json", out)
        strict(out.getvalue())
        if thorough.text:
            out = io.StringIO()
            FLEET_FORMS.of(answer).write("text", out)
            plain_text(out.getvalue())
        if thorough.page:
            html.render(FLEET_FORMS.of(answer))
    return True


def ranks(path: Path, thorough: Thorough, _known: Known) -> bool:
    """What `pinprof report` says of a folder of ranks."""
    with quiet():
        try:
            found = launch._launch(expanded(path), ReadOptions())
        except PinprofError as error:
            refused(error)
            return False
        out = io.StringIO()
        LAUNCH_FORMS.of(found).write("json", out)
        strict(out.getvalue())
        if thorough.text:
            out = io.StringIO()
            LAUNCH_FORMS.of(found).write("text", out)
            plain_text(out.getvalue())
        if thorough.page:
            html.render(LAUNCH_FORMS.of(found))
    return True


def shared(path: Path, _thorough: Thorough, _known: Known) -> bool:
    """What `pinprof record --share` makes of a capture, which reads as well as the capture."""
    target = path.parent / "shared.pinprof"
    with quiet():
        try:
            share(path, target)
        except PinprofError as error:
            refused(error)
            assert not target.exists(), "half of a copy"
            return False
        try:
            _read_both(path, target)
        finally:
            shutil.rmtree(target)
    return True


def _read_both(path: Path, target: Path) -> None:
    try:
        read.read(path)
    except PinprofError:
        return
    read.read(target)


def program(path: Path, _thorough: Thorough, _known: Known) -> bool:
    """Functions and lines of addresses all over a program's file."""
    offsets = np.arange(0, path.stat().st_size + 64, 16, dtype=np.uint64)
    with quiet():
        found = read_elf(path, path.parent)
        rows = [] if found is None else [row for row in set(found.find(offsets).tolist()) if row >= 0]
        for row in rows:
            demangle(found.name(row))
        lines = open_debug_information(path, "", path.parent, _FOREVER)
        for run in [] if lines is None else lines.find(offsets, _FOREVER):
            for frame in run or ():
                demangle(frame.function)
    return bool(rows) and lines is not None


def settings(path: Path, _thorough: Thorough, _known: Known) -> bool:
    """What commands take from the files around the folder that they run in."""
    with quiet(), _inside(path / "below"), contextlib.redirect_stderr(io.StringIO()) as said:
        for name in project.COMMANDS:
            command = cli.get_command(cli.make_context("pinprof", ["--version"], resilient_parsing=True), name)
            assert command is not None
            try:
                defaults_of(command, name)
            except PinprofError as error:
                refused(error)
                return False
    plain_text(said.getvalue())
    return not said.getvalue()


def budgets(path: Path, thorough: Thorough, _known: Known) -> bool:
    """What a check says of a recording that is right, by the budgets of a file."""
    with quiet():
        try:
            found = configuration.budgets_in(path)
            run = take(_judged(), found)
            runs, others = ([replace(run, path=f"{at}", identity=f"{at}") for at in part] for part in ((1, 2, 3), (4,)))
            judgeable(found, runs, others)
            checked = judge(runs, found, others, paired=False, allowed=False, notes=[])
            if thorough.text:
                self_test(runs, found, others)
            for form in CHECK_FORMS.names:
                _form(form, checked)
        except PinprofError as error:
            refused(error)
            return False
    return True


def _form(form: str, checked: Checked) -> None:
    out = io.StringIO()
    CHECK_FORMS.of(checked).write(form, out)
    text = out.getvalue()
    if form == "junit":
        ET.fromstring(text)
    elif form in ("json", "sarif", "gitlab"):
        strict(text)
    else:
        plain_text(text)


@cache
def _judged() -> Run:
    with TemporaryDirectory() as folder:
        return analyze.analyze(read.read(write(whole_capture(_JUDGED), Path(folder))))


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
