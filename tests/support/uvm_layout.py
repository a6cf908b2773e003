"""What NVIDIA's UVM driver writes, field by field: the compiler's rules give the places that pinprof must know too.

Source: kernel-open/nvidia-uvm/uvm_types.h and uvm_ioctl.h of NVIDIA/open-gpu-kernel-modules, 580.65 (second layout) and
515.43 (first).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pinprof.data.uvm_events import HEADER_BYTES, MAGIC, VERSION, State, UvmEvent
from pinprof.read.uvm import HEADER_TYPE

U8, U16, U32, U64, S32 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


def structure(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


def _event(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
    return structure("event", ("kind", U8), *fields)


_CPU_FAULT = _event(
    ("access", U8), ("pad", U16), ("cpu", U32), ("address", U64), ("time", U64), ("pid", U32), ("thread", U32),
    ("pc", U64),
)  # fmt: skip
_MOVED = (
    ("address", U64), ("bytes", U64), ("begin", U64), ("end", U64), ("range_group", U64), ("gpu_begin", U64),
    ("gpu_end", U64),
)  # fmt: skip
_PLACED = (("address", U64), ("size", U64), ("time", U64))
_MASK = ("processors", U64 * 5)

EVENTS: dict[int, dict[int, type[ctypes.Structure]]] = {
    UvmEvent.CPU_FAULT: {1: _CPU_FAULT, 2: _CPU_FAULT},
    UvmEvent.MIGRATION: {
        1: _event(("cause", U8), ("source", U8), ("target", U8), ("pad", U32), *_MOVED),
        2: _event(
            ("cause", U8), ("pad", U16), ("source", U16), ("target", U16), ("source_node", S32), ("target_node", S32),
            *_MOVED,
        ),
    },
    UvmEvent.GPU_FAULT: {
        1: _event(
            ("fault", U8), ("access", U8), ("processor", U8), ("gpc", U16), ("client_id", U16), ("address", U64),
            ("time", U64), ("gpu_time", U64), ("batch", U32), ("client", U8), ("pad8", U8), ("pad16", U16),
        ),
        2: _event(
            ("fault", U8), ("processor", U16), ("gpc", U16), ("client_id", U16), ("address", U64), ("time", U64),
            ("gpu_time", U64), ("batch", U32), ("client", U8), ("access", U8), ("pad16", U16),
        ),
    },
    UvmEvent.GPU_FAULT_REPLAY: {
        1: _event(("processor", U8), ("client", U8), ("pad8", U8), ("batch", U32), ("time", U64), ("gpu_time", U64)),
        2: _event(("client", U8), ("processor", U16), ("batch", U32), ("time", U64), ("gpu_time", U64)),
    },
    UvmEvent.READ_DUPLICATE: {
        1: _event(("pad8", U8), ("pad16", U16), ("pad32", U32), ("processors", U64), *_PLACED),
        2: _event(("pad8", U8), ("pad16", U16), ("pad32", U32), *_PLACED, _MASK),
    },
    UvmEvent.THRASHING: {
        1: _event(("pad8", U8), ("pad16", U16), ("pad32", U32), ("processors", U64), *_PLACED),
        2: _event(("pad8", U8), ("pad16", U16), ("pad32", U32), *_PLACED, _MASK),
    },
    UvmEvent.EVICTION: {
        1: _event(("source", U8), ("target", U8), ("pad8", U8), ("pad32", U32), ("address_out", U64), *_PLACED),
        2: _event(("pad8", U8), ("pad16", U16), ("source", U16), ("target", U16), ("address_out", U64), *_PLACED),
    },
}  # fmt: skip

CONTROL = structure(
    "control", ("get_ahead", U32), ("get_behind", U32), ("put_ahead", U32), ("put_behind", U32), ("dropped", U64 * 64)
)
INIT = structure(
    "init", ("queue_buffer", U64), ("queue_buffer_size", U64), ("control_buffer", U64), ("processor", U8 * 16),
    ("all_processors", U32), ("uvm_fd", U32), ("status", U32),
)  # fmt: skip
FLAGS = structure("flags", ("flags", U64), ("status", U32))
TABLE = structure("table", ("table", U64), ("status", U32))
OLD_TABLE = structure("old_table", ("table", U64), ("count", U32), ("status", U32))


def event(kind: int, layout: int, **values: int) -> bytes:
    """An entry of the queue."""
    filled = bytes(EVENTS[kind][layout](kind=kind, **values)) if kind in EVENTS else bytes([kind])
    return filled.ljust({1: 64, 2: 72}[layout], b"\0")


def file(*events: bytes, version: int = 2, state: int = State.ENDED, **header: int | list[int]) -> bytes:
    """A file of a capture with these entries."""
    head = np.zeros(1, HEADER_TYPE)
    head["magic"], head["version"], head["layout"], head["state"], head["pid"] = MAGIC, VERSION, version, state, 7
    head["written"] = len(b"".join(events))
    for name, value in header.items():
        head[name] = value
    return head.tobytes().ljust(HEADER_BYTES, b"\0") + b"".join(events)
