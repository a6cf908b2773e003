"""What the fuzzer damages: every format that pinprof reads, and every file of a capture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz import change_bytes, change_tables, change_text, check, check_others, seeds, slim, texts
from tests.fuzz.seeds import DATA, Files

Change = Callable[[Random, bytes], bytes]

_BLIND = 0.15
_COMPRESSED = 0.02
_LARGE = 0.004
_MOST_BYTES = 4 << 20
"""Of a file that was changed."""


@dataclass(frozen=True)
class Target:
    """One format, or one file of a capture."""

    name: str
    make: Callable[[], Sequence[Files]]
    """The small seeds; slow, so ask `seeds`."""
    change: Change
    """Knows the structure; one input in `1 / _BLIND` is changed without."""
    part: str = "*"
    """Which of an input's files are changed."""
    large: Callable[[], Sequence[Files]] = tuple
    """Seeds with all that a capture may have, which take ten times as long: four inputs in a thousand."""
    weight: int = 4
    """How often it is chosen: targets share CPU time, not inputs, for some take ten times as long as others."""
    check: Callable[[Path, check.Thorough, check.Known], bool] = check.report
    """What must hold of a path; whether the input was read."""

    @cached_property
    def seeds(self) -> Sequence[Files]:
        """Inputs that are right: the small ones, then the large ones."""
        return [*self._small, *self.large()]

    @cached_property
    def _small(self) -> Sequence[Files]:
        return self.make()

    def chosen(self, random: Random) -> int:
        """The number of a seed."""
        small, large = len(self._small), len(self.seeds) - len(self._small)
        if large and random.random() < _LARGE:
            return small + random.randrange(large)
        return random.randrange(small)

    def damaged(self, random: Random, seed: Files) -> dict[str, bytes]:
        """The files of an input that are not as in the seed: one of them, seldom two."""
        names = [name for name in seed if fnmatch(name, self.part)]
        chosen = random.sample(names, min(len(names), random.choice((1, 1, 1, 2))))
        return {name: self._changed(random, seed[name]) for name in chosen}

    def _changed(self, random: Random, data: bytes) -> bytes:
        kind = random.random()
        if kind < _BLIND:
            return change_bytes.blind(random, data)
        try:
            changed = self.change(random, data)
        except (ValueError, ArithmeticError, RecursionError):
            changed = change_bytes.blind(random, data)
        changed = changed[:_MOST_BYTES]
        return change_bytes.compressed(random, changed) if kind > 1 - _COMPRESSED else changed


def _file(name: str, *makers: Callable[[], bytes]) -> Callable[[], Sequence[Files]]:
    return lambda: [{name: make()} for make in makers]


def _captures(*names: str, parts: Sequence[str] = ()) -> Callable[[], Sequence[Files]]:
    return lambda: [seeds.capture(name, *parts) for name in names]


def _whole(*names: str) -> Callable[[], Sequence[Files]]:
    return lambda: [seeds.whole_capture(name) for name in names]


_NATIVE, _NSYS, _SCENARIO = "h200/pinned-native", "h200/uvm-perf-nsys", "cases/pinned_ring"
_TORCH, _WORKERS, _PROGRAM = "h200/torch-pin-pin-memory", "cases/dataloader_fresh", "h200/calls"

_JSON, _LINES = change_text.json_document, change_text.lines


def _perf_files() -> Sequence[Files]:
    real = (slim.perf(seeds.xz(f"h200/{name}.perf.data"), slim.FEW) for name in ("pageable", "uvm.all"))
    by_hand = (seeds.perf_by_hand(piped=piped) for piped in (False, True))
    return [{"a.perf.data": data} for data in (*real, *by_hand)]


def _wakeups() -> Sequence[Files]:
    return [{"a.perf.data": seeds.wakeups_by_hand(system_wide=wide)} for wide in (False, True)]


def _exports() -> Sequence[Files]:
    names = ("h200/uvm.sqlite", "h200/pageable.sqlite", "nsys/nvtx-2022.4.sqlite")
    return [{"a.sqlite": slim.sqlite(seeds.xz(name))} for name in names]


def _profiles() -> Sequence[Files]:
    stored = ((DATA / f"profiles/go-{name}.pb.gz").read_bytes() for name in ("cpu", "heap"))
    return [{"a.pb": data} for data in (seeds.exported("pprof"), *stored)]


def _reports() -> Sequence[Files]:
    return [{"a.nsys-rep": seeds.xz("nsys/nvtx-2022.4.nsys-rep")}]


_BY_MAGIC: Mapping[bytes, Change] = {
    b"PERFILE2": change_bytes.perf,
    b"{": _JSON,
    b"\x1f\x8b": change_text.packed(_JSON),
    b"SQLite": change_tables.sqlite,
}


def _any_file(random: Random, data: bytes) -> bytes:
    for magic, change in _BY_MAGIC.items():
        if data.startswith(magic):
            return change(random, data)
    return change_bytes.blind(random, data)


