"""Write pinprof/inside/functions.h: what the agent knows of CUDA, NCCL, MPI and CPython, of pinprof's own tables.

    python tools/agent_functions.py [--check]

With `--check`, nothing is written, and the exit status is 1 if the file is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pinprof.collect.python_frames import layout  # noqa: E402
from pinprof.data.gpu_functions import CREATE_CONTEXT, CUDA, Function, allocates  # noqa: E402
from pinprof.data.meeting_functions import LIBRARIES, MEETING_FUNCTIONS, MeetingFunction  # noqa: E402

HEADER = ROOT / "pinprof" / "inside" / "functions.h"
HEAD = """/* The driver's functions, of pinprof/data/gpu_functions.py; those in which processes meet, of
 * pinprof/data/meeting_functions.py; where CPython keeps its frames, of pinprof/collect/python_frames/layout.py.
 * Written by tools/agent_functions.py.
 */
/* clang-format off */

enum role_flag {
    GRANTS = 1,
    COPIES = 2,
    SINGLE = 4,  /* each call is recorded by itself */
    TOUCHES = 8, /* it makes or pins pages of the host */
    MEETS = 16,    /* processes meet in it (meetings.h) */
    NUMBERED = 32, /* all ranks of its communicator call it in one order */
    ENDS = 64,     /* it ends its communicator */
};

/* Places of arguments; -1: none. Of a function that MEETS, `pointer` is its communicator, `size` counts what `target`
 * is the type of, `source` is the root, or the rank that it sends to or receives from, `rows` the tag, and at
 * `properties` it writes the handle of a communicator that it makes.
 */
struct role {
    uint8_t flags, unit;
    int8_t size, rows, pointer, target, source, stream, sizes, pieces, properties, device;
};

"""
_PLACES = ("size", "rows", "pointer", "target", "source", "stream", "sizes", "pieces", "properties", "device")
_STREAMS = re.compile(r"\w*Async|cu(Launch|Stream|Event|Graph)\w*")
"""Functions whose names have `_ptsz` with the default stream of each thread; of others it is `_ptds`."""
_LAYOUT = (
    "frame", "frame_in_cframe", "has_cframe", "code", "previous", "instruction", "owner", "bytecode_copy", "filename",
    "qualified_name", "line_table", "first_line", "bytecode", "bytecode_copies", "text_state", "text_length",
    "text_size", "text_wide", "text_shift", "bytes_length", "bytes_start",
)  # fmt: skip
_DESCRIBED = {
    "frame": "thread.frame", "code": "frame.code", "previous": "frame.previous", "instruction": "frame.instruction",
    "owner": "frame.owner", "bytecode_copy": "frame.copy", "filename": "code.filename",
    "qualified_name": "code.qualname", "line_table": "code.linetable", "first_line": "code.firstlineno",
    "bytecode": "code.bytecode", "bytecode_copies": "code.copies", "text_state": "str.state",
    "text_length": "str.length", "text_size": "str.ascii", "bytes_length": "bytes.length",
    "bytes_start": "bytes.start",
}  # fmt: skip
"""Fields that the interpreter describes, by their names in `layout`."""


def functions() -> Mapping[str, Function]:
    """The driver's, by plain name."""
    return {name: role for name, role in CUDA.functions.items() if re.match(r"cu[A-Z]", name)}


def exports(name: str) -> Iterator[str]:
    """The names that a driver may have for a function: its versions, with either default stream."""
    thread = "_ptsz" if _STREAMS.fullmatch(name) else "_ptds"
    versions = ("", "_v2", "_v3", "_v4") if name == "cuCtxCreate" else ("", "_v2")
    takes_streams = re.match(r"cu(Memcpy|Memset|Launch|Stream|Event|Graph(Launch|Upload)|Mem\w*Async)", name)
    for version in versions:
        yield name + version
        if takes_streams:
            yield name + version + thread


def page() -> str:
    """The whole header."""
    rows = functions()
    parts = [HEAD, "static const struct role ROLES[] = {\n"]
    parts += (f"    {_role(name, role)}, /* {name} */\n" for name, role in rows.items())
    parts += (f"    {_meeting(role)}, /* {name} */\n" for name, role in MEETING_FUNCTIONS.items())
    names = "\n".join(f'    "{name}\\n"' for name in (*rows, *MEETING_FUNCTIONS))
    parts.append(f"}};\n\nstatic const char NAMES[] =\n{names};\n\n")
    listed = [export for name in rows for export in exports(name)]
    listed += MEETING_FUNCTIONS
    lines = " \\\n".join(f"    X({number}, {name})" for number, name in enumerate(listed))
    parts.append(f"#define ALL_EXPORTS(X) \\\n{lines}\n\n")
    fields = "".join(f"    word {name};\n" for name in ("minor", *_LAYOUT))
    parts.append(f"/* Offsets in bytes, 0 where a version has no such field. */\nstruct layout {{\n{fields}}};\n\n")
    fixed = "".join(f"    {_fixed(known)},\n" for known in layout.FIXED.values())
    parts.append(f"static const struct layout FIXED_LAYOUTS[] = {{\n{fixed}}};\n\n")
    described = "".join(f"    {_described(minor)},\n" for minor in layout.STRUCTURES)
    parts.append("/* Where `_PyRuntime` says them. */\n")
    parts.append(f"static const struct layout DESCRIBED_LAYOUTS[] = {{\n{described}}};\n")
    return "".join(parts)


def _role(name: str, role: Function) -> str:
    freed_often = name.endswith("Async")
    flags = {
        "GRANTS": role.grants,
        "COPIES": role.copies is not None,
        "TOUCHES": allocates(name) in ("pinned", "registered", "managed"),
        "SINGLE": name in CREATE_CONTEXT or role.device is not None or (role.memory is not None and not freed_often),
    }
    return _row(flags, role.unit, {part: getattr(role, part) for part in _PLACES})


def _meeting(role: MeetingFunction) -> str:
    places = {
        "size": role.count, "rows": role.tag, "pointer": role.communicator, "target": role.datatype,
        "source": role.root if role.peer is None else role.peer, "stream": role.stream, "properties": role.makes,
    }  # fmt: skip
    library = LIBRARIES.index(role.library) + 1
    return _row({"MEETS": True, "NUMBERED": role.numbered, "ENDS": role.ends}, library, places)


def _row(flags: Mapping[str, bool], unit: int, places: Mapping[str, int | None]) -> str:
    values = ["-1" if (place := places.get(part)) is None else str(place) for part in _PLACES]
    return f"{{{' | '.join(flag for flag, holds in flags.items() if holds) or 0}, {unit}, {', '.join(values)}}}"


def _fixed(known: layout.InterpreterLayout) -> str:
    fields = {**vars(known), "has_cframe": 1, "minor": known.version[1]}
    return _layout(fields)


def _described(minor: int) -> str:
    places = layout.places(minor)
    return _layout({"minor": minor, **{name: places.get(place, 0) for name, place in _DESCRIBED.items()}})


def _layout(fields: Mapping[str, int]) -> str:
    return "{" + ", ".join(f".{name} = {fields[name]}" for name in ("minor", *_LAYOUT) if fields.get(name)) + "}"


def main() -> int:
    """Write the header, or say that it is out of date."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not HEADER.is_file() or HEADER.read_text("utf-8") != text)
    HEADER.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
