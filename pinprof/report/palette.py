"""Colours of causes: one family per level, leaves as shades of it, for the light and the dark theme.

The families differ in lightness as well as in hue, so that neighbours stay apart for readers with deuteranopia and
protanopia (tests/unit/report/test_palette.py simulates both). Colours are made in OKLCH, where equal steps look
equal (Ottosson 2020), and written as sRGB hex, which every chart library reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pinprof.base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Family:
    """A level's base colour: OKLCH lightness 0–1, chroma, and hue in degrees."""

    lightness: float
    chroma: float
    hue: float


FAMILIES: Mapping[str, Family] = {
    "pin": Family(0.717, 0.141, 252),
    "fault": Family(0.768, 0.159, 54),
    "uvm": Family(0.800, 0.115, 166),
    "dma": Family(0.650, 0.110, 308),
    "free": Family(0.860, 0.120, 231),
    "copy": Family(0.880, 0.140, 104),
    "sync": Family(0.645, 0.120, 40),
    "wait": Family(0.800, 0.140, 276),
    "rm": Family(0.745, 0.090, 0),
    "user": Family(0.800, 0.035, 270),
    "sys": Family(0.645, 0.010, 102),
    "other": Family(0.940, 0.000, 264),
    "self": Family(0.940, 0.080, 96),
}
"""By level, in the order of the taxonomy."""

THEMES = ((":root", False), (":root[data-theme=dark]", True))
"""(selector, whether it is dark)."""

FALLBACK = Family(0.82, 0.0, 0)
"""A level this palette does not know, from a newer taxonomy."""

_SHADES = (
    (0.0, 0), (-0.09, 8), (0.07, -10), (-0.045, -18), (0.1, 14), (-0.125, -6),
    (0.04, 24), (-0.07, 20), (0.13, -4), (-0.02, -26), (0.02, 34),
    (-0.15, 64), (-0.05, 64), (-0.15, 28), (0.07, 64), (-0.1, 44), (0.01, 64), (-0.04, 40), (0.1, 84),
)  # fmt: skip
"""Per leaf of a level, in its order: steps of lightness and hue from the family's colour."""

MODULES = ("pin", "fault", "copy", "dma", "uvm", "free", "sync", "rm", "user")
"""Levels that colour modules, the heaviest first; families that keep apart, without the greys."""
MODES = ("uvm", "fault", "dma")
"""Levels that colour user code, the kernel and kernel modules."""

LESS, MORE = 236, 48
"""Hues of what takes less and of what takes more: blue and orange stay apart for readers who see no red or green."""
_CHANGES = {False: ((0.93, 0.035), (0.87, 0.065), (0.80, 0.100), (0.72, 0.135)),
            True: ((0.68, 0.040), (0.71, 0.075), (0.74, 0.110), (0.78, 0.140))}  # fmt: skip
"""By theme, lightness and chroma of a small to a large change."""

_DARK_DROP, _DARK_CHROMA = 0.02, 0.94
_DARKEST, _LIGHTEST = 0.62, 0.95
"""Dark text needs grounds from 0.62 on for a contrast of 4.5 : 1."""


def colours(leaves: Iterable[tuple[str, str]], *, dark: bool) -> dict[str, str]:
    """Per leaf of (leaf, level) pairs a colour `#rrggbb`; a level's first leaf gets its base colour."""
    seen: dict[str, int] = {}
    result = {}
    for leaf, level in leaves:
        rank = seen.get(level, 0)
        seen[level] = rank + 1
        result[leaf] = _hex(_shade(FAMILIES.get(level, FALLBACK), rank, dark))
    return result


def level_colour(level: str, *, dark: bool) -> str:
    """The base colour of a level."""
    return _hex(_shade(FAMILIES.get(level, FALLBACK), 0, dark))


def change_colours(*, dark: bool) -> dict[str, str]:
    """`less-1` (a little) to `less-4` (nearly gone), and the same of `more`, as `#rrggbb`."""
    return {
        f"{way}-{step}": _hex(Family(lightness, chroma, hue))
        for way, hue in (("less", LESS), ("more", MORE))
        for step, (lightness, chroma) in enumerate(_CHANGES[dark], 1)
    }


def _shade(family: Family, rank: int, dark: bool) -> Family:
    step, turn = _SHADES[rank % len(_SHADES)]
    # Families at the dark end have room for lighter shades only.
    way = -1 if family.lightness < _DARKEST + 0.08 and step < 0 else 1
    lightness = family.lightness + way * step - (_DARK_DROP if dark else 0)
    chroma = family.chroma * (_DARK_CHROMA if dark else 1)
    return Family(min(max(lightness, _DARKEST), _LIGHTEST), chroma, family.hue + turn)


def _hex(colour: Family) -> str:
    """OKLCH to sRGB; a colour outside the gamut loses chroma until it fits."""
    chroma = colour.chroma
    while True:
        channels = _linear_srgb(colour.lightness, chroma, math.radians(colour.hue))
        if chroma <= 0 or all(-0.001 <= channel <= 1.001 for channel in channels):
            break
        chroma -= 0.004
    return "#" + "".join(f"{round(255 * _gamma(min(max(channel, 0.0), 1.0))):02x}" for channel in channels)


def _linear_srgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """The matrices of https://bottosson.github.io/posts/oklab/."""
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _gamma(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
