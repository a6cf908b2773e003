"""What threads are called: the kernel's names, those that Python knows, and those that the program gave through NVTX.

A thread inherits the kernel's name of the thread that started it until somebody names it; the last name counts. The
kernel cuts names to 15 bytes, and before Python 3.14 a `threading.Thread` has its name in Python alone. So a name that
was given to the kernel wins over Python's unless it is the beginning of that, one that was inherited does not, and
NVTX's wins over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pinprof.data.model import Capture
from pinprof.read.perf.records import CommRecord, ForkRecord, MapRecord
from pinprof.read.python.stacks import PythonStacks

Thread = tuple[int, int]
"""(pid, tid)."""

_COMM_BYTES = 15
_STARTERS = {"threading.py": "Thread-?", "multiprocessing/process.py": "Process-?"}
"""Files of Python's library that call what a thread or process was started for, and what these are called first."""


def kernel_names(
    tasks: Iterable[tuple[int, MapRecord | CommRecord | ForkRecord]], threads: Iterable[Thread]
) -> tuple[dict[Thread, str], frozenset[Thread]]:
    """Names of these threads, and which of them were inherited or came with the program; tasks in time order."""
    names: dict[Thread, str] = {}
    own: set[Thread] = set()
    for _, record in tasks:
        if isinstance(record, CommRecord):
            thread = record.pid, record.tid
            # A thread that existed before the recording is listed under the name that it has by then.
            other = record.exec or (thread not in names and record.name == names.get((record.pid, record.pid)))
            (own.discard if other else own.add)(thread)
            names[thread] = record.name
        elif isinstance(record, ForkRecord):
            thread, parent = (record.pid, record.tid), (record.parent_pid, record.parent_tid)
            if parent in names and thread != parent:
                names[thread] = names[parent]
                own.discard(thread)
    # The idle task, and every kernel thread when recorded inside another PID namespace.
    known = {thread: names.get(thread, "swapper" if thread[1] == 0 else "") for thread in threads}
    named = {thread: name for thread, name in known.items() if name}
    return named, frozenset(thread for thread in named if thread not in own)


def changed_names(
    tasks: Iterable[tuple[int, MapRecord | CommRecord | ForkRecord]], threads: Iterable[Thread]
) -> dict[Thread, tuple[tuple[int, str], ...]]:
    """Of threads with several names: when each began, and what it is; tasks in time order."""
    names: dict[Thread, list[tuple[int, str]]] = {}
    for time, record in tasks:
        if isinstance(record, CommRecord):
            names.setdefault((record.pid, record.tid), []).append((time, record.name))
        elif isinstance(record, ForkRecord) and (known := names.get((record.parent_pid, record.parent_tid))):
            names.setdefault((record.pid, record.tid), []).append((time, known[-1][1]))
    return {thread: tuple(names[thread]) for thread in threads if len({name for _, name in names.get(thread, ())}) > 1}


def with_nvtx_names(capture: Capture, given: Mapping[Thread, str]) -> Capture:
    """The capture with the names that the program gave its threads through NVTX."""
    given = {thread: name for thread, name in given.items() if thread in capture.threads}
    return replace(capture, threads={**capture.threads, **given}, inherited=capture.inherited - given.keys())


def with_python_names(capture: Capture, stacks: PythonStacks) -> dict[Thread, str]:
    """The capture's names, with Python's of threads that were never named, or whose name the kernel has cut."""
    names = dict(capture.threads)
    for thread in stacks.names:
        pid, tid = thread
        kernel, name = names.get(thread), stacks.names.get(thread, "")
        if kernel is None:
            continue
        inherited = thread in capture.inherited or (tid != pid and kernel == names.get((pid, pid)))
        cut = len(kernel.encode()) == _COMM_BYTES and name.startswith(kernel)
        if tid == pid:
            # Python calls every main thread the same; a process that it started is known by what it was started for.
            name = _by_entry(stacks, thread, "multiprocessing/process.py") if inherited else ""
        elif inherited and not name:
            name = _by_entry(stacks, thread, "threading.py")
        if name and (inherited or cut):
            names[thread] = name
    return names


def _by_entry(stacks: PythonStacks, thread: Thread, starter: str) -> str:
    """`Thread-? (serve)`, as Python would call it, for a thread whose outermost function of the program is `serve`."""
    for stack in stacks.of(*thread):
        frames = iter([stacks.frames[frame] for frame in stacks.chain(stack)])
        if any(name.endswith("_bootstrap") and file.endswith(starter) for name, file, _ in frames):
            inside = next((name for name, file, _ in frames if not file.endswith(starter)), "")
            function = inside.rpartition(".")[2]
            if inside:
                return f"{_STARTERS[starter]} ({inside if function == 'run' else function})"
    return ""
