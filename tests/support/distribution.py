"""Which tests share a worker of --numprocesses."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

RECORDINGS, RECORDINGS_BESIDE = "recordings", "recordings beside"
ONE_AT_A_TIME = {"integration": RECORDINGS, "browser": "browser"}
"""Folders whose tests one worker runs, one after another: recordings share the processors with as little as possible,
and one Chromium serves all pages."""
STAND_COMPANY = {
    "test_bad_input.py",
    "test_children.py",
    "test_in_the_way.py",
    "test_inside.py",
    "test_inside_processes.py",
    "test_inside_programs.py",
    "test_new_collector.py",
    "test_nsys.py",
    "test_privacy.py",
    "test_process_notes.py",
    "test_record_accidents.py",
    "test_scenarios_host.py",
    "test_tools.py",
}
"""Modules of tests/integration that a second worker runs, one after another, beside the other recordings: what they
look for in theirs is there or not, however little of a processor they get."""
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
    "test_schema.py",
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
    """Tests of one group go to one worker.

    Marks of --dist=loadgroup would do, but pytest-xdist 3.8 loses them with pytest 9.2 (its issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """A folder of ONE_AT_A_TIME, what stands company or looks through all sources, or a module."""
    path = nodeid.partition("::")[0]
    _, folder, *_, module = path.split("/")
    if path in LOOK_THROUGH_ALL:
        return "sources"
    if folder == "integration" and module in STAND_COMPANY:
        return RECORDINGS_BESIDE
    return path if module in RECORD_NOTHING else ONE_AT_A_TIME.get(folder, path)


def place_of(nodeid: str) -> int:
    """The longest groups come first, for the last worker to end is the one that the run waits for."""
    longest = (RECORDINGS, RECORDINGS_BESIDE, "browser")
    group = group_of(nodeid)
    return longest.index(group) if group in longest else len(longest)
