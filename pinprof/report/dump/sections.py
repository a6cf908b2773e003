"""The sections of what `pinprof dump` saw. JSON: docs/dump.md; schema history: 1 — first version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from pinprof.base.terminal import clipped
from pinprof.base.units import format_bytes, format_counted, format_ns, format_share
from pinprof.dump.results import Dump, FrameNow, MemoryNow, ProcessNow, ThreadNow
from pinprof.report.forms import Forms
from pinprof.report.names import printable
from pinprof.report.section import SubjectSection
from pinprof.report.terminal.layout import sentence

_MEMORY = {
    "rss": "resident",
    "anonymous": "anonymous",
    "file": "of files",
    "shared": "shared",
    "swap": "swapped",
    "locked": "locked",
    "pinned": "pinned",
    "cuda_pinned": "page-locked by CUDA",
    "managed": "mapped for unified memory",
}
_STYLES = {"kernel": "dim", "python": "bold", "native": ""}
_LONGEST_COMMAND, _MOST_NAMED = 200, 8
_SHOWN_CPU = 0.005
"""A part of a processor; less is not shown."""


class DumpHead(SubjectSection[Dump]):
    """How it was looked at."""

    key = "hero"

    def to_json(self) -> dict[str, Any]:
        """The figures of the look."""
        return {"watched_ns": self.it.watched_ns, "notes": list(self.it.notes)}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """In one sentence, and what could not be seen."""
        threads = sum(len(process.threads) for process in self.it.processes)
        what = f"{format_counted(threads, 'thread', 'threads')} of "
        what += format_counted(len(self.it.processes), "process", "processes")
        yield sentence(f"{what}, watched for {format_ns(self.it.watched_ns)}.", "dim")
        for note in self.it.notes:
            yield sentence(note, "yellow")


class DumpProcesses(SubjectSection[Dump]):
    """Each process with its threads."""

    key = "processes"

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"processes": [asdict(process) for process in self.it.processes]}

    def to_text(self, _console: Console) -> Iterator[RenderableType]:
        """A block for each process, and in it one for the threads that do the same in the same place."""
        for process in self.it.processes:
            yield Text("")
            command = clipped(printable(" ".join(process.command)), _LONGEST_COMMAND)
            yield Text(f"Process {process.pid}: {command}", "bold cyan")
            yield sentence(_memory(process.memory), "dim")
            yield from _threads(process)


def _memory(memory: MemoryNow) -> str:
    """What is known and not nothing."""
    sizes = {name: getattr(memory, name) for name in _MEMORY}
    return " · ".join(f"{format_bytes(size)} {_MEMORY[name]}" for name, size in sizes.items() if size) or "no memory"


def _threads(process: ProcessNow) -> Iterator[RenderableType]:
    alike: dict[tuple[str, tuple[FrameNow, ...]], list[ThreadNow]] = defaultdict(list)
    for thread in process.threads:
        alike[thread.doing, thread.stack].append(thread)
    # Those that run are what is asked for, and pools of idle threads are many.
    for (doing, stack), threads in sorted(alike.items(), key=lambda each: -sum(one.cpu for one in each[1])):
        names = [f"{one.tid} ({printable(one.name)})" for one in threads[:_MOST_NAMED]]
        more = f" and {len(threads) - _MOST_NAMED} more" if len(threads) > _MOST_NAMED else ""
        yield Text("")
        head = Text(f"{'Threads' if threads[1:] else 'Thread'} {', '.join(names)}{more}", "bold")
        yield head + Text("".join(f" · {figure}" for figure in _figures(threads)), "yellow")
        cause = f" [{threads[0].cause}]" if threads[0].cause else ""
        yield Text("  ") + sentence(printable(doing)) + Text(cause, "cyan")
        for frame in stack:
            yield Text(f"    {_place(frame)}", _STYLES[frame.kind], overflow="fold")


def _figures(threads: list[ThreadNow]) -> Iterator[str]:
    cpu, queued = sum(one.cpu for one in threads), sum(one.queued for one in threads)
    if cpu >= _SHOWN_CPU:
        yield f"{format_share(cpu, 1)} CPU"
    if queued >= _SHOWN_CPU:
        yield f"{format_share(queued, 1)} ready while others ran"
    if (share := threads[0].cause_share) is not None and not threads[1:]:
        yield f"{format_share(share, 1)} of its samples do this"


def _place(frame: FrameNow) -> str:
    """`load (train.py:12)`, `cuMemcpy (libcuda.so.1)`, `do_futex [kernel]`."""
    file = frame.file.rpartition("/")[2]
    where = f" ({file}:{frame.line})" if frame.line else f" ({file})" if file and frame.kind != "kernel" else ""
    module = f" {file}" if frame.kind == "kernel" and file != "[kernel.kallsyms]" else ""
    return printable(f"{frame.function}{where}{module}")


FORMS = Forms[Dump]((DumpHead, DumpProcesses), {"schema": 1, "kind": "dump"})
