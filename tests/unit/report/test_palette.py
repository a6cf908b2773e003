"""Colours of causes stay apart for colour-blind readers and carry dark text in both themes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pinprof.analyze import CATEGORIES
from pinprof.report import palette

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear sRGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)

GREY = {"user", "sys", "other"}
"""Levels without a hue: their leaves differ in lightness alone, so far as there is room."""


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def seen(colour: str, deficiency: str) -> np.ndarray:
    return TO_OKLAB @ np.cbrt(TO_LMS @ np.clip(DEFICIENCIES[deficiency] @ linear(colour), 0, 1))


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_levels_differ_visibly(deficiency: str, dark: bool) -> None:
    colours = {level: seen(palette.level_colour(level, dark=dark), deficiency) for level in palette.FAMILIES}
    for one, other in combinations(colours, 2):
        distance = float(np.linalg.norm(colours[one] - colours[other]))
        assert distance > 0.045, (one, other, round(distance, 3))


@pytest.mark.parametrize(("dark", "ink"), [(False, "#16181d"), (True, "#14161a")])
def test_text_on_every_shade_meets_wcag_aa(dark: bool, ink: str) -> None:
    pairs = [(f"{level}.{index}", level) for level in palette.FAMILIES for index in range(10)]
    for leaf, colour in palette.colours(pairs, dark=dark).items():
        assert (luminance(colour) + 0.05) / (luminance(ink) + 0.05) >= 4.5, (leaf, colour)


@pytest.mark.parametrize("dark", [False, True])
def test_leaves_of_one_level_are_different_shades(dark: bool) -> None:
    shades = palette.colours([(row.name, row.level) for row in CATEGORIES], dark=dark)
    for one, other in combinations(CATEGORIES, 2):
        if one.level == other.level and one.level not in GREY:
            distance = float(np.linalg.norm(seen(shades[one.name], "none") - seen(shades[other.name], "none")))
            assert distance > 0.02, (one.name, other.name, round(distance, 3))


def test_a_level_from_a_newer_taxonomy_has_a_colour() -> None:
    assert palette.level_colour("quantum", dark=False).startswith("#")
