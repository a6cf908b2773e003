"""The modules of docs/design.md stay apart: imports only point one way."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.sources import calls_and_imports

ROOT = Path(__file__).parents[2]
FOUNDATION = {"base", "machine", "data"}
ALLOWED = {
    "base": set(),
    "machine": {"base"},
    "data": {"base"},
    "streams": {"base", "data"},
    "explain": {"base", "analyze", "trial"},
    "scenario": {"base"},
    "bench": FOUNDATION | {"streams", "scenario", "read"},
    "inside": set(),
    "collect": FOUNDATION | {"streams", "scenario"},
    "read": FOUNDATION | {"streams"},
    "doctor": FOUNDATION | {"collect", "read"},
    "dump": FOUNDATION | {"streams", "collect", "portions", "read", "analyze"},
    "recording": FOUNDATION | {"streams", "scenario", "bench", "collect", "read"},
    "analyze": FOUNDATION,
    "compare": FOUNDATION | {"streams", "analyze"},
    "ranks": FOUNDATION | {"analyze"},
    "trial": FOUNDATION | {"streams", "read", "analyze", "collect"},
    "fix": FOUNDATION | {"analyze", "collect", "trial"},
    "check": FOUNDATION | {"streams", "read", "analyze", "collect", "compare", "trial"},
    "fleet": FOUNDATION | {"streams", "read", "analyze", "compare"},
    "report": FOUNDATION | {"streams", "read", "analyze", "compare", "ranks", "trial", "check", "fix", "fleet", "dump"},
    "cli": FOUNDATION
    | {"streams", "read", "analyze", "compare", "trial", "check", "fix", "fleet", "report"}
    | {"collect", "scenario"}
    | {"ranks", "recording", "bench", "explain", "doctor", "portions", "dump"},
    "result": FOUNDATION | {"analyze", "report"},
    "api": FOUNDATION | {"streams", "read", "analyze", "collect", "scenario", "recording", "result"},
    "portions": FOUNDATION | {"streams", "scenario", "collect", "read"},
    "pytest_plugin": FOUNDATION | {"streams", "read", "analyze", "check", "collect", "portions", "result"},
    "training": {"api", "base", "scenario"},
    "jupyter": {"api", "result", "report", "analyze", "base"},
    "__main__": {"cli"},
    "__init__": {"api", "base", "fleet", "result", "jupyter", "scenario", "training"},
}
"""Which rooms a room may import."""
FLOORS = (
    {"evidence", "groups", "intervals", "extent", "memory"},
    {"attribution", "ranges", "results"},
    {
        "lines",
        "main_packages",
        "sites",
        "visible",
        "completeness",
        "selection",
        "idle",
        "recorder",
        "activity",
        "allocations",
    },
    {"restriction", "blame", "costs", "rules"},
    {"course", "headline"},
    {"ledger"},
    {"opportunities"},
    {"run"},
    {"whole"},
    {"__init__"},
)
"""The inside of `analyze/`, from the ground: each floor imports only itself and those below."""


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "pinprof").parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """First component below `pinprof` of every import in a module, also of those inside functions."""
    rooms = set()
    for node in calls_and_imports(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            if parts[0] == "pinprof":
                rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pinprof.")}
    return rooms - {"__version__"}


@pytest.mark.parametrize("path", sorted((ROOT / "pinprof").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_imports_only_rooms_before_it(path: Path) -> None:
    room = room_of(path)
    assert imported_rooms(path) - {room} <= ALLOWED[room]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "pinprof/analyze").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT / "pinprof/analyze"))
)
def test_nothing_in_the_analysis_climbs(path: Path) -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    own = floor[path.relative_to(ROOT / "pinprof/analyze").parts[0].removesuffix(".py")]
    for node in calls_and_imports(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pinprof.analyze"):
            below = [*(node.module or "").split("."), "__init__"][2]
            assert floor[below] <= own, node.module


def test_detectors_alone_look_at_scenes() -> None:
    """Others ask the run what it was doing (`Run.doing`)."""
    places = [path for path in (ROOT / "pinprof").rglob("*.py") if "Scene(" in path.read_text("utf-8")]
    assert {str(path.relative_to(ROOT / "pinprof/analyze")) for path in places} == {"run.py", "opportunities/scene.py"}


@pytest.mark.slow
def test_a_program_is_started_without_numpy() -> None:
    """What is heavy is imported while recorders begin, and after the program."""
    code = "import sys, pinprof.cli.record, pinprof.recording, pinprof.collect.run\n"
    code += "from pinprof.collect import BESIDE, cuda_libraries, load\nfor name in ('native', *BESIDE): load(name)\n"
    for process in ("native", "python_frames", "uvm"):
        code += f"import pinprof.collect.{process}.__main__\n"
    code += "heavy = {'numpy', 'elftools', 'rich', 'jinja2', 'importlib.metadata', 'sqlite3', 'pinprof.read'}\n"
    code += "heavy &= set(sys.modules)\nsys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_numpy_starts_no_threads_for_the_command_line_and_programs_do_not_notice() -> None:
    code = (
        "import os, sys\n"
        "from pinprof.__main__ import run\n"
        "sys.argv = ['pinprof', '--version']\n"
        "try: run()\n"
        "except SystemExit as stop: assert not stop.code, stop\n"
        "import numpy\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "assert 'OPENBLAS_NUM_THREADS' not in os.environ\n"
    )
    without = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", code], check=True, env=without)


@pytest.mark.slow
@pytest.mark.parametrize(("word", "status"), [("--version", 0), ("--unknown", 2)])
def test_the_command_line_ends_at_once_but_for_what_others_have_to_end(word: str, status: int) -> None:
    code = (
        "import atexit, sys, threading, time\n"
        "class Module:\n"
        "    def __del__(self): print('taken apart')\n"
        "sys.held = Module()\n"
        "atexit.register(print, 'ended', end='')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('waited for'))).start()\n"
        f"sys.argv = ['pinprof', {word!r}]\n"
        "from pinprof.__main__ import main\n"
        "main()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == status, result.stderr
    assert result.stdout.splitlines()[-2:] == ["waited for", "ended"]


@pytest.mark.parametrize("path", sorted((ROOT / "workloads").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_scenarios_import_only_the_scenario_room(path: Path) -> None:
    assert imported_rooms(path) <= {"scenario", "base"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "--help"], ["report", "--help"], ["diff", "--help"], ["bench", "--help"]],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from pinprof.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as stop: assert not stop.code, stop\n"
        "heavy = {'numpy', 'pandas', 'plotly', 'jinja2', 'rich', 'cuda', 'nvtx', 'elftools', 'pyperf', 'scipy'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_folding_imports_no_analysis() -> None:
    path = ROOT / "tests/data/h200/pinned.perf.data.xz"
    code = (
        "import sys\n"
        "from pinprof.cli import main\n"
        f"try: main(['report', {str(path)!r}, '--format', 'folded'])\n"
        "except SystemExit as stop: assert not stop.code, stop\n"
        "heavy = {'pinprof.analyze.run', 'pinprof.analyze.course', 'pinprof.cli.pipeline'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_every_package_of_the_source_is_in_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "pinprof").rglob("__init__.py")}
    elsewhere = {name for name in listed if name.startswith(("pinprof.deploy", "pinprof.docs", "pinprof.workloads"))}
    assert found == set(listed) - elsewhere


@pytest.mark.slow
def test_what_is_imported_with_a_module_comes_with_every_installation() -> None:
    """Packages of extras are imported where they are needed, by functions that name the extra."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = {re.split(r"[^A-Za-z0-9_.-]", entry)[0].lower() for entry in listed}
    assert {"numpy", "click"} <= names
    assert not names & {"scipy", "pandas", "pyarrow", "duckdb"}
    known = names | {"pinprof", *sys.stdlib_module_names}
    # These modules are imported by pytest and IPython alone.
    places = [path for path in (ROOT / "pinprof").rglob("*.py") if "pytest_plugin" not in path.parts]
    for path in places:
        for node in ast.parse(path.read_text("utf-8")).body:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert {module.partition(".")[0].lower() for module in modules} <= known, path


def _imported_names() -> set[tuple[str, str]]:
    """What tests, tools and workloads take from pinprof, (module, name)."""
    taken: set[tuple[str, str]] = set()
    for folder in ("tests", "tools", "workloads"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in calls_and_imports(path):
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    taken |= {(node.module, each.name) for each in node.names if node.module.startswith("pinprof")}
    return taken


@pytest.mark.slow
def test_what_tests_and_tools_take_from_pinprof_is_there() -> None:
    missing = []
    for module, name in sorted(_imported_names()):
        try:
            there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("pinprof"):
                continue  # an optional package, as in its own tests
            there = False
        if not there:
            missing.append(f"{module}.{name}")
    assert missing == []
