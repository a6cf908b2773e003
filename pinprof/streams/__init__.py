"""The capture directory and the files in it: each is declared once, in `STREAMS`, and nowhere listed again.

Whoever opens, cuts or shares a capture goes through this list, in its order: `pinprof.read.directory` (`read`),
`window.py` (`cut`), `share.py` (`scrub`).
"""

from __future__ import annotations

from pathlib import Path

from pinprof.streams import store
from pinprof.streams.stream import Stream

APPENDED = "pinprof.streams.window:appended"
RECORDS = "pinprof.streams.window:records"
"""Cuts of files of which a window needs nothing from before it, but for the records that `RecordsFile` keeps."""
_COPIED = "pinprof.streams.window:copied"
_WHOLE = "pinprof.streams.window:whole"
_AS_IS = "pinprof.streams.scrubs:AS_IS"
_LEFT_OUT = "pinprof.streams.scrubs:LEFT_OUT"

STREAMS: tuple[Stream, ...] = (
    Stream(
        store.MANIFEST, "what was recorded, how, where and how it ended", "pinprof.recording",
        scrub="pinprof.streams.scrubs:MANIFEST",
    ),
    Stream(
        store.PERF_DATA, "samples", "pinprof.collect.native",
        read="pinprof.read.perf.capture:with_samples",
        cut=RECORDS,
        scrub="pinprof.streams.scrubs:PERF_DATA",
        alone=True,
    ),
    Stream(
        store.PERF_SCRIPT, "what perf made of copied stacks or branch records", "pinprof.read.perf.script_text",
        scrub="pinprof.streams.scrubs:TEXT",
    ),
    Stream(
        store.KALLSYMS, "kernel symbols of the recording boot", "pinprof.collect.kallsyms",
        cut=_WHOLE,
        scrub=_LEFT_OUT,
    ),
    Stream(
        store.SYMBOLS, "every address seen, with its symbol", "pinprof.read.symbols.resolver",
        cut=_WHOLE,
        scrub="pinprof.streams.scrubs:SYMBOLS",
    ),
    Stream(
        store.RANGES, "ranges of `phase()`; streams that are read alone need them first", "pinprof.scenario.ranges",
        cut=APPENDED,
        scrub=_AS_IS,
    ),
    Stream(
        store.CALLS_DATA, "CUDA calls: entered, with arguments and stack, and returned", "pinprof.collect.native.calls",
        read="pinprof.read.perf.capture:with_calls",
        scrub="pinprof.streams.scrubs:CALLS_DATA",
    ),
    Stream(
        store.INSIDE, "CUDA calls and CPU time as the program's own agent saw them, by process", "pinprof.inside",
        read="pinprof.read.inside.calls:with_calls",
        cut=_COPIED,
        scrub=_AS_IS,
        folder=True,
    ),
    Stream(
        store.GPU, "what the GPU did, by CUPTI, one file a process", "pinprof.collect.cupti",
        read="pinprof.read.cupti:with_gpu",
        cut=_COPIED,
        scrub=_AS_IS,
        folder=True,
    ),
    Stream(
        store.UVM, "events of managed memory, by the driver, one file an address space", "pinprof.collect.uvm.beside",
        read="pinprof.read.uvm:with_managed_memory",
        cut="pinprof.streams.window:uvm_events",
        scrub="pinprof.streams.scrubs:UVM_EVENTS",
        folder=True,
    ),
    Stream(
        store.NVTX, "what the program said through NVTX, one file a process", "pinprof.collect.nvtx",
        read="pinprof.read.range_sources:with_nvtx",
        cut=_COPIED,
        scrub=_AS_IS,
        folder=True,
    ),
    Stream(
        store.NSYS_SQLITE, "what Nsight Systems traced, its own export without what is private", "pinprof.collect.nsys",
        read="pinprof.read.nsys.capture:with_trace",
        scrub="pinprof.streams.scrubs:DATABASE",
        alone=True,
    ),
    Stream(
        store.PYTHON_STACKS, "Python stacks with lines, by thread and time", "pinprof.collect.python_frames.beside",
        read="pinprof.read.python.frames:with_python",
        cut=APPENDED,
        scrub=_AS_IS,
        context=True,
    ),
    Stream(
        store.MEMORY, "memory of the program and the machine over time", "pinprof.collect.memory",
        read="pinprof.read.memory:with_memory",
        cut=APPENDED,
        scrub=_AS_IS,
        context=True,
    ),
    Stream(
        store.RATES, "what memory operations cost on this machine", "pinprof.recording",
        read="pinprof.read.machine_rates:with_rates",
        cut=_WHOLE,
        scrub=_AS_IS,
        context=True,
    ),
    Stream(store.NSYS_REPORT, "nsys's report, with the program's environment", "pinprof.collect.nsys", scrub=_LEFT_OUT),
    Stream("nsys.qdstrm", "what nsys could not make a report of", "pinprof.collect.nsys", scrub=_LEFT_OUT),
    Stream(store.LOG, "what the recording tools printed", "pinprof.collect.run", scrub=_LEFT_OUT),
    Stream(store.CALLS_LOG, "what the recorder of CUDA calls printed", "pinprof.collect.native.calls", scrub=_LEFT_OUT),
    Stream(store.RESERVE, "left by an interrupted recording", "pinprof.streams.store", scrub=_LEFT_OUT),
    Stream("*.data.head*", "left by an interrupted recording", "pinprof.collect.native.sampler", scrub=_LEFT_OUT),
    Stream(".pinprof-*.partial", "left by an interrupted write", "pinprof.base.files", scrub=_LEFT_OUT),
)  # fmt: skip
"""Every file of a capture. Who reads it adds to what those before it have read."""


def holds_recording(directory: Path) -> bool:
    """Whether a capture holds what a report can be made of: anything that was recorded of a program."""
    return any(stream.read and stream.name != store.RATES and stream.of(directory) for stream in STREAMS)


def holds_samples(directory: Path) -> bool:
    """Whether a capture has what other streams are read into: samples, or what Nsight Systems traced."""
    return any(stream.alone and stream.of(directory) for stream in STREAMS)


def owner(name: str) -> Stream | None:
    """The stream that a file of a capture belongs to, by its path in there; None where there is none."""
    return next((stream for stream in STREAMS if stream.owns(name)), None)
