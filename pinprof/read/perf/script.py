"""The text that `perf script` prints → Capture: any version, the default fields or most choices of `-F`.

A sample is a header line, its callchain one frame a line (leaf first), and an empty line:

    comm  pid/tid [cpu] seconds: period event: [addr [symbol (dso)]]
            ip symbol+0xoffset (dso)

Without callchain the frame stands on the header line. Only the thread and the event must be there. Kernel addresses
are resolved again, by `Resolver.kernel`, because perf misnames modules (see kallsyms.py); user frames keep perf's
names. perf prints offsets in the file, not addresses, for user frames, so they cannot be looked up again.

Lines are read one by one; what grows with the input is a row per sample, and the distinct stacks.
Source: perf `tools/perf/builtin-script.c` (perf_sample__fprintf_start), `util/evsel_fprintf.c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.numbering import Numbering
from pinprof.data import perf_format
from pinprof.data.model import (
    KERNEL,
    Capture,
    ClockSync,
    Dso,
    Event,
    Int32,
    Int64,
    Losses,
    RangeTable,
    SampleTable,
    StackTable,
    Unit,
)
from pinprof.read.assembly import SampleColumns, StackBuilder, dso_of, foreign_capture, summable
from pinprof.read.perf.script_records import PrintedRecords
from pinprof.read.perf.text_times import TextTimes
from pinprof.read.symbols.demangle import demangle
from pinprof.read.symbols.resolver import Resolver

KERNEL_START = 1 << 63
MAX_CHAIN = 127
"""The kernel's default depth limit (kernel.perf_event_max_stack): a chain this long was cut."""

_MAX = 2**63 - 1
_MAX_EVENTS = 1000
_LONGEST_LINE = 1 << 16
"""Characters of a line that perf prints; matching a longer one would take quadratic time."""
_HEADER = re.compile(
    r"(?P<comm>\S.{0,63}?)??\s*(?<!\S)(?:(?P<pid>-?\d{1,10})/\s*)?(?P<tid>-?\d{1,10})\s+(?:\[(?P<cpu>\d{1,6})\]\s+)?"
    r"(?:(?=\S*\.)[.\w]{4,8}\s+)?(?:(?P<seconds>\d{1,12})\.(?P<fraction>\d{1,9}):\s+)?(?:(?P<period>\d{1,19})\s+)?"
    r"(?P<event>[A-Za-z_]\S{0,255}?):(?:\s+(?P<rest>\S.*))?\s*"
)
_BARE_FRAME = re.compile(r"[0-9a-f]{1,16}\s+\S.*\)\s*")
"""A frame that lost its indentation, as text does on its way through other tools: its object must end it."""
_FRAME = re.compile(r"\s*(?P<ip>[0-9a-f]{1,16})\s+(?P<code>\S.*?)\s*")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_SOURCE_LINE = re.compile(r"\s+\S.*(:\d+|\[[0-9a-f]+\]|:\?)\s*")
_ADDRESS = re.compile(r"(?P<addr>[0-9a-f]{1,16})(?=\s|$)(?P<rest>.*)")
_SECOND_FRAME = re.compile(r"\s(?=[0-9a-f]{5,16}\s+\S.*\)\s*$)")
_SETTING = re.compile(r"[/,](freq|period)=(\d{1,18})(?=[,/])")
_VERSION = re.compile(r"@@?[A-Za-z]\w*_[\d.]+$")
_RECORD = re.compile(r".{0,200}?\bPERF_RECORD_(?P<kind>[A-Z][A-Z0-9_]{1,40})\b(?P<rest>.*)")
"""What perf prints of other records than samples."""
_LOST = re.compile(r".*?\blost\s+(\d{1,18})\b.*")
_MODIFIERS = re.compile(r"[ukhGHpPSDWeIb]{1,8}")
_MONOTONIC = re.compile(r"#.*\bclockid: monotonic \(1\)|#.*\buse_clockid = 1\b.*\bclockid = 1\b")


def sniff(head: bytes) -> bool:
    """Whether a file that begins with these bytes is `perf script` text: a header line among its first lines.

    What `--show-mmap-events`, `--show-task-events` and others print may come first, thousands of lines of it.
    """
    others = False
    for line in head.decode("utf-8", "replace").splitlines():
        if _RECORD.match(line):
            others = True
        elif line.strip() and not line.startswith("#"):
            header = _HEADER.fullmatch(line.strip())
            if header is not None or not others:
                return header is not None and (header["seconds"] is not None or header["rest"] is None)
    return others


