"""Which tests share a worker of --numprocesses."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

ONE_AT_A_TIME = {"integration": "recordings", "browser": "browser"}
"""Folders whose tests one worker runs, one after another: recordings share the processors with as little as possible,
and one Chromium serves all pages."""
RECORD_NOTHING = {
    "test_case_table.py",
    "test_command_line.py",
    "test_cuda_cures.py",
    "test_diff.py",
    "test_dwarf.py",
    "test_fleet.py",
    "test_gpu_source.py",
    "test_h200_calls.py",
    "test_h200_captures.py",
    "test_h200_scenarios.py",
    "test_memory_cures.py",
    "test_nccl.py",
    "test_pauses.py",
    "test_pprof_tools.py",
    "test_site.py",
    "test_stories.py",
    "test_wheel.py",
}
"""Modules of tests/integration that any worker may run beside a recording: they look into none that they make."""

LOOK_THROUGH_ALL = {
    "tests/unit/base/test_files.py",
    "tests/unit/base/test_terminal.py",
    "tests/unit/data/test_vendor.py",
    "tests/unit/test_imports.py",
    "tests/unit/test_messages.py",
}
"""Modules that look through all sources, which one worker parses once for them (`sources.py`)."""


class Groups(LoadScopeScheduling):
    """Tests of one group go to one worker: those of a folder of ONE_AT_A_TIME, those that look through all
    sources, else those of a module.

    Marks of --dist=loadgroup would do, but pytest-xdist 3.8 loses them with pytest 9.2 (its issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        _, folder, *_, module = path.split("/")
        if path in LOOK_THROUGH_ALL:
            return "sources"
        return path if module in RECORD_NOTHING else ONE_AT_A_TIME.get(folder, path)
