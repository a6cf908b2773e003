"""The way of every recording, whoever asks for it: create the capture, record into it, seal it, give it its name.

What was recorded is kept whatever happens: an error while recording leaves `NAME.pinprof.partial`, and what keeps a
capture from being sealed becomes a note in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pinprof import collect
from pinprof.base import files, shapes
from pinprof.base.errors import PinprofError
from pinprof.base.lazy_dataclass import dataclass
from pinprof.bench.recorded_rates import Calibrating as Calibrating
from pinprof.bench.recorded_rates import RecordedRates
from pinprof.collect import Outcome, RecordRequest, host, process_notes, python, run
from pinprof.collect.pace import NO_LIMITS
from pinprof.collect.proc import alive
from pinprof.collect.program import NotStarted, become
from pinprof.collect.recorder import STOP_SIGNALS
from pinprof.collect.request import RING_VARIABLE
from pinprof.collect.signals import postponed
from pinprof.collect.trouble import UNRECORDED, Trouble, described
from pinprof.data.manifest import SCENARIO, Manifest
from pinprof.machine.process_limits import require_memory
from pinprof.scenario import RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.streams import holds_recording, store
from pinprof.streams.store import KALLSYMS, CaptureWriter, new_manifest

if TYPE_CHECKING:
    from pinprof.data.model import Capture
    from pinprof.read.reader import Progress, Sealed
    from pinprof.read.symbols.kept import KeptSymbols


@dataclass
class FreshReading:
    """How a capture is read to be explained, once it is recorded."""

    progress: AbstractContextManager[Progress]
    """The reading is inside this, and tells it how far it is."""
    kept: KeptSymbols | None = None
    """What is loaded already."""

    def prepare(self, directory: Path) -> None:
        """Load the kernel's symbols of a recording that goes on."""
        from pinprof.read.symbols.kept import KeptSymbols

        kept = KeptSymbols()
        if path := store.part(directory, KALLSYMS):
            kept.kallsyms(path).parse()
        self.kept = kept


@dataclass(frozen=True)
class EndedRecording:
    """A recording that has ended."""

    outcome: Outcome
    path: Path | None = None
    """The capture; None of a scenario that refused to start and has said why."""
    notes: tuple[str, ...] = ()
    """The outcome's, and what kept the capture from being sealed."""
    broken_off: KeyboardInterrupt | None = None
    """What came while it was sealed: for the caller to raise, once it has said where the capture is."""
    capture: Capture | None = None
    """What the capture holds, if it was read to be explained."""
    rates: RecordedRates | None = None
    """Beside such a capture: what is not known of this machine is still to be measured."""

    def measured(self, capture: Capture, measures: Collection[str] | None = None) -> Capture | None:
        """Measure what is missing (`RecordedRates.measure`), and put it into what is known of the capture.

        None where nothing was measured.
        """
        if self.rates is None or self.path is None:
            return None
        before = self.rates.notes
        found = self.rates.measure(self.path, measures)
        if new := self.rates.notes[len(before) :]:
            manifest = store.read_manifest(self.path)
            outcome = {**manifest.outcome, "notes": (*manifest.outcome.get("notes", ()), *new)}
            store.write_manifest(self.path, replace(manifest, outcome=outcome))
            capture = replace(capture, manifest=replace(capture.manifest, outcome=outcome))
        return replace(capture, rates=found) if found else capture if new else None


def create(
    target: Path,
    command: Sequence[str],
    labels: Mapping[str, str] = MappingProxyType({}),
    *,
    force: bool,
    numbered: Callable[[int], Path] | None = None,
) -> CaptureWriter:
    """A new capture whose manifest names `command` and has `labels`; `numbered` as of `CaptureWriter.create`.

    PinprofError when the place cannot be written; nothing is left then.
    """
    outcome = {"state": "recording"}
    manifest = new_manifest(command=tuple(command), host=host.facts(), outcome=outcome, labels=dict(labels))
    return CaptureWriter.create(target, manifest, force=force, numbered=numbered)