def read_perf_script(
    lines: Iterable[str],
    path: str,
    resolver: Resolver | None = None,
    *,
    ranges: RangeTable | None = None,
    clock: str | None = None,
    kernel_named: bool = True,
) -> Capture:
    """Samples of `perf script` text, in the order of time.

    `clock` names the clock of its times. None takes it from perf's header comments; where there are none, ranges that
    overlap the samples are taken to be of the same clock, with a note. Without `kernel_named` the text's names of
    kernel functions count for nothing: perf takes them from the machine that it runs on. Lines that are neither header
    nor frame are counted in `losses.corrupt_bytes`. No text raises an error.
    """
    text = _Text(resolver, kernel_named=kernel_named)
    for line in lines:
        text.add(line)
    text.finish_sample()
    return text.capture(path, ranges, clock)


@dataclass(frozen=True, slots=True)
class _Frame:
    """One frame as printed; frames of one function at several addresses are merged later."""

    ip: int
    symbol: str
    """Empty when perf had none."""
    dso: str
    inlined: bool = False


class _Text:
    """The parser's state: the sample being read, and everything before it."""

    def __init__(self, resolver: Resolver | None, *, kernel_named: bool = True) -> None:
        self._resolver = resolver
        self._kernel_named = kernel_named
        self._columns = SampleColumns()
        self._events: dict[str, int] = {}
        self._rules: list[tuple[Event, int | None]] = []
        """Per event: the event, and the weight of each sample, None where it is the printed period."""
        self._threads: dict[tuple[int, int], str] = {}
        self._names: dict[tuple[int, int], list[tuple[int, str]]] = {}
        """Per thread, from which sample on it has which name."""
        self._frame_of_line: dict[str, int] = {}
        self._numbering = Numbering[_Frame]()
        self._frames = self._numbering.items
        self._stacks: dict[tuple[int, ...], int] = {}
        self._header: re.Match[str] | None = None
        self._chain: list[str] = []
        self._corrupt_bytes = self._lost = 0
        self._truncated = self._unchained = 0
        self._timed, self._times = True, TextTimes()
        self._clock = ""
        self._records = PrintedRecords()
        self._addressed: set[str] = set()
        """Events seen with a data address on the header line of a callchain."""

    def add(self, line: str) -> None:
        """Take one line."""
        inside = self._header is not None
        indented = inside and line[:1].isspace()
        if inside and line in self._frame_of_line:
            self._chain.append(line)
        elif len(line) > _LONGEST_LINE:
            self._corrupt_bytes += len(line.encode("utf-8", "replace"))
        elif not line.strip():
            self.finish_sample()
        elif line[0] == "#":
            if _MONOTONIC.match(line):
                self._clock = "monotonic"
        else:
            self._add_unknown(line, inside=inside, indented=indented)

    def _add_unknown(self, line: str, *, inside: bool, indented: bool) -> None:
        """A line seen for the first time: a header, a frame, another record, or none of these."""
        if not indented and (record := _RECORD.match(line)):
            self.finish_sample()
            lost = _LOST.match(record["rest"]) if record["kind"] in ("LOST", "LOST_SAMPLES") else None
            self._lost += int(lost[1]) if lost else 0
            self._records.add(record["kind"], record["rest"], len(self._columns.pid))
            return
        header = _HEADER.fullmatch(line.strip())
        if indented:
            is_frame = (header is None or header["seconds"] is None) and _FRAME.fullmatch(line) is not None
        else:
            is_frame = inside and header is None and _BARE_FRAME.fullmatch(line) is not None
        if is_frame:
            self._chain.append(line)
        elif indented and _SOURCE_LINE.fullmatch(line):
            pass
        elif header is not None:
            self.finish_sample()
            self._header = header
        else:
            self._corrupt_bytes += len(line.encode("utf-8", "replace"))

    def finish_sample(self) -> None:
        """Enter the sample read so far, if any, into the columns."""
        header, chain = self._header, self._chain
        self._header, self._chain = None, []
        if header is None:
            return
        rest = header["rest"] or ""
        if _is_tracepoint(header["event"]):
            rest = ""
        self._unchained += not chain
        if not chain and rest:
            rest, chain = self._split(rest, addressed=header["event"] in self._addressed)
        address = _ADDRESS.match(rest)
        if address:
            self._addressed.add(header["event"])
        numbers = self._numbers(chain)
        self._truncated += len(chain) >= MAX_CHAIN
        tid = _int32(header["tid"])
        pid = _int32(header["pid"]) if header["pid"] else tid
        event, weight = self._event(header["event"], header["period"])
        columns = self._columns
        self._times.add(header["seconds"] or "", header["fraction"] or "")
        columns.pid.append(pid)
        columns.tid.append(tid)
        columns.cpu.append(int(header["cpu"] or -1))
        columns.event.append(event)
        columns.weight.append(weight)
        columns.stack.append(self._stacks.setdefault(numbers, len(self._stacks)))
        columns.ip.append(self._frames[numbers[-1]].ip if numbers else 0)
        columns.address.append(int(address[1], 16) if address else 0)
        self._timed &= header["seconds"] is not None
        self._name((pid, tid), len(columns.pid) - 1, (header["comm"] or "").strip())

    def _name(self, thread: tuple[int, int], row: int, name: str) -> None:
        """Perf prints the name that a thread had at the time of each sample."""
        if self._threads.get(thread) != name:
            self._threads[thread] = name
            self._names.setdefault(thread, []).append((row, name))

    def capture(self, path: str, ranges: RangeTable | None, clock: str | None) -> Capture:
        """Everything read, as a capture."""
        stacks, node, unresolved = self._built_stacks()
        times, odd, jumps = self._times.times()
        self._columns.time_ns.frombytes(times.tobytes())
        self._columns.mapped = self._records.mapped(self._columns.pid, self._columns.address)
        samples = self._columns.table()
        weight, cut = summable(samples.weight)
        missing = int(unresolved[samples.stack].sum())
        samples = replace(samples, weight=weight, stack=node[samples.stack])
        clock, notes = self._clock_of(samples, ranges, clock)
        notes = (*notes, *odd, *cut)
        if not self._timed:
            notes = (*notes, "Some samples have no time and count as samples at time 0.")
        losses = Losses(
            lost_samples=min(self._lost, _MAX),
            truncated_chains=self._truncated,
            corrupt_bytes=self._corrupt_bytes,
            unresolved_frames=missing,
            missing_stacks=self._unchained,
            notes=notes,
            jumps=jumps,
        )
        capture = foreign_capture(
            path,
            "perf script",
            [event for event, _ in self._rules],
            samples,
            stacks,
            threads=self._threads,
            clock=ClockSync(clock, 0, 0),
            ranges=ranges,
            losses=losses,
        )
        renamed = {
            thread: tuple(sorted((int(times[row]), name) for row, name in names))
            for thread, names in self._names.items()
            if len(names) > 1
        }
        return replace(capture, renamed=renamed if self._timed else {})

    def _clock_of(
        self, samples: SampleTable, ranges: RangeTable | None, clock: str | None
    ) -> tuple[str, tuple[str, ...]]:
        """The clock of the times, and what must be said about it."""
        if clock or self._clock:
            return clock or self._clock, ()
        if ranges is not None and len(ranges) and len(samples):
            first, last = int(samples.time_ns[0]), int(samples.time_ns[-1])
            if int(ranges.start_ns[0]) <= last and first <= int(ranges.end_ns.max()):
                return "monotonic", ("The text does not name its clock. pinprof assumes that of the ranges.",)
        return "unknown", ()

    def _split(self, rest: str, *, addressed: bool) -> tuple[str, list[str]]:
        """What follows the event on a line without callchain, as (data address, its frame if there is one)."""
        places = list(_SECOND_FRAME.finditer(rest))
        if places:
            return rest[: places[-1].start()], [rest[places[-1].end() :]]
        return (rest, []) if addressed or not _FRAME.fullmatch(rest) else ("", [rest])

    def _event(self, name: str, period: str | None) -> tuple[int, int]:
        """The event's index and the sample's weight; whether it counts its periods is decided by its first sample."""
        index = self._events.get(name)
        if index is None and len(self._rules) < _MAX_EVENTS:
            index = self._events[name] = len(self._rules)
            self._rules.append(_rule(name, counted=period is not None))
        elif index is None:
            index = 0
        fixed = self._rules[index][1]
        return index, fixed if fixed is not None else min(int(period or 0), _MAX)

    def _numbers(self, chain: list[str]) -> tuple[int, ...]:
        """The frame numbers of a chain, root first; an inlined function lies in the object of the one around it."""
        numbers: list[int] = []
        for line in reversed(chain):
            number = self._frame_of_line.get(line)
            if number is None:
                frame = _frame(line)
                if frame.dso == "inlined":
                    outer = self._frames[numbers[-1]].dso if numbers else "[unknown]"
                    number = self._numbering.number(_Frame(frame.ip, frame.symbol, outer, inlined=True))
                else:
                    number = self._frame_of_line[line] = self._numbering.number(frame)
            numbers.append(number)
        inside = [self._frames[number].ip >= KERNEL_START for number in numbers]
        if not all(inside) and inside != sorted(inside):
            # The kernel does not call the program: this is a word of its stack that is no return address.
            last = len(inside) - 1 - inside[::-1].index(False)
            odd = self._numbering.number(_Frame(0, "", "[unknown]"))
            numbers[:last] = [odd if inside[at] else number for at, number in enumerate(numbers[:last])]
        return tuple(numbers)

    def _built_stacks(self) -> tuple[StackTable, Int32, Int64]:
        """The stack table; per distinct stack its node, and how many of its frames have no symbol."""
        builder = StackBuilder()
        kernel = [number for number, frame in enumerate(self._frames) if frame.ip >= KERNEL_START]
        resolved: dict[int, tuple[str, Dso]] = {}
        if self._resolver is not None:
            ips = np.array([self._frames[number].ip for number in kernel], np.uint64)
            names, dsos, which = self._resolver.kernel(ips)
            for number, name, dso in zip(kernel, names.tolist(), which.tolist(), strict=True):
                if name >= 0:
                    resolved[number] = self._resolver.names[name], dsos[dso]
        frames, unresolved = [], []
        for number, frame in enumerate(self._frames):
            dso, mode = dso_of(frame.dso)
            mode = KERNEL if frame.ip >= KERNEL_START else mode
            given = frame.symbol if self._kernel_named or mode != KERNEL else ""
            symbol, dso = resolved.get(number) or (given, dso)
            unresolved.append(not symbol)
            frames.append(builder.frame(symbol or _unresolved_name(dso, mode), dso, mode, inlined=frame.inlined))
        chains = list(self._stacks)
        node = builder.stacks([[frames[number] for number in numbers] for numbers in chains])
        lacking = [sum(unresolved[number] for number in numbers) for numbers in chains]
        return builder.table(), node, np.array(lacking, np.int64)


