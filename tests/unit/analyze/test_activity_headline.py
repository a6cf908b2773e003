"""The sentence on top of a recording of CUDA activity alone."""

from __future__ import annotations

import pytest

from pinprof.analyze import analyze
from tests.support.activities import GIB, MIB, MS, SECOND, Call, Op, kernel, to_device, to_host, traced
from tests.support.stacks import Sample


def streaming(busy: float, *, device: int = 0, span_ns: int = SECOND, back: bool = False) -> list[Op]:
    """Ten copies of 1 GiB in a span, busy for a part of it, and a kernel beside them."""
    step, copy = span_ns // 10, to_host if back else to_device
    copies = [copy(at * step, at * step + int(step * busy), GIB, device=device) for at in range(10)]
    return [*copies, kernel(span_ns - 10 * MS, span_ns, device=device, stream=8)]


def headline(calls: list[Call], ops: list[Op]) -> str:
    return analyze(traced(calls, ops)).headline


@pytest.mark.parametrize(("busy", "full"), [(0.95, True), (0.90, True), (0.89, False)])
def test_a_link_that_is_busy_all_the_time_is_the_answer(busy: float, full: bool) -> None:
    said = headline([Call("cudaMemcpyAsync", 0, 10)], streaming(busy))
    assert said.startswith(f"Copies to the device fill {round(busy * 100)} % of the GPU's time: 10 GiB in 10 ") == full


def test_a_full_link_to_the_host_is_named_too() -> None:
    assert headline([], streaming(0.95, back=True)).startswith("Copies to the host fill 95 % of the GPU's time")


def test_the_gpus_whose_link_is_full_are_named() -> None:
    both = streaming(0.95) + streaming(0.95, device=1)
    assert headline([], both).startswith("Copies to the device fill 95 % of the time of each of 2 GPUs: 20 GiB")
    assert headline([], streaming(0.5) + streaming(0.95, device=1)).startswith(
        "Copies to the device fill 95 % of GPU 1's time"
    )


def test_a_short_burst_of_copies_is_no_full_link() -> None:
    calls = [Call("cudaMalloc", 0, 2 * MS), Call("cudaHostAlloc", 2 * MS, 4 * SECOND)]
    assert headline(calls, streaming(0.95)).startswith("cudaHostAlloc takes 100 % of the run")


def test_bytes_are_those_of_the_copies_with_and_without_a_call() -> None:
    calls = [Call("cudaMemcpyAsync", 0, 10, 1)]
    ops = [to_device(10 * MS, 11 * MS, 3 * MIB, correlation_id=1), to_device(20 * MS, 21 * MS, 5 * MIB), kernel(0, MS)]
    assert "in 1 call for 8 MiB; kernels run 1 ms, copies 2 ms." in headline(calls, ops)


def test_gpu_work_that_was_not_recorded_takes_no_time() -> None:
    calls = [Call("cudaMalloc", 0, 10), Call("cudaLaunchKernel", 20, 30), Call("cudaMemcpy", 40, 50)]
    assert headline(calls[:1], []).endswith("; the recording has no GPU work.")
    assert headline(calls, []).endswith("; the GPU's kernels and copies were not recorded.")
    assert headline(calls, [kernel(25, 35)]).endswith("; kernels run 10 ns; the GPU's copies were not recorded.")


def test_a_full_link_is_said_before_what_samples_tell() -> None:
    samples = [Sample(["main@/app"], MS, time_ns=at * MS) for at in range(1000)]
    found = analyze(traced([Call("cudaMemcpyAsync", 0, 10)], streaming(0.95), samples=samples))
    assert found.opportunities is not None
    assert found.answer.startswith("Copies to the device fill 95 % of the GPU's time")
    assert found.answer.count("Copies to the device") == 1
    assert not analyze(traced([Call("cudaMemcpyAsync", 0, 10)], streaming(0.5), samples=samples)).leading


def test_a_long_wait_for_the_gpu_is_named_where_memory_costs_next_to_nothing() -> None:
    calls = [Call("cudaMemcpyAsync", 0, 10, 1), Call("cudaDeviceSynchronize", MS, 100 * MS, 2)]
    ops = [to_device(20, 30, MIB, correlation_id=1), kernel(40, 99 * MS)]
    assert headline(calls, ops) == (
        "CUDA calls for memory take <0.1 % of the run; cudaDeviceSynchronize waits for the GPU in 99 % of it; kernels "
        "run 99 ms, copies 10 ns."
    )
    calls[1] = Call("cudaDeviceSynchronize", 91 * MS, 100 * MS, 2)
    assert "waits for the GPU" not in headline(calls, ops)
