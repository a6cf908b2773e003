"""One run under one collector or several: a sampler attaches to the program, nsys launches it.

The program waits behind its gate until every recorder is ready, and all of them finish after it has ended.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack
from datetime import UTC, datetime

from pinprof.collect import SAMPLERS, counters, kallsyms, nsys, nvtx, perf, python
from pinprof.collect.attach import RunningProgram
from pinprof.collect.base import (
    Outcome,
    Program,
    RecordRequest,
    Session,
    Tool,
    ending_note,
    exit_status,
    find_program,
    resources,
    signals_held,
)
from pinprof.collect.control import open_control
from pinprof.collect.memory import MemoryWatch
from pinprof.collect.native import attached as native
from pinprof.collect.native import calls
from pinprof.collect.nsys_launch import private_folder
from pinprof.scenario import CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE
from pinprof.store import CALLS_DATA, PERF_DATA, CaptureWriter


def record(collectors: Collection[str], request: RecordRequest, writer: CaptureWriter) -> Outcome:
    """Run the program to its end; what the collectors saw, kallsyms.gz and the log lie in `writer.path` then."""
    plan = python.plan(collectors, request)
    injection = nvtx.prepare(collectors, writer.path)
    notes = [kallsyms.save(writer.path), *plan.notes]
    if not request.region_only:  # a scenario writes its ranges itself
        notes += injection.notes
    modules = kallsyms.modules()
    with ExitStack() as places:
        sampler = next((name for name in SAMPLERS if name in collectors), "")
        control = places.enter_context(open_control()) if sampler else None
        folder = places.enter_context(private_folder()) if "nsys" in collectors else None
        environment = _program_environment(request, control.paths if control else "")
        environment |= {**plan.environment, **injection.environment}
        # nsys traces CUDA itself.
        executable = f"/proc/{request.pid}/exe" if request.pid else find_program(request.command[0])
        called = [] if folder else calls.sites(request, environment, executable)
        tools: list[Tool] = []
        program: Program
        with signals_held() as signals:
            if folder:
                launched = nsys.Launched(request, writer, folder, environment, signals, samples=control is None)
                program, tools = launched.program, [launched]
            elif request.pid:
                program = RunningProgram(request.pid, request.duration_s)
            else:
                program = Program(request.command, environment, signals)
            session = Session(program, [tool.recorder for tool in tools], signals)
            try:
                if control:
                    attached = native.Attached if sampler == "native" else perf.Attached
                    tools.append(attached(request, writer, program, control))
                if called:
                    tools.append(calls.CallTracer(writer, program, places.enter_context(open_control()), called))
                if plan.lines:
                    tools.append(python.Beside(request, writer, program))
                session.recorders = [tool.recorder for tool in tools]
                for tool in tools:
                    tool.await_ready(session)
                before = counters.read()
                started_utc = datetime.now(UTC).isoformat(timespec="seconds")
                program.start()
                memory = MemoryWatch(writer.path, program.pid)
                session.watch = lambda: min(memory(), program.left_s())
                session.until_program_ends()
                memory.look()
                memory.close()
                after = counters.read()
            finally:
                if program.wait_status is None:
                    program.abandon()
                session.finish_recorders()
                if not program.begun:
                    # Of no program: in the way of the next recording, and nothing to keep.
                    for name in (PERF_DATA, CALLS_DATA):
                        (writer.path / name).unlink(missing_ok=True)
        # Signals are free again: exporting may take long, and may be broken off.
        results = [tool.result() for tool in tools] + plan.results()
    nvtx.tidy(writer.path)
    if kallsyms.modules() != modules:
        notes.append(kallsyms.save(writer.path))
    assert program.wait_status is not None
    notes += [note for result in results for note in result.notes]
    notes.append(ending_note(program.wait_status))
    failure = next((result.failure for result in results if result.failure), None)
    # To end the recording of a running program is what a signal is for.
    interrupted = session.interruptions > 0 and not request.pid
    return Outcome(
        state="failed" if failure else "interrupted" if interrupted else "complete",
        exit_status=exit_status(program.wait_status),
        started_utc=started_utc,
        duration_ns=program.ended_ns - program.started_ns,
        resources=resources(program.usage),
        counters=counters.growth(before, after),
        collectors=tuple(result.facts for result in results),
        notes=tuple(dict.fromkeys(note for note in notes if note)),
        failure=failure,
    )


def _program_environment(request: RecordRequest, control: str) -> dict[str, str]:
    ours = (CONTROL_VARIABLE, RANGES_VARIABLE, SCENARIO_VARIABLE, nvtx.FOLDER_VARIABLE)
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    in_region = {CONTROL_VARIABLE: control} if control and request.region_only else {}
    return environment | dict(request.environment) | in_region