def _rule(name: str, *, counted: bool) -> tuple[Event, int | None]:
    """What is known of an event by its name, and the weight of its samples, None where it is the printed period."""
    settings = {key: int(value) for key, value in _SETTING.findall(name)}
    period, freq = settings.get("period"), settings.get("freq")
    unit = _unit(name)
    if not (counted or period):
        return Event(name, "samples", None, freq), 1
    if perf_format.counts_time(name):
        return Event(name, "ns", None, None, counted=True), None
    return Event(name, unit, period, freq), None if counted else period


def _unit(name: str) -> Unit:
    """What the period of an event counts in."""
    base = re.split(r"[:/]", name, maxsplit=1)[0]
    if base in ("cpu-clock", "task-clock"):
        return "ns"
    return "faults" if base in ("page-faults", "faults", "minor-faults", "major-faults") else "events"


def _is_tracepoint(event: str) -> bool:
    """Whether an event prints a payload instead of addresses: `sched:sched_switch`, but not `cycles:ppp`."""
    system, _, name = event.partition(":")
    return bool(re.fullmatch(r"\w+", system) and re.fullmatch(r"\w+", name)) and not _MODIFIERS.fullmatch(name)


def _frame(line: str) -> _Frame:
    """One frame line; the object is the last bracketed group, of which the path may hold brackets itself."""
    match = _FRAME.fullmatch(line)
    if match is None:
        return _Frame(0, "", "[unknown]")
    symbol, dso = match["code"], "[unknown]"
    if symbol.endswith(")"):
        depth = 0
        for at in range(len(symbol) - 1, -1, -1):
            depth += (symbol[at] == ")") - (symbol[at] == "(")
            if depth == 0:
                if at == 0 or symbol[at - 1] == " ":
                    symbol, dso = symbol[:at].rstrip(), symbol[at + 1 : -1]
                break
    symbol = _VERSION.sub("", _OFFSET.sub("", symbol))
    return _Frame(int(match["ip"], 16), "" if symbol == "[unknown]" else demangle(symbol), _OFFSET.sub("", dso))


def _unresolved_name(dso: Dso, mode: int) -> str:
    """What stands for the name of a function without symbol, as in stacks.py."""
    if dso.kind == "kernel" or (mode == KERNEL and dso.kind != "module"):
        return "[unknown kernel]"
    return dso.name if dso.name.startswith("[") else f"[{dso.name}]"


def _int32(digits: str) -> int:
    return max(-(2**31), min(int(digits), 2**31 - 1))
