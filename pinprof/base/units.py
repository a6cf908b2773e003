"""The only place that formats or parses nanoseconds, bytes, counts, rates and shares."""

from __future__ import annotations

import re
from collections.abc import Callable

from pinprof.base.errors import UsageError

_BYTE_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTPE", start=1):
    _BYTE_UNITS[_letter] = _BYTE_UNITS[f"{_letter}IB"] = 1024**_power
    _BYTE_UNITS[f"{_letter}B"] = 1000**_power

_NUMBER = r"(\d{1,20}(?:\.\d{1,20})?)"
_BYTES = re.compile(rf"\s*{_NUMBER}\s*([A-Za-z]*)\s*")
_DURATION = re.compile(rf"\s*{_NUMBER}\s*(ns|us|µs|ms|s|min|m|h)?\s*")
_SHARE = re.compile(rf"\s*{_NUMBER}\s*(%)?\s*")
_LONGEST_NS = 1 << 61
"""73 years: no clock shows more."""
_NS_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def parse_bytes(text: str) -> int:
    """Bytes written as `256MiB`, `256M` (binary), `256MB` (decimal) or a plain number; ≥ 1, else UsageError."""
    match = _BYTES.fullmatch(text)
    factor = _BYTE_UNITS.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a size.", "Write it like 256MiB, 4GiB or 65536.", "size")
    number, _, fraction = match[1].partition(".")
    value = int(number) * factor
    if fraction:
        value += int(fraction) * factor // 10 ** len(fraction)
    if value < 1:
        raise UsageError(f"The size {text!r} is zero.", "Give at least one byte, for example --size 256MiB.", "size")
    return value


def parse_duration_ns(text: str) -> int:
    """Nanoseconds from `250ms`, `2s`, `1.5min`, `5m`, `1h` or a plain number of seconds; UsageError otherwise."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration.", "Write it like 500ms, 2s, 1.5min or 1h.", "duration")
    value = round(float(match[1]) * _NS_UNITS[match[2] or "s"])
    if value > _LONGEST_NS:
        raise UsageError(f"{text!r} is longer than 73 years.", "Give a shorter duration.", "duration")
    return value


def parse_share(text: str) -> float:
    """A share from `2%`, `2 %` or `0.02`; UsageError for anything else, and outside 0 to 1."""
    match = _SHARE.fullmatch(text)
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"{text!r} is not a share.", "Write it like 2% or 0.02.", "share")
    return value


def format_bytes(value: int) -> str:
    """Binary units with up to four digits: `256 MiB`, `1.5 GiB`."""
    power = min(max(abs(value).bit_length() - 1, 0) // 10, 6)
    return f"{value / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power]}"


def format_ns(value: float) -> str:
    """The largest unit that keeps at least one digit before the point: `1.24 s`, `98.2 ms`, `350 ns`."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(value) >= factor:
            return f"{_three_digits(value / factor)} {unit}"
    return f"{value:.0f} ns"


def format_ns_about(value: float) -> str:
    """A predicted time with two digits, which is what is known of it: `1.2 s`, `98 ms`."""
    return format_ns(float(f"{value:.2g}"))


def format_ns_range(low: float, high: float, one: Callable[[float], str] = format_ns) -> str:
    """Both ends, the unit once where they share it: `1.1–1.4 s`, `900 ms–1.1 s`; `one` writes each."""
    first, last = one(low), one(high)
    number, _, unit = first.partition(" ")
    if first == last:
        return first
    return f"{number}–{last}" if last.endswith(f" {unit}") else f"{first}–{last}"


def format_count(value: float) -> str:
    """A count with thousands separators: `262,951`."""
    return f"{value:,.0f}"


def roughly(count: int) -> int:
    """An estimated count as texts have it: two digits of it."""
    return round(count, 2 - len(str(abs(count))))


def format_counted(count: int, one: str, many: str) -> str:
    """A count with what is counted, in its singular or plural: `1 call was`, `12 calls were`."""
    return f"{format_count(count)} {one if count == 1 else many}"


def format_weight(value: float, unit: str) -> str:
    """A weight in its event's unit (`ns`, `bytes`, `faults`, `events`, `samples`), with the unit spelled out."""
    if unit == "ns":
        return format_ns(value)
    if unit == "bytes":
        return format_bytes(int(value))
    return f"{format_count(value)} {unit}"


def format_share(part: float, whole: float) -> str:
    """A percentage: whole numbers from 10 % on, one decimal below, `–` of nothing."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if part and abs(percent) < 0.05:
        return "<0.1 %"
    sign, percent = "−" if percent < 0 else "", abs(percent)
    return f"{sign}{percent:.0f} %" if percent >= 9.95 else f"{sign}{percent:.1f} %"


def format_rate(bytes_moved: float, duration_ns: float) -> str:
    """Bandwidth in decimal gigabytes per second, as vendors state link rates: `55.4 GB/s`."""
    if duration_ns <= 0:
        return "–"
    return f"{_three_digits(bytes_moved / duration_ns)} GB/s"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
