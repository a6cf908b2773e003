"""A window of a recording that goes on, made a capture.

Its symbols are not sealed: it is read on this machine, in this boot, best with `ReadOptions.kept`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinprof.base import files
from pinprof.base.clock import clock_ns
from pinprof.streams.store import new_manifest, write_manifest
from pinprof.streams.window import Window


def write(
    target: Path,
    window: Window,
    command: Sequence[str],
    host: Mapping[str, Any],
    collectors: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    *,
    ended_ns: int,
    used: Mapping[str, int] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Make the directory `target`, with what the window has of every stream, and a manifest.

    `ended_ns`: when what was recorded ended, on CLOCK_MONOTONIC. `used` is what a manifest has as `resources`; `more`
    is added to its outcome.
    """
    begun_ns = window.begin.time_ns
    started = time.time() - (clock_ns() - begun_ns) / 1e9
    outcome = {
        "state": "complete",
        "exit_status": 0,
        "started_utc": datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        "duration_ns": ended_ns - begun_ns,
        "recorded_ns": (begun_ns, window.end.time_ns),
        "resources": dict(used),
        "counters": {},
        "notes": list(notes),
        **more,
    }
    target.mkdir(files.PRIVATE_FOLDER)
    window.cut(target)
    write_manifest(
        target,
        new_manifest(
            command=tuple(command), host=host, collectors=tuple(collectors), outcome=outcome, labels=dict(labels)
        ),
    )
