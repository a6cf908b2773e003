"""Print a page in Markdown with the layouts of a capture's binary files, from the C code that writes them.

The documentation's site has this page (tools/site/hooks.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from pinprof.data import uvm_events

PACKAGE = Path(__file__).parents[1] / "pinprof"
FILES = (
    ("What files of NVTX, calls and large memory begin with", "inside/own_file.h"),
    ("nvtx/PID-TOKEN.bin: NVTX", "inside/nvtx.c"),
    ("inside/PID-TOKEN.bin: calls and large memory", "inside/agent.h"),
    ("gpu/PID-TIME.bin: GPU work", "inside/cupti.c"),
)
"""(heading, source); in the order of the page."""
WANTED = ("own_header", "header", "chunk", "record", "kind", "flag", "state", "stop")
HEAD = """# Binary files

The layouts of the binary files in a [capture](capture-format.md), as the libraries that write them declare them.
Numbers are little-endian, times CLOCK_MONOTONIC nanoseconds unless a comment says ticks. A file is a header and, from
its `size` on, consecutive chunks or, for GPU work, records. A writer counts a record after it has written it, so
counted records are complete however the process ended.
"""


def declaration(source: str, name: str) -> str:
    """The structure or enumeration of that name in C, with its comments; empty without one."""
    block = rf"^(?:struct|enum) {name} \{{(?:[^\n]*\}};[^\n]*$|.*?^\}};[^\n]*$)"
    found = re.search(block, source, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for heading, place in FILES:
        text = (PACKAGE / place).read_text("utf-8").partition("/* ---- The file")[2]
        declared = [one for name in WANTED if (one := declaration(text, name))]
        parts.append(f"\n## {heading}\n\n`pinprof/{place}`\n\n```c\n" + "\n\n".join(declared) + "\n```\n")
    parts.append("\n## uvm/PID-TIME.bin: managed memory\n\n`pinprof/data/uvm_events.py`\n\n")
    parts.append(f"```text\n{uvm_events.__doc__}```\n")
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")
