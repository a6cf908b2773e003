"""How a thread's stacks begin: the frames that its whole chains share, for the chains that were cut.

A chain is whole when its outermost frame is where threads start. Libraries without frame pointers cut the others, which
then hang beside them; but all that a thread runs was called from where it started.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from pinprof.data.model import USER, FrameTable

_START = re.compile(r"_start|(__GI_)?_*clone3?|start_thread|thread_start")
_MOST_FRAMES = 12
_SHARED = 0.9
"""The part of the whole chains that must share a root; the others are of moments such as the dynamic linker's."""


class Roots:
    """Finds the outermost frames of each thread."""

    def __init__(self, frames: FrameTable, ends: Sequence[bool]) -> None:
        """`ends`: per frame whether what follows differs from moment to moment (the interpreter's evaluation loop)."""
        self._starts = [
            mode == USER and _START.fullmatch(symbol) is not None
            for symbol, mode in zip(frames.function, frames.mode.tolist(), strict=True)
        ]
        self._ends = ends

    def whole(self, chain: Sequence[int]) -> bool:
        """Whether a chain, outermost frame first, reaches the start of its thread."""
        return bool(chain) and self._starts[chain[0]]

    def of_threads(
        self, rows: Sequence[tuple[int, int, int]], chain: Callable[[int], Sequence[int]]
    ) -> dict[int, tuple[int, ...]]:
        """Thread → its outermost frames; `rows` are (thread, stack, samples), `chain` gives a stack's frames."""
        beginnings: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
        for thread, stack, count in rows:
            frames = chain(stack)
            if self.whole(frames):
                beginnings[thread][tuple(frames[:_MOST_FRAMES])] += count
        return {thread: self._shared(chains) for thread, chains in beginnings.items()}

    def _shared(self, chains: Counter[tuple[int, ...]]) -> tuple[int, ...]:
        """The frames that nearly all chains begin with, but not all of any chain."""
        shared: tuple[int, ...] = ()
        while True:
            following: Counter[int] = Counter()
            for frames, count in chains.items():
                if frames[: len(shared)] == shared and len(frames) > len(shared):
                    following[frames[len(shared)]] += count
            if not following:
                return shared[:-1] or shared
            frame, count = following.most_common(1)[0]
            if self._ends[frame] or (shared and count < _SHARED * following.total()):
                return shared
            shared += (frame,)
