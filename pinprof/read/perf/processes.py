"""Which processes belong to the recorded program.

A system-wide recording holds samples of everything that ran. Only the program, what it started, the idle loop and the
kernel's own threads (which may work for it: `UVM GPU0 BH`) are any report's business; the rest is counted and left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from pinprof.read.perf.records import CommRecord, ForkRecord, MapRecord

IDLE_PID = 0
_COMM_BYTES = 15
"""A thread's name holds no more (TASK_COMM_LEN - 1)."""

_VALUE_LETTERS = "eptrCcoFmkGDu"
_VALUE_WORDS = frozenset(
    {
        "--event",
        "--filter",
        "--pid",
        "--tid",
        "--realtime",
        "--cpu",
        "--count",
        "--output",
        "--freq",
        "--mmap-pages",
        "--call-graph",
        "--clockid",
        "--cgroup",
        "--delay",
        "--uid",
        "--proc-map-timeout",
        "--affinity",
        "--max-size",
        "--num-thread-synthesize",
        "--control",
        "--vmlinux",
        "--clang-path",
        "--mmap-flush",
        "--synth",
        "--setup-filter",
    }
)
"""Options of `perf record` whose value is the next word (tools/perf/builtin-record.c)."""


def profiled_command(argv: Sequence[str]) -> tuple[str, ...]:
    """The program and its arguments in a `perf record` command line; empty if it has none."""
    words = list(argv)
    position = words.index("record") + 1 if "record" in words else 1
    while position < len(words):
        word = words[position]
        if word == "--":
            return tuple(words[position + 1 :])
        if not word.startswith("-"):
            return tuple(words[position:])
        position += 2 if _takes_value(word) else 1
    return ()


def is_system_wide(argv: Sequence[str]) -> bool | None:
    """Whether a command line of `perf record` or pinprof records whole CPUs; None if there is no command line."""
    if not argv:
        return None
    command = profiled_command(argv)
    options = argv[: len(argv) - len(command)]
    short = [word for word in options if word.startswith("-") and not word.startswith("--")]
    flags = {letter for word in short for letter in _flag_letters(word)}
    return bool(flags & {"a", "C"}) or any(
        word in ("--all-cpus", "--cpu", "--system-wide") or word.startswith("--cpu=") for word in options
    )


def is_timer(command: Sequence[str]) -> bool:
    """Whether a command does nothing but to end after some time."""
    return bool(command) and PurePosixPath(command[0]).name in ("sleep", "usleep")


def program_tree(
    tasks: Iterable[tuple[int, MapRecord | CommRecord | ForkRecord]],
    roots: Iterable[int],
    command: Sequence[str],
) -> frozenset[int]:
    """Pids of the program and its descendants; empty if the program is unknown.

    `roots` are pids known to be the program; without any, it is the process that an exec named after the command's
    program. `tasks` are (time, record) in time order.
    """
    name = PurePosixPath(command[0]).name.encode()[:_COMM_BYTES].decode("utf-8", "ignore") if command else ""
    tree = set(roots)
    for _, record in tasks:
        if isinstance(record, ForkRecord):
            if record.parent_pid in tree:
                tree.add(record.pid)
        elif isinstance(record, CommRecord) and not tree and name and record.exec and record.name == name:
            tree.add(record.pid)
    return frozenset(tree)


def still_running(
    tasks: Iterable[tuple[int, MapRecord | CommRecord | ForkRecord]],
    exits: Mapping[tuple[int, int], int],
    tree: Collection[int],
) -> dict[int, str]:
    """By name, the processes of a program whose end is not recorded; none where no end is."""
    names: dict[int, str] = {}
    for _, record in tasks:
        if isinstance(record, CommRecord) and record.pid == record.tid:
            names[record.pid] = record.name
        elif isinstance(record, ForkRecord) and record.pid != record.parent_pid:
            names[record.pid] = names.get(record.parent_pid, "")
    return {pid: names.get(pid, "") for pid in sorted(tree) if (pid, pid) not in exits} if exits else {}


def _takes_value(word: str) -> bool:
    if word.startswith("--"):
        return word in _VALUE_WORDS
    return len(_flag_letters(word)) == len(word) - 1 and word[-1] in _VALUE_LETTERS


def _flag_letters(word: str) -> str:
    """The letters of a short option word up to the first that takes a value: `-agF999` → `agF`."""
    for index, letter in enumerate(word[1:], 2):
        if letter in _VALUE_LETTERS:
            return word[1:index]
    return word[1:]
