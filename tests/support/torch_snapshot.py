"""A memory snapshot of PyTorch as its documentation has it: `torch/cuda/memory.py`, `_snapshot`, of PyTorch 2.14.1.

Stacks are innermost first, entries of one stack share it, and every entry has what the allocator writes.
"""

from __future__ import annotations

from typing import Any

MIB = 1 << 20
ROUNDING = 512
"""What a block of a GPU has more than its tensor requested."""
_TORCH = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py"


def stack(line: int, function: str = "step") -> list[dict[str, Any]]:
    """C++ and PyTorch's own frames above a line of the program."""
    return [
        {"filename": "??", "line": 0, "name": "c10::cuda::CUDACachingAllocator::Native::malloc"},
        {"filename": _TORCH, "line": 125, "name": "forward"},
        {"filename": "/home/me/train.py", "line": line, "name": function},
        {"filename": "/home/me/train.py", "line": 99, "name": "main"},
    ]


WEIGHTS, ACTIVATIONS, BATCH = stack(3, "build"), stack(20), stack(30, "load")


def block(
    address: int, mebibytes: int, frames: list[dict[str, Any]], state: str = "active_allocated"
) -> dict[str, Any]:
    """A block of a segment."""
    size = mebibytes * MIB
    return {"address": address, "size": size, "requested_size": size - ROUNDING, "state": state, "frames": frames}


def segment(address: int, blocks: list[dict[str, Any]], device: int = 0) -> dict[str, Any]:
    """What cudaMalloc returned."""
    used = sum(one["size"] for one in blocks if one["state"] != "inactive")
    return {
        "device": device, "address": address, "total_size": sum(one["size"] for one in blocks), "stream": 0,
        "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": used,
        "active_size": used, "requested_size": used, "frames": [], "blocks": blocks,
    }  # fmt: skip


def event(action: str, address: int, mebibytes: int, frames: list[dict[str, Any]], time_us: int = 0) -> dict[str, Any]:
    """An entry of a GPU's history, which has the size that the tensor requested."""
    return {
        "action": action, "addr": address, "size": mebibytes * MIB - ROUNDING, "stream": 0, "frames": frames,
        "time_us": time_us, "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0),
    }  # fmt: skip


def snapshot() -> dict[str, Any]:
    """Weights from before the history, activations that come and go, and a pinned batch.

    The GPU's pool: 1,024 MiB of weights, 300 MiB of activations at its peak, 100 MiB at the end, 1,536 MiB from CUDA.
    The pinned one: 512 MiB, of which a batch has 256 MiB, as at its peak.
    """
    history = [
        event("alloc", 5, 200, ACTIVATIONS, 1),
        event("alloc", 6, 100, ACTIVATIONS, 2),
        event("free_requested", 5, 200, ACTIVATIONS, 3),
        event("free_completed", 5, 200, ACTIVATIONS, 3),
        event("free_completed", 9, 50, ACTIVATIONS, 4),
        {"action": "snapshot", "frames": [], "size": 0, "stream": 0, "time_us": 5},
    ]
    blocks = [block(1, 1024, WEIGHTS), block(6, 100, ACTIVATIONS, "active_pending_free"), block(7, 412, [], "inactive")]
    return {
        "segments": [segment(1, blocks)],
        "device_traces": [history, []],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [],
        "host_segments": [block(1 << 40, 256, BATCH), block(2 << 40, 256, [], "inactive")],
        "host_traces": [event("alloc", 1 << 40, 256, BATCH, 1) | {"size": 256 * MIB}],
    }


HOST_STATS = {
    "active_bytes.current": 0, "active_bytes.peak": 256 * MIB, "active_requests.current": 0,
    "allocated_bytes.current": 256 * MIB, "allocated_bytes.peak": 512 * MIB, "allocations.current": 1,
    "host_alloc_time.avg": 60000.0, "host_alloc_time.count": 2, "host_alloc_time.max": 80000,
    "host_alloc_time.total": 120000, "host_free_time.total": 4000, "num_host_alloc": 2, "num_host_free": 1,
}  # fmt: skip
"""`torch.cuda.host_memory_stats()`; times are microseconds."""
