"""How many examples a property test takes, where the usual number is too few or too many."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""Examples of a property test that says nothing."""


def examples(count: int) -> settings:
    """This many in a whole run, and in proportion under a profile that takes fewer (`make quick`)."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
