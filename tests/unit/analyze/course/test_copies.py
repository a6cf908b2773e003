"""Copies as one table, from uprobes and from CUPTI."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pinprof.analyze.activity.calls import prepare_calls
from pinprof.analyze.course.copies import CopyTable, copies_of
from pinprof.data.activity import UNRECORDED, Activity, ApiCallTable, CopyKind, GivenUp, GpuOpTable, MemoryKind, OpKind
from pinprof.data.model import Capture
from tests.support.activities import Call, activity, to_device
from tests.support.stacks import Sample, capture

PINNED, PAGEABLE, DEVICE = MemoryKind.PINNED, MemoryKind.PAGEABLE, MemoryKind.DEVICE


def found(traced: Activity | None) -> CopyTable | None:
    recorded: Capture = replace(capture([Sample(("main@app",))]), activity=traced)
    return copies_of(recorded, prepare_calls(traced or Activity("none")))


def test_copies_of_the_gpu_have_the_times_of_their_calls() -> None:
    traced = activity(
        calls=[Call("cudaMemcpyAsync", 10, 20, correlation_id=1), Call("cudaMemcpy", 50, 90, correlation_id=2)],
        ops=[
            to_device(60, 80, 64, PAGEABLE, correlation_id=2),
            to_device(100, 120, 8, PINNED, correlation_id=1),
            to_device(30, 40, 4, PINNED, correlation_id=9),
        ],
    )
    copies = found(traced)
    assert copies is not None
    assert copies.start_ns.tolist() == [10, 30, 50]
    assert copies.end_ns.tolist() == [20, 40, 90]
    assert copies.call.tolist() == [0, -1, 1]
    assert copies.source.tolist() == [PINNED, PINNED, PAGEABLE]
    assert copies.asynchronous.tolist() == [True, False, False]
    assert not copies.from_file.any()


def test_copies_of_uprobes_are_the_calls_that_succeeded() -> None:
    calls = ApiCallTable.of(
        4, start_ns=[1, 2, 3, 4], end_ns=[2, 3, 4, 5], name=[0, 1, 0, 0], pid=7, tid=8, status=[0, 0, 0, 1],
        correlation_id=[1, 2, 3, 4], names=("cuMemcpyHtoDAsync", "cuCtxSynchronize"), size_bytes=[64, -1, -1, 64],
        copy_kind=[CopyKind.HOST_TO_DEVICE, UNRECORDED, CopyKind.UNKNOWN, CopyKind.HOST_TO_DEVICE],
        source_kind=[PAGEABLE, UNRECORDED, UNRECORDED, PAGEABLE], target_kind=[DEVICE, UNRECORDED, DEVICE, DEVICE],
        from_file=np.array([True, False, False, False]),
    )  # fmt: skip
    copies = found(Activity("uprobes", calls=calls))
    assert copies is not None
    assert copies.call.tolist() == [0, 2]
    assert copies.size_bytes.tolist() == [64, -1]
    assert copies.source.tolist() == [PAGEABLE, MemoryKind.UNKNOWN]
    assert copies.from_file.tolist() == [True, False]
    assert copies.asynchronous.tolist() == [True, True]


def test_while_calls_were_not_traced_the_gpu_tells_the_copies() -> None:
    calls = ApiCallTable.of(
        1, start_ns=[1], end_ns=[2], name=[0], pid=7, tid=8, correlation_id=[1], names=("cuMemcpyHtoD",),
        size_bytes=[64], copy_kind=[CopyKind.HOST_TO_DEVICE], source_kind=[PAGEABLE], target_kind=[DEVICE],
        from_file=np.array([False]),
    )  # fmt: skip
    operations = GpuOpTable.of(
        3, start_ns=[1, 15, 40], end_ns=[2, 16, 41], kind=OpKind.COPY, name=-1, pid=7, correlation_id=[1, -1, -1],
        size_bytes=[64, 65, 66], copy_kind=CopyKind.HOST_TO_DEVICE, src_kind=PAGEABLE, dst_kind=DEVICE,
    )  # fmt: skip
    seen = Activity("both", calls=calls, gpu_ops=operations)
    for kind, sizes in (("copies", [64, 65]), ("memory", [64])):
        copies = found(replace(seen, given_up=(GivenUp(kind, 10, 20, 5),)))
        assert copies is not None
        assert copies.size_bytes.tolist() == sizes
        assert copies.call.tolist() == [0, -1][: len(sizes)]


def test_without_arguments_or_activity_there_is_no_table() -> None:
    assert found(None) is None
    assert found(Activity("calls alone", calls=ApiCallTable.of(1, names=("cudaMemcpy",)))) is None