def record(
    request: RecordRequest,
    target: Path,
    command: Sequence[str],
    trouble: Trouble,
    *,
    force: bool = False,
    numbered: Callable[[int], Path] | None = None,
    scenario: bool = False,
    rank: Mapping[str, Any] | None = None,
    calibrate: Calibrating | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
    reading: FreshReading | None = None,
    hooks: run.RecordingHooks = run.RecordingHooks(),
) -> EndedRecording:
    """Record a program into a new capture, whose manifest names `command`, `rank`, and of a scenario what it ran.

    `calibrate` says how memory operations are measured after it; None: not at all. `reading`: as of `finish`.
    The program runs whatever keeps pinprof from recording it (`trouble`). Raises UsageError and ProgramNotFound before
    that, and what ends the recording early.
    """
    request = collect.possible(request, trouble)
    with ExitStack() as places:
        facts: Path | None = None
        writer: CaptureWriter | None = None
        try:
            with postponed(STOP_SIGNALS), trouble.kept(UNRECORDED):
                facts = places.enter_context(files.temporary_folder()) / "scenario.json"
                writer = create(target, command, labels, force=force, numbered=numbered)
            if writer and facts:
                variables = {RANGES_VARIABLE: str(writer.ranges)}
                request = replace(
                    request, environment=variables | ({SCENARIO_VARIABLE: str(facts)} if scenario else {})
                )
            hooks = replace(hooks, meanwhile=_both(hooks.meanwhile, _load_reader))
            if writer and reading:
                hooks = replace(hooks, wanted=(partial(_prepared, reading.prepare, writer.path), *hooks.wanted))
            outcome = run.record(request, writer.path if writer else None, trouble, hooks)
            told = _read_facts(facts) if facts else {}
        except BaseException as error:
            # Nothing recorded is ever lost; a capture without samples, or of no program, would only be in the way.
            if writer and not _has_leaves(writer, request):
                writer.discard()
            elif writer:
                error.add_note(f"What was recorded until then: {writer.path}")
            if isinstance(error, NotStarted):
                _become(error, request, trouble, places)
            raise
    if writer is None:
        return EndedRecording(outcome)
    if not holds_recording(writer.path) or (scenario and outcome.exit_status and not writer.ranges.exists()):
        writer.discard()
        return EndedRecording(outcome)
    if outcome.failure is not None:
        trouble.met(outcome.failure)
    running = bool(request.pid) and alive(request.pid)
    with trouble.kept(f"The capture is incomplete in {writer.path}"):
        return finish(
            writer, outcome, told, rank, calibrate,
            running=running, trouble=trouble, reading=reading,
        )  # fmt: skip
    return EndedRecording(outcome, writer.path, outcome.notes)


def follow(
    request: RecordRequest, trouble: Trouble, following: Callable[[Path], run.RecordingHooks], place: ExitStack
) -> Outcome:
    """Record a program into a folder in `place`, which serves what the hooks of `following(folder)` cut of it alone.

    What can't be cut by time is not recorded: calls by probes, and managed memory by the driver.

    The program runs whatever keeps pinprof from recording it, as in `record`.
    """
    request = replace(request, limits=NO_LIMITS, left_out=request.left_out | {"native.calls", "uvm.beside"})
    request = collect.possible(request, trouble)
    folder, hooks = None, run.RecordingHooks()
    try:
        with trouble.kept(UNRECORDED):
            folder = place.enter_context(files.temporary_folder()) / "recording"
            folder.mkdir(files.PRIVATE_FOLDER)
            hooks = following(folder)
            ranges = str((folder / store.RANGES).resolve())
            request = replace(request, environment={RANGES_VARIABLE: ranges, RING_VARIABLE: "1"})
        return run.record(request, folder, trouble, hooks)
    except NotStarted as error:
        _become(error, request, trouble, place)
        raise


def _become(error: NotStarted, request: RecordRequest, trouble: Trouble, places: ExitStack) -> None:
    """No process can be started for the program, so it takes this one's place."""
    trouble.met(error.reason, UNRECORDED)
    places.close()
    become(request.command, run.environment_of(replace(request, environment={})))


def _has_leaves(writer: CaptureWriter, request: RecordRequest) -> bool:
    leaves = (leaf for name in collect.leaves(request) for leaf in writer.path.glob(name))
    return any(leaf.stat().st_size > 0 for leaf in leaves)


