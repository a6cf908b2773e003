"""What /proc says of processes, cheaply enough to ask many times a second."""

from __future__ import annotations

import contextlib
import os
from math import inf

_PIECE = 1 << 14


def contents(path: str) -> bytes:
    """What a file holds; empty where it is gone or not ours to read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a third of what an object of io costs
    except OSError:
        return b""
    try:
        found = piece = os.read(file, _PIECE)
        while piece:
            piece = os.read(file, _PIECE)
            found += piece
        return found
    except OSError:
        return b""
    finally:
        os.close(file)


def stat_fields(path: str) -> list[bytes]:
    """What follows the name in the `stat` of a process or thread (proc(5)), its state first; empty where it is gone."""
    return contents(path).rpartition(b")")[2].split()


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    state = stat_fields(f"/proc/{pid}/stat")[:1]
    return bool(state) and state[0] not in (b"Z", b"X")


def state_and_cpu(pid: int) -> tuple[str, float]:
    """What a process does, as one letter, and the CPU seconds that it has used; empty and 0 where it is gone."""
    fields = stat_fields(f"/proc/{pid}/stat")
    if len(fields) < 13:
        return "", 0.0
    return fields[0].decode("ascii", "replace"), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parent(pid: int) -> int:
    """The process that started it, 0 for none; -1 where it is gone."""
    fields = stat_fields(f"/proc/{pid}/stat")
    return int(fields[1]) if len(fields) > 1 else -1


def threads(pid: int) -> list[int]:
    """The threads of a process, ascending; none where it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - plain strings cost least
    except OSError:
        return []


def runnable() -> int:
    """How many threads of this machine run or wait for a processor now, the caller among them; 1 where unknown."""
    now = contents("/proc/loadavg").split()[3:4]
    return int(now[0].partition(b"/")[0]) if now else 1


def tree(pid: int, most_processes: float = inf, most_threads: float = inf) -> list[int]:
    """A process and its descendants, itself first; those that have ended are among them until they are reaped.

    At most `most_processes`; in a process with more than `most_threads`, only children of its main thread.
    """
    processes: list[int] = []
    queue = [pid]
    while queue and len(processes) < most_processes:
        processes.append(queue.pop(0))
        queue += _children(processes[-1], most_threads)
    return processes


def _children(pid: int, most_threads: float) -> list[int]:
    threads = [str(pid)]
    with contextlib.suppress(OSError):
        listed = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - likewise
        threads = listed if len(listed) <= most_threads else threads
    lists = (contents(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for children in lists for child in children.split()]
