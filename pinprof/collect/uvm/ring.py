"""The driver's event queue as it lies in memory, read without a system call.

The control data are four u32 (get_ahead, get_behind, put_ahead, put_behind) and a u64 for each kind of event, how many
of it found no room. The driver writes the entry at put_behind and steps on; it stops one entry before get_behind. All
places are taken modulo the length, a power of two, as the driver takes them (uvm_tools.c: enqueue_event).
"""

from __future__ import annotations

from pinprof.data.uvm_events import EVENTS

CONTROL_BYTES = 16 + 64 * 8
_GET_AHEAD, _GET_BEHIND, _, _PUT_BEHIND = range(4)
_DROPPED = 2
"""Place of the first of the numbers of lost events, among u64."""


class UvmRing:
    """Who reads: `announced`, then `pieces` up to there, then `release`."""

    def __init__(self, control: memoryview, entries: memoryview, entry_bytes: int, length: int) -> None:
        """`length`: entries, a power of two."""
        self._places, self._dropped = control[:16].cast("I"), control[:CONTROL_BYTES].cast("Q")
        self._entries, self._size, self._mask = entries, entry_bytes, length - 1

    def announced(self) -> int:
        """Up to where the driver has written."""
        return self._places[_PUT_BEHIND] & self._mask

    def pieces(self, until: int) -> list[memoryview]:
        """The entries that are to be read, in order: one piece, or two where they go on at the front."""
        begin, until = self._places[_GET_BEHIND] & self._mask, until & self._mask
        spans = [(begin, until)] if begin <= until else [(begin, self._mask + 1), (0, until)]
        return [self._entries[first * self._size : last * self._size] for first, last in spans if first < last]

    def release(self, until: int) -> None:
        """Entries before this place may be written over."""
        self._places[_GET_AHEAD] = self._places[_GET_BEHIND] = until & self._mask

    @property
    def dropped(self) -> tuple[int, ...]:
        """Per kind how many events found no room."""
        return tuple(self._dropped[_DROPPED : _DROPPED + EVENTS])
