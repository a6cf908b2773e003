"""What the fuzzer damages: every format that pinprof reads, and every file of a capture."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from random import Random

from tests.fuzz import change_bytes, change_tables, change_text, check, seeds
from tests.fuzz.seeds import DATA, Files

Change = Callable[[Random, bytes], bytes]

_BLIND = 0.15
_COMPRESSED = 0.02


@dataclass(frozen=True)
class Target:
    """One format, or one file of a capture."""

    name: str
    make: Callable[[], Sequence[Files]]
    """The seeds; slow, so ask `seeds`."""
    change: Change
    """Knows the structure; one input in `1 / _BLIND` is changed without."""
    part: str = "*"
    """Which of an input's files are changed."""
    check: Callable[..., bool] = check.report
    """What must hold; whether the input was read."""

    @cached_property
    def seeds(self) -> Sequence[Files]:
        """Inputs that are right."""
        return self.make()

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
        return change_bytes.compressed(random, changed) if kind > 1 - _COMPRESSED else changed


def _file(name: str, *makers: Callable[[], bytes]) -> Callable[[], Sequence[Files]]:
    return lambda: [{name: make()} for make in makers]


def _captures(*names: str) -> Callable[[], Sequence[Files]]:
    return lambda: [seeds.capture(name) for name in names]


_NATIVE, _NSYS, _SCENARIO = "h200/pinned-native", "h200/uvm-perf-nsys", "cases/pinned_ring"
_TORCH, _WORKERS, _PROGRAM = "h200/torch-pin-pin-memory", "cases/dataloader_fresh", "h200/calls"

_JSON, _LINES = change_text.json_document, change_text.lines


def _perf_files() -> Sequence[Files]:
    real = (seeds.trimmed_perf(seeds.xz(f"h200/{name}.perf.data")) for name in ("pageable", "uvm.all"))
    by_hand = (seeds.perf_by_hand(piped=piped) for piped in (False, True))
    return [{"a.perf.data": data} for data in (*real, *by_hand)]


def _exports() -> Sequence[Files]:
    names = ("h200/uvm.sqlite", "h200/pageable.sqlite", "nsys/nvtx-2022.4.sqlite")
    return [{"a.sqlite": seeds.trimmed_sqlite(seeds.xz(name))} for name in names]


def _profiles() -> Sequence[Files]:
    stored = ((DATA / f"profiles/go-{name}.pb.gz").read_bytes() for name in ("cpu", "heap"))
    return [{"a.pb": data} for data in (seeds.exported("pprof"), *stored)]


TARGETS: tuple[Target, ...] = (
    Target("perf.data", _perf_files, change_bytes.perf),
    Target("perf script", _file("a.txt", lambda: seeds.PERF_SCRIPT.encode()), _LINES),
    Target("nsys sqlite", _exports, change_tables.sqlite),
    Target("nsys parquetdir", lambda: [seeds.parquetdir()], change_tables.parquet),
    Target("folded", _file("a.folded", lambda: seeds.exported("folded")), _LINES),
    Target("speedscope", _file("a.json", lambda: seeds.exported("speedscope"), seeds.EVENTED.encode), _JSON),
    Target("pprof", _profiles, change_bytes.protobuf),
    Target(
        "Chrome trace",
        _file("a.json", lambda: seeds.exported("trace", _NSYS), lambda: json.dumps(seeds.TORCH_TRACE).encode()),
        _JSON,
    ),
    Target(
        "bench file",
        lambda: [{"bench/a.json": seeds.bench(), "bench/b.json": seeds.bench()}],
        _JSON,
        check=check.comparison,
    ),
    Target("manifest.json", _captures(_NATIVE, _NSYS, _SCENARIO), _JSON, "*/manifest.json"),
    Target("perf.data in a capture", _captures(_NATIVE, _WORKERS, _TORCH), change_bytes.perf, "*/perf.data"),
    Target("calls.data", _captures(_PROGRAM, _TORCH, _WORKERS), change_bytes.perf, "*/calls.data"),
    Target("perf-script.txt.gz", lambda: [seeds.with_chains()], change_text.packed(_LINES), "*/perf-script.txt.gz"),
    Target("kallsyms.gz", lambda: [seeds.with_chains()], change_text.packed(_LINES), "*/kallsyms.gz"),
    Target("symbols.json.gz", _captures(_NATIVE, _WORKERS), change_text.packed(_JSON), "*/symbols.json.gz"),
    Target("ranges.jsonl", _captures(_NATIVE, _TORCH, _NSYS), change_text.json_lines, "*/ranges.jsonl"),
    Target("memory.jsonl", _captures(_NATIVE, _WORKERS), change_text.json_lines, "*/memory.jsonl"),
    Target("python-stacks.jsonl.gz", _captures(_WORKERS), change_text.members, "*/python-stacks.jsonl.gz"),
    Target("nvtx", _captures(_NATIVE, _TORCH, _WORKERS), change_bytes.words, "*/nvtx/*"),
    Target("nsys.sqlite", _captures(_NSYS), change_tables.sqlite, "*/nsys.sqlite"),
    Target("rates.json", _captures(_NATIVE, _SCENARIO), _JSON, "*/rates.json"),
)
