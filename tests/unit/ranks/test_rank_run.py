"""Which functions and kernels are waits for other ranks."""

from __future__ import annotations

import pytest

from pinprof.analyze.activity.sampled import COLLECTIVE
from pinprof.ranks.rank_run import SPINS


@pytest.mark.parametrize("name", ["MPI_Barrier", "PMPI_Allreduce", "MPI_Waitall", "opal_progress"])
def test_mpi_waits_for_others_where_it_spins(name: str) -> None:
    assert SPINS.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["MPI_Init", "MPI_Iallgather", "MPI_Comm_rank", "pthread_barrier_wait", "allreduce_all", "step"]
)
def test_what_a_program_calls_its_own_is_work(name: str) -> None:
    assert not SPINS.fullmatch(name)


def test_collective_kernels_are_known_by_name() -> None:
    assert COLLECTIVE.search("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    assert not COLLECTIVE.search("void at::native::vectorized_elementwise_kernel<4>(int)")
