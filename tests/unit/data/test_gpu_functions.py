"""Every function of CUDA that makes, gives back, moves or sets memory is watched, in every version that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinprof.data.activity import CopyKind, MemoryKind
from pinprof.data.gpu_functions import FUNCTIONS, asks, is_traced, may_wait, plain_name, purpose_of, runs_on_host

NAMES = (Path(__file__).parents[2] / "data" / "cuda" / "functions.txt").read_text("utf-8").split()
"""Functions about memory: what libcuda 535 and libcudart 13.0 export, and what cuda.h and cuda_runtime_api.h of CUDA
13.5 declare, with the versions that these name."""
ASKS = re.compile(
    r"\w*(Get|Range|Export|Retain|ImportFromShareableHandle|SetMemPool|PoolSet|MapArrayAsync|BatchDecompress)\w*"
)
"""What asks, shares a handle or sets a property: it makes and moves nothing. Decompression is work of the GPU."""


def test_what_is_left_out_asks_only() -> None:
    assert len(NAMES) > 300
    missing = {plain_name(name) for name in NAMES} - FUNCTIONS.keys()
    assert {name for name in missing if not ASKS.fullmatch(name)} == set()


def test_what_is_watched_exists() -> None:
    watched = set(filter(is_traced, FUNCTIONS))
    others = {name for name in watched if not re.match(r"cu(da)?(Mem|Malloc|Free|Host|Array|Mipmapped)", name)}
    assert others == {
        "cuInit", "cuCtxCreate", "cuDevicePrimaryCtxRetain", "cuCtxSynchronize", "cuStreamSynchronize",
        "cuEventSynchronize", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    }  # fmt: skip
    assert watched - others <= {plain_name(name) for name in NAMES}


@pytest.mark.parametrize(
    ("name", "purpose", "waits", "stream"),
    [
        ("cudaLaunchKernel_ptsz", "launch", True, None),
        ("cuLaunchKernelEx", "launch", True, None),
        ("cudaGraphLaunch", "launch", True, 1),
        ("cuLaunchHostFunc", "launch", True, 0),
        ("cudaEventRecord", "other", False, 1),
        ("cuStreamWaitEvent_ptsz", "other", False, 0),
        ("cudaStreamBeginCapture_ptsz", "other", False, 0),
        ("cuGraphUpload", "other", False, 1),
        ("cudaGraphInstantiate", "other", False, None),
        ("cuGraphExecUpdate_v2", "other", False, None),
        ("cudaThreadSynchronize", "sync", True, None),
    ],
)
def test_launches_graphs_and_events_are_rows_that_nobody_probes(
    name: str, purpose: str, waits: bool, stream: int | None
) -> None:
    plain = plain_name(name)
    assert (purpose_of(plain), may_wait(f"{name}@@libcudart.so.12")) == (purpose, waits)
    assert FUNCTIONS[plain].stream == stream
    assert not is_traced(plain)
    assert runs_on_host(plain) == ("HostFunc" in name)


def test_a_query_of_an_event_is_no_failure_and_a_record_of_one_may_be() -> None:
    assert asks("cudaEventQuery")
    assert not asks("cudaEventRecord")


@pytest.mark.parametrize(
    "versions",
    [
        ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz"),
        ("cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds"),
        ("cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz", "cuMemPrefetchAsync_v2_ptsz"),
        ("cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz"),
        ("cudaMemcpy3DBatchAsync", "cudaMemcpy3DBatchAsync_ptsz"),
        ("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"),
    ],
)
def test_versions_of_a_function_are_one(versions: tuple[str, ...]) -> None:
    assert {plain_name(name) for name in versions} == {versions[0]}
    assert versions[0] in FUNCTIONS


@pytest.mark.parametrize(
    ("name", "unit"), [("cuMemsetD8Async", 1), ("cuMemsetD16", 2), ("cuMemsetD32Async", 4), ("cudaMemset", 1)]
)
def test_a_set_counts_elements(name: str, unit: int) -> None:
    assert (FUNCTIONS[name].size, FUNCTIONS[name].unit) == (2, unit)


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("cuMemCreate", "alloc device"),
        ("cuMemRelease", "free device"),
        ("cudaMallocFromPoolAsync", "alloc device"),
        ("cuMipmappedArrayCreate", "alloc device"),
        ("cuArray3DCreate", "alloc device"),
        ("cudaFreeArray", "free device"),
        ("cudaMemcpy3DBatchAsync", "copy"),
        ("cuMemcpyWithAttributesAsync", "copy"),
        ("cuMemPrefetchBatchAsync", "prefetch"),
        ("cudaMemDiscardAndPrefetchBatchAsync", "prefetch"),
        ("cuMemDiscardBatchAsync", "advise"),
        ("cuMemsetD32Async", "set"),
        ("cuMemMap", "other"),
        ("cudaMemPoolCreate", "other"),
    ],
)
def test_what_a_function_is_for(name: str, purpose: str) -> None:
    assert name in FUNCTIONS
    assert purpose_of(name) == purpose


def test_what_makes_memory_says_which_kind() -> None:
    for name, role in FUNCTIONS.items():
        describes = role.grants or (role.pointer is not None and role.maps is None)
        assert (role.memory is not None) == describes, name
        assert role.size is not None or not role.grants, name
        assert role.copies is None or role.memory is None, name
        assert role.copies is None or isinstance(role.copies, CopyKind), name
    assert FUNCTIONS["cudaHostRegister"].memory == MemoryKind.PINNED
    assert FUNCTIONS["cudaMallocManaged"].memory == MemoryKind.MANAGED
