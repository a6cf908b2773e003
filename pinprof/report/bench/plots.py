"""The curves of the bench page as plotly figures in plain dictionaries, coloured by the page (`meta` is a level)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pinprof.analyze.costs.bench import Study
from pinprof.analyze.costs.costs import GIB, MOVES, Cost
from pinprof.base.units import format_bytes, format_ns, format_rate
from pinprof.data.rates import prefault_threads
from pinprof.report.figures import layout, limit, title

_STYLES: Mapping[str, tuple[str, str, str]] = {
    "touch.first": ("fault", "circle", "solid"),
    "touch.huge": ("fault", "diamond", "dash"),
    "pin.alloc": ("pin", "circle", "solid"),
    "pin.hostalloc": ("pin", "diamond", "dash"),
    "pin.register-touched": ("uvm", "triangle-up", "solid"),
    "pin.register-untouched": ("uvm", "triangle-down", "dash"),
    "free.pinned": ("free", "square", "solid"),
    "free.unregister": ("free", "triangle-up", "dot"),
    "free.pageable": ("free", "diamond", "dash"),
    "h2d.pageable": ("copy", "triangle-up", "solid"),
    "h2d.pinned": ("pin", "triangle-up", "solid"),
    "h2d.staged": ("free", "triangle-up", "solid"),
    "h2d.write-combined": ("dma", "triangle-up", "dash"),
    "d2h.pageable": ("copy", "triangle-down", "dash"),
    "d2h.pinned": ("pin", "triangle-down", "dash"),
    "memcpy.host": ("sys", "circle", "dot"),
    "uvm.ondemand": ("fault", "circle", "solid"),
    "uvm.first-touch": ("copy", "diamond", "dot"),
    "uvm.prefetch": ("uvm", "circle", "solid"),
    "uvm.prefetched-kernel": ("user", "diamond", "dash"),
    "uvm.cpu-readback": ("fault", "triangle-down", "dash"),
    "zerocopy.pass": ("dma", "square", "solid"),
}
"""Measure → level, marker and line: two curves of one colour differ in both."""
_PREFAULT = ("rm", "square", "dot")

_HEIGHT = 400
_LEGEND = {"showlegend": True}


def figures(study: Study) -> dict[str, Any]:
    """Plots by the name of their place on the page; those without data are not there."""
    # Reserving addresses costs the same at any size: per GiB it would only squeeze the other curves.
    still = [name for name in study.measures if name not in MOVES]
    made = [name for name in still if name.split(".")[0] in ("touch", "pin", "free", "uvm")]
    widest = max(filter(prefault_threads, study.measures), key=prefault_threads, default=None)
    moved = [name for name in study.measures if name.split(".")[0] in ("h2d", "d2h", "memcpy")]
    kernels = [name for name in study.measures if name in MOVES and name.split(".")[0] in ("uvm", "zerocopy")]
    drawn = {
        "make": _curves(study, [*made, *([widest] if widest else [])], _per_gib, "ms per GiB", logarithmic=True),
        "move": _with_limits(study, _curves(study, moved, _speed, "GB/s", logarithmic=False)),
        "prefault": _prefault(study),
        "break_even": _break_even(study),
        "kernels": _curves(study, kernels, _speed, "GB/s", logarithmic=True),
    }
    return {name: figure for name, figure in drawn.items() if figure}


def _per_gib(cost: Cost) -> float | None:
    return cost.ns_per_gib / 1e6 if cost.ns_per_gib is not None else None


def _speed(cost: Cost) -> float | None:
    return cost.gb_per_s


def _curves(
    study: Study, measures: Sequence[str], value: Callable[[Cost], float | None], unit: str, *, logarithmic: bool
) -> dict[str, Any] | None:
    """A curve by size for each measure, with the spread of its values on hover."""
    traces = []
    for measure in measures:
        costs = [cost for size in study.sizes if (cost := study.cost(measure, size)) and value(cost)]
        if costs:
            trace = _trace(measure, [cost.rate.size_bytes for cost in costs], [value(cost) for cost in costs])
            trace["text"] = [_hover(cost, unit) for cost in costs]
            traces.append(trace)
    if not traces:
        return None
    axis = _logarithmic(traces) if logarithmic else {"rangemode": "tozero"}
    return {"data": traces, "layout": layout(_size_axis(study.sizes), axis | title(unit), _HEIGHT) | _LEGEND}


def _logarithmic(traces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A logarithmic axis with labels at 1, 2 and 5 of each decade."""
    values = [value for trace in traces for value in trace["y"] if value > 0] or [1]
    decades = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}


def _hover(cost: Cost, unit: str) -> str:
    rate = cost.rate
    spread = f"{format_ns(rate.median_ns)} ({format_ns(rate.low_ns)} to {format_ns(rate.high_ns)})"
    figure = (
        format_rate(rate.size_bytes, rate.median_ns) if unit == "GB/s" else f"{format_ns(cost.ns_per_gib or 0)} per GiB"
    )
    return f"{format_bytes(rate.size_bytes)}: {spread}, <b>{figure}</b>"


