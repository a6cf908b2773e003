"""How many examples a property test takes, where the usual number is too few or too many."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Examples of a property test that says nothing."""


def in_proportion(count: int) -> int:
    """This many in a whole run, and in proportion under a profile that takes fewer (`make quick`)."""
    return max(1, count * settings.default.max_examples // USUAL)


def examples(count: int) -> settings:
    """A property test of this many examples, in proportion."""
    return settings(max_examples=in_proportion(count))