TARGETS: tuple[Target, ...] = (
    Target("perf.data", _perf_files, change_bytes.perf),
    Target("wake-ups", _wakeups, change_bytes.perf, weight=3),
    Target("perf script", _file("a.txt", lambda: texts.PERF_SCRIPT.encode()), _LINES, weight=8),
    Target("nsys sqlite", _exports, change_tables.sqlite, weight=3),
    Target(
        "nsys parquetdir",
        lambda: [seeds.parquetdir()],
        change_tables.parquet,
        large=lambda: [seeds.parquetdir(whole=True)],
        weight=1,
    ),
    Target(
        "folded",
        _file("a.folded", lambda: seeds.exported("folded"), texts.PY_SPY.encode, texts.AUSTIN.encode),
        _LINES,
        weight=12,
    ),
    Target(
        "V8 CPU profile",
        _file("a.cpuprofile", *(json.dumps(one).encode for one in (texts.V8_PROFILE, texts.OLD_V8_PROFILE))),
        _JSON,
        weight=12,
    ),
    Target("speedscope", _file("a.json", lambda: seeds.exported("speedscope"), texts.EVENTED.encode), _JSON, weight=12),
    Target("pprof", _profiles, change_bytes.protobuf, weight=8),
    Target(
        "Chrome trace",
        _file(
            "a.json",
            lambda: seeds.exported("trace", _NSYS),
            *(json.dumps(one).encode for one in (texts.TORCH_TRACE, texts.V8_TRACE)),
        ),
        _JSON,
    ),
    Target(
        "bench file",
        lambda: [{"bench/a.json": seeds.bench(), "bench/b.json": seeds.bench()}],
        _JSON,
        check=check.comparison,
        weight=12,
    ),
    Target(
        "manifest.json",
        _captures(_NATIVE, _NSYS, _SCENARIO, parts=("ranges.jsonl",)),
        _JSON,
        "*/manifest.json",
        large=_whole(_NATIVE, _NSYS, _SCENARIO),
        weight=4,
    ),
    Target(
        "perf.data in a capture",
        _captures(_NATIVE, _WORKERS, _TORCH, parts=("ranges.jsonl",)),
        change_bytes.perf,
        "*/perf.data",
        large=_whole(_NATIVE, _WORKERS, _TORCH),
        weight=3,
    ),
    Target(
        "calls.data",
        _captures(_PROGRAM, _TORCH, _WORKERS, parts=("calls.data",)),
        change_bytes.perf,
        "*/calls.data",
        large=_whole(_PROGRAM, _TORCH, _WORKERS),
        weight=3,
    ),
    Target(
        "perf-script.txt.gz",
        lambda: seeds.with_chains()[:1],
        change_text.packed(_LINES),
        "*/perf-script.txt.gz",
        weight=8,
    ),
    Target("kallsyms.zst", seeds.with_chains, _LINES, "*/kallsyms.zst", weight=8),
    Target(
        "symbols.json.gz",
        _captures(_NATIVE, _WORKERS),
        change_text.packed(_JSON),
        "*/symbols.json.gz",
        large=_whole(_NATIVE, _WORKERS),
        weight=16,
    ),
    Target(
        "ranges.jsonl",
        _captures(_NATIVE, _TORCH, parts=("ranges.jsonl",)),
        change_text.json_lines,
        "*/ranges.jsonl",
        large=_whole(_NATIVE, _TORCH, _NSYS),
        weight=4,
    ),
    Target(
        "memory.jsonl",
        _captures(_NATIVE, _WORKERS, parts=("memory.jsonl",)),
        change_text.json_lines,
        "*/memory.jsonl",
        large=_whole(_NATIVE, _WORKERS),
        weight=6,
    ),
    Target(
        "python-stacks.jsonl.gz",
        _captures(_WORKERS, parts=("python-stacks.jsonl.gz",)),
        change_text.members,
        "*/python-stacks.jsonl.gz",
        large=_whole(_WORKERS),
        weight=6,
    ),
    Target(
        "nvtx",
        _captures(_NATIVE, _TORCH, _WORKERS, parts=("nvtx",)),
        change_bytes.words,
        "*/nvtx/*",
        large=_whole(_NATIVE, _TORCH, _WORKERS),
        weight=4,
    ),
    Target(
        "gpu",
        lambda: [
            seeds.capture(_PROGRAM, "gpu/managed.bin"),
            seeds.capture(_PROGRAM, "gpu/not_async.bin", "calls.data"),
        ],
        change_bytes.words,
        "*/gpu/*",
        large=_whole(_PROGRAM, _WORKERS),
        weight=4,
    ),
    Target("inside", seeds.inside, change_bytes.words, "*/inside/*", weight=2),
    Target("uvm", seeds.managed, change_bytes.words, "*/uvm/*", weight=3),
    Target("nsys.sqlite", _captures(_NSYS), change_tables.sqlite, "*/nsys.sqlite", large=_whole(_NSYS), weight=2),
    Target(
        "rates.json",
        _captures(_NATIVE, _SCENARIO, parts=("rates.json",)),
        _JSON,
        "*/rates.json",
        large=_whole(_NATIVE, _SCENARIO),
        weight=4,
    ),
    Target("--kallsyms", seeds.with_kallsyms, _LINES, "kallsyms", check=check.with_side_files, weight=8),
    Target(
        "--ranges", seeds.with_ranges, change_text.json_lines, "ranges.jsonl", check=check.with_side_files, weight=8
    ),
    Target("ranks", seeds.ranks, _any_file, "*/rank-1*", weight=3),
    Target("launch", seeds.launch, _any_file, large=seeds.whole_launch, check=check_others.ranks, weight=1),
    Target("fleet store", seeds.fleet, change_tables.cells, check=check_others.fleet, weight=1),
    Target("packed capture", seeds.packed_capture, change_bytes.words, weight=8),
    Target("shared capture", _whole(_PROGRAM, _NSYS, _WORKERS), _any_file, check=check_others.shared, weight=1),
    Target("program", seeds.programs, change_bytes.words, check=check_others.program, weight=16),
    Target("nsys-rep", _reports, change_bytes.words, weight=1),
    Target("settings", seeds.settings, _LINES, "*.toml", check=check_others.settings, weight=10),
    Target("budgets", _file("pinprof.toml", texts.BUDGETS.encode), _LINES, check=check_others.budgets, weight=8),
)