def finish(
    writer: CaptureWriter,
    outcome: Outcome,
    scenario: Mapping[str, Any] | None = None,
    rank: Mapping[str, Any] | None = None,
    calibrate: Calibrating | None = None,
    *,
    running: bool = False,
    trouble: Trouble | None = None,
    reading: FreshReading | None = None,
) -> EndedRecording:
    """Seal a capture and give it its name; one that cannot be sealed is kept, with a note why.

    `running`: the recorded program goes on, and needs the GPU for itself. What `trouble` has said becomes notes.

    With `reading` it is read to be explained, which seals it as well; what is not known of this machine is measured
    later then (`EndedRecording.measured`).
    """
    writer.release_reserve()
    notes: list[str] = []
    broken_off: KeyboardInterrupt | None = None
    facts = outcome.to_manifest()
    manifest = replace(
        writer.manifest,
        scenario=scenario or {},
        collectors=outcome.collectors,
        outcome={**facts, "state": writer.manifest.outcome.get("state")},
    )
    symbols, rates = _Symbols(reading), RecordedRates(calibrate, outcome.duration_ns, running=running)
    steps: list[tuple[str, Callable[[], object]]] = [
        ("Rates of this machine", lambda: rates.store(writer.path, manifest)),
        ("Symbols", lambda: symbols.store(writer.path, manifest)),
    ]
    if reading is None:
        steps.append(("Rates of this machine", lambda: rates.measure(writer.path)))
    store.write_manifest(writer.path, manifest)
    for number, (what, step) in enumerate(steps):
        try:
            step()
        except Exception as error:
            notes.append(f"{what} were not stored: {described(error)}")
        except KeyboardInterrupt as error:
            left = dict.fromkeys(what for what, _ in steps[number:])
            notes, broken_off = [f"{what} were not stored: the recording was interrupted." for what in left], error
            break
    notes += (*symbols.notes, *rates.notes)
    if symbols.notes:
        facts["incomplete"] = {**outcome.incomplete, "outlived": " ".join(symbols.notes)}
    said = dict.fromkeys((*facts["notes"], *notes, *(trouble.notes if trouble else ())))
    facts |= {"notes": tuple(said)} | ({"rank": rank} if rank else {})
    path = writer.finish(replace(manifest, outcome=facts))
    capture = symbols.capture
    if capture is not None:
        whole = replace(capture.manifest, outcome=store.read_manifest(path).outcome)
        capture = replace(capture, path=str(path), manifest=whole)
    later = rates if reading is not None and broken_off is None else None
    return EndedRecording(outcome, path, (*outcome.notes, *notes), broken_off, capture, later)


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        first()
        second()

    return call


def _load_reader() -> None:
    """Import what seals a capture, a fifth of a second's work, while other processes work for us too."""

    def load() -> None:
        from pinprof import read

        read.load_sealing()

    _prepared(load)


def _prepared(step: Callable[..., object], *given: object) -> None:
    """Prepare something; where that fails, it is said when a capture is sealed."""
    with contextlib.suppress(ModuleNotFoundError, OSError, PinprofError):
        require_memory()
        step(*given)


class _Symbols:
    """The symbols of what was recorded, put beside it, and what must be said of the program's processes."""

    def __init__(self, reading: FreshReading | None) -> None:
        self._reading = reading
        self.notes: tuple[str, ...] = ()
        self.capture: Capture | None = None
        """What was recorded, if it was read."""

    def store(self, directory: Path, manifest: Manifest) -> None:
        """Write them into a capture's directory."""
        if not holds_recording(directory):
            return
        require_memory()
        from pinprof import read

        seal: Callable[[], Sealed] = partial(read.seal_symbols, directory)
        if self._reading is not None:
            # Why it cannot be read is said when it is explained.
            with self._reading.progress as progress, contextlib.suppress(Exception):
                options = read.ReadOptions(kept=self._reading.kept, progress=progress)
                self.capture, seal = read.read_fresh(directory, options)
        sealed = seal()
        if any(facts.get("name") == python.TRAMPOLINE for facts in manifest.collectors):
            python.remove_maps(sealed.processes)
        if not any(facts.get("pid") in sealed.running for facts in manifest.collectors):
            self.notes = process_notes.left_running(sealed.running)


def _read_facts(path: Path) -> Mapping[str, Any]:
    """What the scenario said about itself; empty when it did not come that far."""
    try:
        facts: Mapping[str, Any] = SCENARIO.fit(shapes.read(path))
    except (OSError, ValueError):
        return {}
    return facts
