"""Values that programs mishandle, and what any sequence can suffer."""

from __future__ import annotations

from collections.abc import MutableSequence
from random import Random
from typing import Any

NUMBERS = (
    0, 1, 2, 7, 255, 4096, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63,
    2**64 - 1, 2**64, 10**30, -1, -2, -(2**31), -(2**31) - 1, -(2**32), -(2**62), -(2**63), -(2**63) - 1,
)  # fmt: skip
REALS = (0.5, -0.0, 1e-320, 1e18, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "\0", "\x1b[31mred\x1b]0;title\x07", "\x9b31m", "\u2028", "\u202e", "\ud800", "\udcff",
    "é" * 300, "x" * 70_000,
    "-1", "1e999", "nan", "</script><script>", "=1+1", "a;b", "line\nline", "[libcuda.so.1] × 9", "[a] × 9999",
    "__libc_start_main", "cudaMemcpy", "cuMemAlloc_v2", "_Z" + "N1a" * 300, "/../../etc", "9" * 5000,
)  # fmt: skip
WIDTHS = (1, 2, 4, 8)


def number(random: Random, near: int = 0) -> int:
    """A number that is hard to bear, or one beside another."""
    if random.random() < 0.3:
        return near + random.choice((-1, 1, 2, 256, -near, near))
    if random.random() < 0.2:
        return random.getrandbits(random.choice((4, 8, 16, 31, 32, 63, 64)))
    return random.choice(NUMBERS)


def text(random: Random) -> str:
    """Text that is hard to bear."""
    return random.choice(TEXTS)


def rearrange(random: Random, items: MutableSequence[Any], most: int = 20_000) -> None:
    """Remove, repeat, swap or cut elements of a sequence; it has at most so many afterwards, or as many as before."""
    if not items:
        return
    place, other = random.randrange(len(items)), random.randrange(len(items))
    kind = random.randrange(6)
    if kind == 0:
        del items[place]
    elif kind == 1:
        items.insert(other, items[place])
    elif kind == 2:
        items[place], items[other] = items[other], items[place]
    elif kind == 3:
        del items[place:]
    elif kind == 4:
        del items[min(place, other) : max(place, other)]
    else:
        times = random.choice((2, 10, 100, 1000))
        if len(items) + times <= most:
            items[place:place] = [items[place]] * times
