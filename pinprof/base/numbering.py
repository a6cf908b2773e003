"""Distinct things, numbered from 0 in the order in which they first come."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class Numbering(Generic[_T]):
    """What has a number so far: `items` by number."""

    def __init__(self, items: Iterable[_T] = ()) -> None:
        self.items = list(items)
        self._numbers = {item: number for number, item in enumerate(self.items)}

    def number(self, item: _T) -> int:
        """The number of an item, which it gets where it has none."""
        number = self._numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number
