"""A real run's managed memory as the driver's own events would tell it."""

from __future__ import annotations

from dataclasses import replace

from pinprof.data.activity import Activity, CopyKind, OpKind
from pinprof.data.model import Capture
from pinprof.data.uvm_events import UvmEvent
from pinprof.read import uvm
from tests.support import uvm_layout
from tests.support.activities import export


def told_by_the_driver() -> Capture:
    """The real run's migrations and faults as events of the driver, and of everything else what tracing calls shows."""
    capture = export("uvm").capture
    assert capture.activity is not None
    operations, faults, begin = capture.activity.gpu_ops, capture.activity.faults, 10**12
    moved = operations.take(operations.kind == OpKind.MIGRATION)
    upward = moved.copy_kind == CopyKind.UVM_HOST_TO_DEVICE
    events = [
        uvm_layout.event(
            UvmEvent.MIGRATION, 2, cause=cause, source=int(not up), target=int(up), address=address, bytes=size,
            begin=start + begin, end=end + begin,
        )
        for cause, up, address, size, start, end in zip(
            moved.cause.tolist(), upward.tolist(), moved.address.tolist(), moved.size_bytes.tolist(),
            moved.start_ns.tolist(), moved.end_ns.tolist(), strict=True,
        )
    ]  # fmt: skip
    on_cpu = faults.take(faults.device < 0)
    events += [
        uvm_layout.event(UvmEvent.CPU_FAULT, 2, address=address, time=time + begin)
        for address, time in zip(on_cpu.address.tolist(), on_cpu.time_ns.tolist(), strict=True)
    ]
    file = uvm.parse(uvm_layout.file(*events, opened_ns=0, opened_raw_ns=begin, pid=int(moved.pid[0])))
    assert file is not None
    work = uvm.combine([file])
    activity = Activity(
        uvm.SOURCE,
        calls=capture.activity.calls,
        gpu_ops=work.migrations,
        faults=work.faults,
        memory=capture.activity.memory,
        recorded=work.recorded | {"cuda calls", "memory"},
    )
    return replace(capture, activity=activity)
