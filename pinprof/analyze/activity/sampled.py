"""GPU work that was recorded in windows: what it says of the whole time, and how sure that is.

A window holds what was begun in it, whenever it ran. Whether a window was drawn does not depend on the program, so what
windows hold, each divided by its chance, is a fair estimate for the time outside those that were certain. Its error
follows from how windows differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from pinprof.analyze.intervals import union
from pinprof.base.columns import Bool, Float64, Int64, distinct
from pinprof.base.distributions import t_quantile
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_share
from pinprof.data.activity import Activity, GpuOpTable, GpuWindowTable
from pinprof.data.activity_kinds import OpKind

COLLECTIVE = re.compile(r"\bnccl\w*|\brccl\w*", re.IGNORECASE)
"""Names of the kernels in which GPUs meet."""
_LONGEST_NAME = 512
_NAMES = 10
_LEAST_DRAWN = 4
"""From fewer windows nothing is said of the time outside them."""


@dataclass(frozen=True)
class SampledShare:
    """A part of a process's time, from 0 to 1."""

    share: float
    low: float
    high: float
    """The interval that holds it with 95 %."""


@dataclass(frozen=True)
class GpuSample:
    """What a process's GPU did, by windows."""

    pid: int
    device: int
    """-1 where no window holds work of any."""
    windows: int
    recorded_ns: int
    """Their length together."""
    lived_ns: int
    """The process's life since it initialised CUDA, as far as it is known."""
    busy: SampledShare | None
    """When the GPU did anything for the process; None where too few windows were drawn to say so."""
    kernels: SampledShare | None
    copies: SampledShare | None
    collectives: SampledShare | None
    """Kernels in which GPUs meet, waiting for others included."""
    by_name: tuple[tuple[str, float], ...]
    """Kernels with most time: name and part of the time of all kernels in the windows, weighted like the rest."""


@dataclass(frozen=True)
class _Weights:
    """What one process's windows stand for."""

    windows: GpuWindowTable
    rest_ns: int
    """The time outside the certain windows."""

    @property
    def drawn(self) -> Bool:
        return np.asarray(self.windows.chance < 1)

    @property
    def length(self) -> Int64:
        return self.windows.end_ns - self.windows.start_ns

    @property
    def each(self) -> Float64:
        """Per window, by what its content is multiplied in an estimate of the whole."""
        drawn, inverse = self.drawn, 1 / self.windows.chance
        stood = float((self.length * inverse)[drawn].sum())
        return np.where(drawn, inverse * (self.rest_ns / stood if stood else 0.0), 1.0)

    @property
    def speaks(self) -> bool:
        """Whether the windows say something of the whole."""
        return not self.rest_ns or int(self.drawn.sum()) >= _LEAST_DRAWN

    def part(self, content: Int64, lived_ns: int) -> SampledShare | None:
        """What a quantity of windows, in nanoseconds, is of the whole."""
        if not self.speaks or lived_ns <= 0:
            return None
        weight, drawn = self.each, self.drawn
        share = float((weight * content).sum()) / lived_ns
        count, error = int(drawn.sum()), 0.0
        if self.rest_ns and count > 1:
            rate = float((weight * content)[drawn].sum()) / self.rest_ns
            apart = (weight * (content - rate * self.length))[drawn]
            deviation = math.sqrt(count / (count - 1) * float((apart * apart).sum()))
            error = t_quantile(count - 1, 0.975) * deviation / lived_ns
        return SampledShare(min(share, 1.0), max(share - error, 0.0), min(share + error, 1.0))


def gpu_samples(activity: Activity) -> tuple[GpuSample, ...]:
    """What windows say of each GPU of each process that used one; nothing of a recording without windows."""
    found = tuple(_samples(activity))
    return tuple(sample for sample in found if sample.device >= 0) or found[:1]


def _samples(activity: Activity) -> Iterator[GpuSample]:
    operations = activity.window_ops
    for pid in distinct(activity.windows.pid).tolist():
        windows = activity.windows.take(activity.windows.pid == pid)
        lived = int(windows.lived_ns.max()) - int(windows.start_ns.min())
        certain = int((windows.end_ns - windows.start_ns)[windows.chance >= 1].sum())
        weights = _Weights(windows, max(lived - certain, 0))
        mine = (operations.pid == pid) & (operations.kind != OpKind.SYNC)
        for device in distinct(operations.device[mine]).tolist() or [-1]:
            yield _sample(operations.take(mine & (operations.device == device)), device, weights, lived)


def _sample(operations: GpuOpTable, device: int, weights: _Weights, lived: int) -> GpuSample:
    """One GPU of one process."""
    windows = weights.windows
    kernels = np.isin(operations.kind, (OpKind.KERNEL, OpKind.GRAPH))
    meets = np.array([*(COLLECTIVE.search(name[:_LONGEST_NAME]) is not None for name in operations.names), False])
    chosen = {
        "busy": np.ones(len(operations), np.bool_),
        "kernels": kernels,
        "copies": np.isin(operations.kind, (OpKind.COPY, OpKind.MIGRATION)),
        "collectives": kernels & meets[operations.name],
    }
    return GpuSample(
        pid=int(windows.pid[0]),
        device=device,
        windows=len(windows),
        recorded_ns=int(weights.length.sum()),
        lived_ns=lived,
        **{name: weights.part(_content(operations.take(rows), windows), lived) for name, rows in chosen.items()},
        by_name=_by_name(operations.take(kernels & (operations.name >= 0)), weights),
    )


def window_of(operations: GpuOpTable, windows: GpuWindowTable) -> Int64:
    """Per operation of a process the window that it was begun in: the latest that is open when it runs or before."""
    return np.maximum(np.searchsorted(windows.start_ns, operations.start_ns, "right") - 1, 0)


def _content(operations: GpuOpTable, windows: GpuWindowTable) -> Int64:
    """Per window how long any of its operations ran."""
    of = window_of(operations, windows)
    edges = np.searchsorted(of, np.arange(len(windows) + 1))
    content = np.zeros(len(windows), np.int64)
    for number, (first, last) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        content[number] = union(operations.start_ns[first:last], operations.end_ns[first:last]).total
    return content


def _by_name(operations: GpuOpTable, weights: _Weights) -> tuple[tuple[str, float], ...]:
    time = (operations.end_ns - operations.start_ns) * weights.each[window_of(operations, weights.windows)]
    total = np.bincount(operations.name, time, len(operations.names))
    whole = float(total.sum())
    most = np.argsort(-total, kind="stable")[:_NAMES].tolist() if whole else []
    return tuple((operations.names[name], float(total[name]) / whole) for name in most if total[name])


def sample_words(sample: GpuSample) -> str:
    """`GPU 0 worked 63 % of the time (58 % to 68 %): kernels 60 %, copies 4 %`; what windows leave open is said so."""
    gpu = f"GPU {sample.device}" if sample.device >= 0 else "the GPU"
    if sample.busy is None:
        return f"how much {gpu} worked is not known, because its work was recorded in too few windows"
    parts = {"kernels": sample.kernels, "copies": sample.copies, "of them collectives": sample.collectives}
    shown = [f"{what} {format_share(part.share, 1)}" for what, part in parts.items() if part and part.share]
    between = f"{format_share(sample.busy.low, 1)} to {format_share(sample.busy.high, 1)}"
    of = f": {', '.join(shown)}" if shown else ""
    return f"{gpu} worked {format_share(sample.busy.share, 1)} of the time ({between}){of}"
