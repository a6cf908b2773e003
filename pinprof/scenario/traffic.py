"""What an iteration allocates and copies, counted: reports say from it what another kind of memory would have cost.

The counting backend stands before the real one in a warm-up iteration only, so that it costs what is measured nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from pinprof.scenario.backend import Backend, DeviceMemory, HostMemory, Stream

_ALLOCATIONS = {
    "pageable": "pageable",
    "pages": "pageable",
    "pinned": "pinned",
    "host_alloc": "pinned",
    "mapped": "mapped",
    "managed": "managed",
    "device": "device",
}
"""Call of a backend → kind of memory."""
_COPIES = {"copy_to_device": "h2d", "copy_to_host": "d2h"}


class Traffic:
    """Allocations and copies of one iteration, by kind and size."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, int]] = Counter()

    def add(self, what: str, size_bytes: int) -> None:
        """Take note of one allocation or copy."""
        self._counted[what, size_bytes] += 1

    def to_json(self) -> list[dict[str, Any]]:
        """`what` (a kind of memory, `h2d` or `d2h`), `size_bytes`, `count`; in the order of their first appearance."""
        return [
            {"what": what, "size_bytes": size_bytes, "count": count}
            for (what, size_bytes), count in self._counted.items()
        ]


def counting(backend: Backend, traffic: Traffic) -> Backend:
    """The backend with its allocations and copies counted, those of its streams too."""
    return cast("Backend", _Counting(backend, traffic))


class _Counting:
    """Passes everything on; `copy_to_*` have the form (target, source) on backends and streams alike."""

    def __init__(self, counted: Backend | Stream, traffic: Traffic) -> None:
        self._counted = counted
        self._traffic = traffic

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._counted, name)
        if name in _ALLOCATIONS:

            def allocate(size_bytes: int, *arguments: Any, **options: Any) -> Any:
                self._traffic.add(_ALLOCATIONS[name], size_bytes)
                return call(size_bytes, *arguments, **options)

            return allocate
        if name in _COPIES:

            def copy(target: DeviceMemory | HostMemory, source: DeviceMemory | HostMemory) -> Any:
                self._traffic.add(_COPIES[name], source.size_bytes)
                return call(target, source)

            return copy
        if name == "stream":
            return lambda: _Counting(call(), self._traffic)
        return call
