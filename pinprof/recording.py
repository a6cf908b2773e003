"""The way of every recording, whoever asks for it: create the capture, record into it, seal it, give it its name.

What was recorded is kept whatever happens: an error while recording leaves `NAME.pinprof.partial`, and what keeps a
capture from being sealed becomes a note in it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pinprof import collect, rates, read
from pinprof.collect import Outcome, RecordRequest, host, python
from pinprof.errors import PinprofError
from pinprof.scenario import RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.store import RANGES, RATES, CaptureWriter, holds_recording, new_manifest


@dataclass(frozen=True)
class Recorded:
    """A recording that has ended."""

    outcome: Outcome
    path: Path | None = None
    """The capture; None of a scenario that refused to start and has said why."""
    notes: tuple[str, ...] = ()
    """The outcome's, and what kept the capture from being sealed."""
    broken_off: KeyboardInterrupt | None = None
    """What came while it was sealed: for the caller to raise, once it has said where the capture is."""


class NewCapture:
    """A capture from its creation to its name."""

    def __init__(self, request: RecordRequest, target: Path, command: Sequence[str], *, force: bool) -> None:
        """PinprofError when the request cannot be recorded here, or the place cannot be written; nothing is left then.

        `command` is stored in the manifest.
        """
        collect.check(request)
        self._request = request
        self._manifest = new_manifest(command=tuple(command), host=host.facts(), outcome={"state": "recording"})
        self._writer = CaptureWriter.create(target, self._manifest, force=force)
        self.path = self._writer.path
        """The directory to record into."""
        self.ranges = str((self.path / RANGES).resolve())
        """Where the program writes its ranges (RANGES_VARIABLE)."""

    def discard(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def abandon(self) -> None:
        """Keep what was recorded before an error; a capture without, or of no program, would only be in the way."""
        files = (self.path / name for name in collect.leaves(self._request))
        if not any(file.exists() and file.stat().st_size > 0 for file in files):
            self.discard()

    def finish(
        self, outcome: Outcome, scenario: Mapping[str, Any] | None = None, rank: Mapping[str, Any] | None = None
    ) -> Recorded:
        """Seal it and give it its name; one that cannot be sealed is kept, with a note why."""
        scenario = scenario or {}
        self._writer.release_reserve()
        broken_off: KeyboardInterrupt | None = None
        try:
            notes = (*_seal(self.path, outcome.collectors), *_keep_rates(self.path, self._manifest.host, scenario))
        except KeyboardInterrupt as error:
            notes, broken_off = ("Symbols were not stored: the recording was broken off then.",), error
        facts = outcome.to_manifest()
        facts["notes"] = (*facts["notes"], *notes)
        if rank:
            facts["rank"] = rank
        manifest = replace(self._manifest, scenario=scenario, collectors=outcome.collectors, outcome=facts)
        return Recorded(outcome, self._writer.finish(manifest), (*outcome.notes, *notes), broken_off)


def record(
    request: RecordRequest,
    target: Path,
    command: Sequence[str],
    *,
    force: bool = False,
    scenario: bool = False,
    rank: Mapping[str, Any] | None = None,
) -> Recorded:
    """Record a program into a new capture at `target`, whose manifest names `command` and `rank`.

    A `scenario` says in the manifest what it ran. Raises as NewCapture does, and what ends the recording early.
    """
    capture = NewCapture(request, target, command, force=force)
    try:
        with tempfile.TemporaryDirectory(prefix="pinprof-") as directory:
            facts = Path(directory) / "scenario.json"
            places = {RANGES_VARIABLE: capture.ranges} | ({SCENARIO_VARIABLE: str(facts)} if scenario else {})
            outcome = collect.record(replace(request, environment=places), capture.path)
            described = _read_facts(facts)
    except BaseException:
        capture.abandon()
        raise
    if scenario and outcome.exit_status and not (capture.path / RANGES).exists():
        capture.discard()
        return Recorded(outcome)
    return capture.finish(outcome, described, rank)


def _read_facts(path: Path) -> Mapping[str, Any]:
    """What the scenario said about itself; empty when it did not come that far."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _keep_rates(directory: Path, machine: Mapping[str, Any], scenario: Mapping[str, Any]) -> tuple[str, ...]:
    """Put the rates of this machine beside the samples, if `pinprof bench` has measured any; a note where it cannot."""
    backend = scenario.get("backend")
    try:
        measured = rates.load_for(machine, backend if isinstance(backend, str) else None)
        if measured is not None:
            (directory / RATES).write_text(rates.to_json(measured), "utf-8")
    except (PinprofError, OSError) as error:
        return (f"Rates of this machine were not stored: {_reason(error)}",)
    return ()


def _seal(directory: Path, collectors: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Store the symbols of what was recorded; a note where that cannot be."""
    if not holds_recording(directory):
        return ()
    try:
        processes = read.seal_symbols(directory)
        if any(facts.get("name") == python.TRAMPOLINE for facts in collectors):
            python.remove_maps(processes)
    except (PinprofError, OSError) as error:
        return (f"Symbols were not stored: {_reason(error)}",)
    return ()


def _reason(error: PinprofError | OSError) -> str:
    return error.problem if isinstance(error, PinprofError) else f"{error.strerror}."
