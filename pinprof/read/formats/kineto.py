"""What Kineto, the recorder of torch.profiler, calls CUDA's calls, GPU work and memory kinds, in our own terms.

Sources: libkineto/src/CuptiActivity.cpp and output_json.cpp; names of categories before 2022 (`Operator`, `Runtime`,
`Memcpy`) from the tests of Kineto's TensorBoard plugin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pinprof.data.activity import UNRECORDED, Api, CopyKind, MemoryKind, MigrationCause, OpKind, SyncKind

CALLS: Mapping[str, Api] = {
    "cuda_runtime": Api.RUNTIME,
    "Runtime": Api.RUNTIME,
    "cuda_driver": Api.DRIVER,
    "privateuse1_runtime": Api.RUNTIME,
    "privateuse1_driver": Api.DRIVER,
}
OPS: Mapping[str, OpKind] = {
    "kernel": OpKind.KERNEL,
    "Kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.COPY,
    "Memcpy": OpKind.COPY,
    "gpu_memset": OpKind.MEMSET,
    "Memset": OpKind.MEMSET,
    "cuda_sync": OpKind.SYNC,
    "uvm_migration": OpKind.MIGRATION,
}
"""`uvm_migration` is pinprof's own; Kineto does not record migrations."""

_COPY = re.compile(r"(Memcpy|Migration) (\w+)(?: \((.+?) -> (.+?)\))?")
_MEMSET = re.compile(r"Memset \((.+?)\)")
DIRECTIONS: Mapping[str, CopyKind] = {
    "HtoD": CopyKind.HOST_TO_DEVICE,
    "DtoH": CopyKind.DEVICE_TO_HOST,
    "HtoA": CopyKind.HOST_TO_ARRAY,
    "AtoH": CopyKind.ARRAY_TO_HOST,
    "AtoA": CopyKind.ARRAY_TO_ARRAY,
    "AtoD": CopyKind.ARRAY_TO_DEVICE,
    "DtoA": CopyKind.DEVICE_TO_ARRAY,
    "DtoD": CopyKind.DEVICE_TO_DEVICE,
    "HtoH": CopyKind.HOST_TO_HOST,
    "PtoP": CopyKind.PEER_TO_PEER,
}
UVM_DIRECTIONS: Mapping[int, CopyKind] = {
    CopyKind.HOST_TO_DEVICE: CopyKind.UVM_HOST_TO_DEVICE,
    CopyKind.DEVICE_TO_HOST: CopyKind.UVM_DEVICE_TO_HOST,
    CopyKind.DEVICE_TO_DEVICE: CopyKind.UVM_DEVICE_TO_DEVICE,
}
KINDS: Mapping[str, MemoryKind] = {kind.words.title(): kind for kind in MemoryKind if kind != MemoryKind.UNKNOWN}
CAUSES: Mapping[str, int] = {cause.name.lower(): cause for cause in MigrationCause}
"""Causes of migrations, in pinprof's own traces."""

SYNCS: Mapping[str, SyncKind] = {
    "Event Sync": SyncKind.EVENT,
    "Stream Wait Event": SyncKind.STREAM_WAIT_EVENT,
    "Stream Sync": SyncKind.STREAM,
    "Context Sync": SyncKind.CONTEXT,
}


def described(name: str) -> tuple[int, int, int, int]:
    """(copy kind, source, destination, kind of wait) as the name of GPU work says them; UNRECORDED what it does not."""
    if copy := _COPY.fullmatch(name):
        kinds = [KINDS.get(text, MemoryKind.UNKNOWN) if text else UNRECORDED for text in (copy[3], copy[4])]
        direction = DIRECTIONS.get(copy[2], CopyKind.UNKNOWN)
        if copy[1] == "Migration":
            direction = UVM_DIRECTIONS.get(direction, CopyKind.UNKNOWN)
        return direction, kinds[0], kinds[1], UNRECORDED
    if memset := _MEMSET.fullmatch(name):
        return UNRECORDED, UNRECORDED, KINDS.get(memset[1], MemoryKind.UNKNOWN), UNRECORDED
    return UNRECORDED, UNRECORDED, UNRECORDED, SYNCS.get(name, SyncKind.UNKNOWN)
