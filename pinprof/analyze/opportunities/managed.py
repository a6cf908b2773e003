"""Managed memory that the CPU fetches page by page after the GPU had it, and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pinprof.analyze.opportunities.candidate import Candidate, total
from pinprof.analyze.opportunities.catalogue import cure
from pinprof.analyze.opportunities.results import Evidence
from pinprof.analyze.opportunities.scene import Scene
from pinprof.analyze.results import GPU_WAITS
from pinprof.base.units import format_bytes, format_ns
from pinprof.data.activity import CopyKind
from pinprof.data.model import Int64

_MOVES = re.compile(r"(block_copy_resident_pages\w*|uvm_spin_loop|uvm_push_end|block_unmap_gpu)(\.\w+)*")
"""Functions of the driver that move pages or take them from the GPU; a first touch needs none of them."""
_LEAST_MOVING = 0.05


def read_back(scene: Scene) -> Iterator[Candidate]:
    """Pages that the CPU fetches from the GPU fault by fault, by place; and those that the GPU must fetch again."""
    moving = scene.has(_MOVES)
    rows = np.flatnonzero(scene.caused_by("uvm.cpu_fault"))
    if not len(rows) or not moving[rows].any():
        return
    waits = np.flatnonzero(scene.caused_by(*GPU_WAITS) & scene.in_own())
    left = scene.ns(waits)
    for group in scene.by_place(rows):
        share = scene.ns(group[moving[group]]) / max(scene.ns(group), 1)
        # Mapping and bookkeeping come with each move: where hardly any moves, these are first touches.
        if share < _LEAST_MOVING:
            continue
        cost = scene.ns(group)
        amount = _bytes_for(scene, cost, "uvm.cpu-readback")
        ahead, home = (scene.rates.cost(way, amount) for way in ("uvm.prefetch", "uvm.prefetch-back"))
        if not amount or ahead is None:
            continue
        home = home or ahead
        back = scene.rates.cost("uvm.ondemand", amount)
        again = min(left, round(back.ns)) if back else 0
        left -= again
        remains = (total([ahead, home]) if again else home) or home
        site = scene.site_of(group)
        yield Candidate(
            title=f"{site.place} fetches managed memory from the GPU page by page.",
            site=site,
            phase=scene.phase_of(group),
            rows=np.sort(np.concatenate([group, waits])) if again else group,
            cost_ns=cost + again,
            remains=remains,
            cure=cure("prefetch", scene.framework),
            count=_faults(scene, group),
            bytes=amount,
            basis=(
                (f"About {format_bytes(amount)} return to the host, judging by the time. Prefetching as much"
                f" {'both ways ' if again else ''}takes {format_ns(round(remains.ns))} ({remains.source})."),
            ),
            evidence=(
                Evidence(f"CPU faults on managed memory take {format_ns(cost)} there."),
                *((Evidence(f"The GPU has to fetch the same pages again, which adds {format_ns(again)} of waiting."),)
                  if again else ()),
            ),
            causes=scene.causes(group) | ({"sync.poll": again} if again else {}),
        )  # fmt: skip


def first_touch_by_gpu(scene: Scene) -> Iterator[Candidate]:
    """Kernels that are the first to touch what the CPU has filled, where nothing is prefetched and no advice given.

    What the GPU did may not be recorded: then the wait for it is the bound, and the driver's rate the estimate.
    """
    calls = scene.calls
    # Advice may keep the pages where they are and let the GPU map them: which one it was is not recorded.
    if calls is None or calls.is_for("prefetch", "advise").any():
        return
    made = np.flatnonzero(calls.is_for("alloc managed") & (calls.table.status == 0))
    filled = np.flatnonzero(scene.caused_by("uvm.cpu_fault") & ~scene.has(_MOVES))
    waits = np.flatnonzero(scene.caused_by(*GPU_WAITS) & scene.in_own())
    amount = min(
        int(np.maximum(calls.size_bytes[made], 0).sum()), _bytes_for(scene, scene.ns(filled), "uvm.first-touch")
    )
    activity = scene.capture.activity
    if activity is not None and "migrations" in activity.recorded:
        ops = activity.gpu_ops
        amount = min(amount, int(ops.size_bytes[ops.copy_kind == CopyKind.UVM_HOST_TO_DEVICE].sum()))
    faulting, ahead = scene.rates.cost("uvm.ondemand", amount), scene.rates.cost("uvm.prefetch", amount)
    if not amount or faulting is None or ahead is None:
        return
    cost = min(scene.ns(waits), round(faulting.ns))
    for group in list(scene.by_place(waits))[:1]:
        site = scene.site_of(group)
        error = 0.5 * cost
        yield Candidate(
            title=f"{site.place} waits while the GPU fetches managed memory page by page.",
            site=site,
            phase=scene.phase_of(group),
            rows=group,
            cost_ns=cost,
            remains=replace(ahead, low_ns=max(ahead.low_ns - error, 0), high_ns=ahead.high_ns + error),
            cure=cure("prefetch", scene.framework),
            bytes=amount,
            basis=(
                (
                    f"The CPU fills {format_bytes(amount)}. Fetching it takes {format_ns(round(faulting.ns))} by GPU"
                    f" faults, and {format_ns(round(ahead.ns))} with a prefetch ({ahead.source})."
                ),
            ),
            evidence=(
                Evidence(
                    f"The thread waits {format_ns(scene.ns(waits))} for the GPU, and the program prefetches no memory."
                ),
            ),
        )


def _bytes_for(scene: Scene, cost_ns: int, measure: str) -> int:
    """How many bytes an operation of a known rate handles in this time."""
    unit = 64 << 20
    rate = scene.rates.cost(measure, unit)
    return round(cost_ns / rate.ns * unit) if rate and rate.ns else 0


def _faults(scene: Scene, rows: Int64) -> int:
    """Faults that an event counted at the place of these wall rows; 0 where nothing counted them."""
    capture = scene.capture
    counting = [number for number, event in enumerate(capture.events) if "fault" in event.name]
    if not counting:
        return 0
    place = scene.place[rows[0]]
    samples = capture.samples
    here = np.isin(samples.event, counting) & (scene.sites.frames(samples.stack) == place)
    return int(samples.weight[here].sum())
