"""Which tests run without coverage's tracer, which makes all code twice to five times as slow."""

from __future__ import annotations

from tests.support.distribution import RECORD_NOTHING

_RUN_BY_OTHERS = {
    "tests/unit": "api_types distribution imports modules",
    "tests/unit/analyze": "attribution calls categories intervals ledger managed_memory_rules paths rules",
    "tests/unit/analyze/course": "phases wall_table",
    "tests/unit/analyze/opportunities": "promises search",
    "tests/unit/base": "columns distributions files redaction statistics",
    "tests/unit/check": "judge",
    "tests/unit/collect": "pace",
    "tests/unit/compare": "rows",
    "tests/unit/data": "unnamed_runs vendor",
    "tests/unit/fleet": "damaged_store",
    "tests/unit/read": "archive hostile_side_files packed ranges",
    "tests/unit/read/formats": "folded",
    "tests/unit/read/nsys": "export pages",
    "tests/unit/read/perf": "chunks compressed_data damaged_data sample_runs stacks",
    "tests/unit/read/symbols": "elf kallsyms",
    "tests/unit/report": "api_tables bundle instances markdown odd_threads opportunities",
    "tests/unit/trial": "rounds",
}
"""Folder → modules of its unit tests that run for a second and more, through lines that other modules run, too: without
them hardly a line is missed, as `pytest --cov --cov-context=test tests/unit` shows."""

UNTRACED = (
    "tests/browser/", "tests/fuzz/", "tests/integration/test_nsys.py",
    *(f"tests/integration/{module}" for module in sorted(RECORD_NOTHING)),
    *(f"{folder}/test_{name}.py" for folder, names in _RUN_BY_OTHERS.items() for name in names.split()),
)  # fmt: skip
"""Folders and modules. Most of them read and analyse much, by code that the others run as well."""