def _trace(measure: str, x: Sequence[float], y: Sequence[float | None]) -> dict[str, Any]:
    level, symbol, dash = _STYLES.get(measure, _PREFAULT)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": measure,
        "meta": level,
        "x": list(x),
        "y": [_short(number) for number in y],
        "line": {"width": 2, "dash": dash},
        "marker": {"symbol": symbol, "size": 8},
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
    }


def _short(number: float | None) -> float | None:
    return float(f"{number:.5g}") if number is not None else None


def _with_limits(study: Study, figure: dict[str, Any] | None) -> dict[str, Any] | None:
    """The link's theory and the best rate that was measured, as lines over all sizes."""
    if figure is None:
        return None
    ends = _ends(study.sizes)
    theory = next((limit.theory_gb_per_s for limit in study.limits if limit.theory_gb_per_s), None)
    lines = [(f"{study.link}, theory", theory, "dot")] if theory else []
    best = [(limit.direction, limit.practical_gb_per_s) for limit in study.limits if limit.practical_gb_per_s]
    rates = [rate for _, rate in best]
    if rates and max(rates) < 1.05 * min(rates):
        lines.append(("best measured", max(rates), "dash"))
    else:
        lines += [(f"best measured {direction}", rate, "dash") for direction, rate in best]
    figure["data"] += [_line(f"{name}: {rate:.3g} GB/s", ends, rate, dash) for name, rate, dash in lines]
    return figure


def _line(name: str, ends: tuple[float, float], height: float, dash: str) -> dict[str, Any]:
    return limit(name, ends, height, f"{name}<extra></extra>", dash)


def _prefault(study: Study) -> dict[str, Any] | None:
    """Time per GiB by threads at the largest size, beside the pinned allocation and registering alone."""
    size = next((size for size in reversed(study.sizes) if len(study.prefaults(size)) > 1), None)
    if size is None:
        return None
    points = study.prefaults(size)
    threads = [count for count, _ in points]
    trace = _trace("prefault", threads, [ns * GIB / size / 1e6 for _, ns in points])
    trace |= {"name": "touch huge pages, then register", "meta": "pin", "line": {"width": 2, "dash": "solid"}}
    trace["text"] = [
        f"{count} threads: {format_ns(ns)}, <b>{format_ns(ns * GIB / size)} per GiB</b>" for count, ns in points
    ]
    lines = []
    for measure, name, dash in (
        ("pin.alloc", "pinned allocation", "dash"),
        ("touch.first", "first touch, 4 KiB pages, one thread", "dashdot"),
        ("pin.register-touched", "registering only, pages exist", "dot"),
    ):
        cost = study.cost(measure, size)
        if cost and cost.ns_per_gib:
            lines.append(
                _line(f"{name}: {cost.ns_per_gib / 1e6:.0f} ms", (threads[0], threads[-1]), cost.ns_per_gib / 1e6, dash)
            )
    x = {
        "type": "log",
        "tickvals": threads,
        "ticktext": [str(count) for count in threads],
        **title("threads"),
    }
    y = {"rangemode": "tozero", **title(f"ms per GiB, at {format_bytes(size)}")}
    return {"data": [trace, *lines], "layout": layout(x, y, _HEIGHT) | _LEGEND}


def _break_even(study: Study) -> dict[str, Any] | None:
    """Copies that repay a pin, by size; sizes at which none do have no point."""
    traces = []
    for measure, name, costs in (
        ("pin.alloc", "allocate pinned and free", [row.pin_ns for row in study.break_even]),
        ("pin.register-touched", "register and unregister", [row.register_ns for row in study.break_even]),
    ):
        points = [
            (row.size_bytes, row.copies(cost), cost or 0)
            for row, cost in zip(study.break_even, costs, strict=True)
            if row.copies(cost) is not None
        ]
        if points:
            trace = _trace(measure, [size for size, _, _ in points], [count for _, count, _ in points])
            trace["name"] = name
            trace["text"] = [
                f"{format_bytes(size)}: {format_ns(cost)} repaid by <b>{count} copies</b>"
                for size, count, cost in points
            ]
            traces.append(trace)
    if not traces:
        return None
    y = _logarithmic(traces) | title("copies to the device")
    return {"data": traces, "layout": layout(_size_axis(study.sizes), y, _HEIGHT) | _LEGEND}


def _ends(sizes: Sequence[int]) -> tuple[float, float]:
    return sizes[0] / 1.6, sizes[-1] * 1.6


def _size_axis(sizes: Sequence[int]) -> dict[str, Any]:
    step = -(-len(sizes) // 9)
    ticks = list(sizes[::step])
    return {
        "type": "log",
        "range": [float(np.log10(end)) for end in _ends(sizes)],
        "tickvals": ticks,
        "ticktext": [format_bytes(tick) for tick in ticks],
        **title("size"),
    }
