"""The agent inside ranks, before stand-ins for MPI, NCCL and Gloo: whom each call meets, and which call of how many."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pinprof.data.meeting_calls import Communicator, MeetingCalls
from pinprof.machine.libraries import INSIDE, compiler
from pinprof.ranks.calls import matched, rank_calls
from tests.support import agent

pytestmark = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
DECLARED = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct communicator *comm;
extern struct communicator ompi_mpi_comm_world;
struct id { char bytes[128]; };
struct context { int rank, size, base; };
struct options { struct context *context; };
int MPI_Init(int *, char ***), MPI_Barrier(comm), MPI_Allreduce(const void *, void *, int, int, int, comm),
    MPI_Comm_split(comm, int, int, comm *), MPI_Send(const void *, int, int, int, int, comm),
    ncclCommInitRank(void **, int, struct id, int),
    ncclAllReduce(const void *, void *, size_t, int, int, void *, void *),
    ncclCommDestroy(void *);
void _ZN4gloo7barrierERNS_14BarrierOptionsE(struct options *);
#define WORLD (&ompi_mpi_comm_world)
"""
WORLD_SIZE = 4
CLOCK_NS = 100_000
"""How far the ticks of two processes may be apart, each on CLOCK_MONOTONIC by moments of its own."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    source = agent.SUPPORT / "fake_meetings.c"
    agent.compiled(folder / "libmeet.so", source, "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libmeet.so")
    return folder


def launched(libraries: Path, place: Path, text: str, ranks: int = 1) -> list[MeetingCalls]:
    """What each rank of a program of C recorded."""
    shared = place / "shared"
    shared.write_bytes(bytes(4096))
    program = agent.program(place, DECLARED + text, f"-L{libraries}", "-lmeet")
    own = {"LD_LIBRARY_PATH": str(libraries), "LD_PRELOAD": str(INSIDE.find()), "MEETINGS": str(shared)}
    folders = [place / f"rank-{rank}" for rank in range(ranks)]
    started = []
    for rank, folder in enumerate(folders):
        folder.mkdir()
        more = {"PINPROF_INSIDE": str(folder), "RANK": str(rank), "WORLD_SIZE": str(ranks)}
        started.append(subprocess.Popen([program], env={**os.environ, **own, **more}))
    assert [one.wait() for one in started] == [0] * ranks
    found = [agent.read(folder) for folder in folders]
    assert not any(one.activity.sited or one.notes for one in found)
    return [one.meetings for one in found if one.meetings is not None]


def called(calls: MeetingCalls) -> list[str]:
    return [calls.names[name] for name in calls.name.tolist()]


def communicators(calls: MeetingCalls) -> list[Communicator]:
    return [calls.communicators[number] for number in calls.communicator.tolist()]


def test_calls_of_all_ranks_have_their_communicator_and_their_number(libraries: Path, tmp_path: Path) -> None:
    text = """
int main(void)
{
    int rank = atoi(getenv("RANK"));
    double from[3] = {1, 2, 3}, to[3];
    comm half;
    if (MPI_Init(NULL, NULL) || MPI_Comm_split(WORLD, rank % 2, rank, &half))
        return 1;
    for (int i = 0; i < 5; i++) {
        if (rank == 1)
            usleep(1000);
        MPI_Allreduce(from, to, 3, 8, 0, WORLD);
        MPI_Barrier(half);
    }
    return MPI_Send(from, 2, 8, 1 - rank, 99, WORLD) != 5 || memcmp(from, to, sizeof to);
}
"""
    ranks = launched(libraries, tmp_path, text, WORLD_SIZE)
    assert len(ranks) == WORLD_SIZE
    halves = set()
    for rank, calls in enumerate(ranks):
        assert called(calls) == ["MPI_Init", "MPI_Comm_split", *["MPI_Allreduce", "MPI_Barrier"] * 5, "MPI_Send"]
        assert calls.number.tolist() == [0, 1, 2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 0]
        assert calls.communicator[0] == calls.communicator[-1] == -1  # of a call that failed nothing is said
        world, half = (communicators(calls)[row] for row in (2, 3))
        assert (world.rank, world.size, half.rank, half.size) == (rank, WORLD_SIZE, rank // 2, WORLD_SIZE // 2)
        assert world.identity == communicators(ranks[0])[2].identity
        assert half.identity == communicators(ranks[rank % 2])[3].identity
        halves.add(half.identity)
        assert calls.size_bytes[2] == 24
        assert calls.sites[calls.site[2]].function == "main"
    assert len(halves) == 2
    sums = [calls.take(np.array(called(calls)) == "MPI_Allreduce") for calls in ranks]
    last_came = np.max([calls.start_ns for calls in sums], axis=0)
    assert all((calls.end_ns >= last_came - CLOCK_NS).all() for calls in sums)
    met = matched([rank_calls(calls, int(calls.pid[0]), int(calls.tid[0]), ())[0] for calls in ranks], later=False)
    # The split and five sums of all ranks, and five barriers of each half.
    assert sorted(np.bincount(met.meeting).tolist()) == [2] * 10 + [4] * 6


def test_a_communicator_of_nccl_is_known_by_its_unique_id(libraries: Path, tmp_path: Path) -> None:
    text = """
int main(void)
{
    int bad = 0, stream;
    float data[4];
    for (int turn = 0; turn < 3; turn++) {
        struct id id = {.bytes = {[0] = 9, [64] = turn == 1, [127] = 5}};
        void *made;
        bad |= ncclCommInitRank(&made, 8, id, 1);
        bad |= ncclAllReduce(data, data, 4, 7, 0, made, &stream) | ncclAllReduce(data, data, 4, 7, 0, made, &stream);
        bad |= ncclCommDestroy(made);
    }
    return bad;
}
"""
    (calls,) = launched(libraries, tmp_path, text)
    sums = calls.take(np.array(called(calls)) == "ncclAllReduce")
    assert sums.number.tolist() == [1, 2] * 3
    assert sums.size_bytes.tolist() == [16] * 6
    of = communicators(sums)
    assert {(one.rank, one.size) for one in of} == {(1, 8)}
    assert len({one.identity for one in of}) == 3  # the handle is one; the same id again is another communicator


def test_a_communicator_of_gloo_is_known_by_its_context(libraries: Path, tmp_path: Path) -> None:
    text = """
int main(void)
{
    struct context first = {1, 4, 2}, second = {0, 2, 2}, none = {7, 3, 2};
    struct options options[] = {{&first}, {&first}, {&second}, {&none}};
    for (int i = 0; i < 4; i++)
        _ZN4gloo7barrierERNS_14BarrierOptionsE(&options[i]);
    return 0;
}
"""
    (calls,) = launched(libraries, tmp_path, text)
    assert calls.number.tolist() == [1, 2, 1, 0]
    assert [(one.rank, one.size) for one in communicators(calls)[:3]] == [(1, 4), (1, 4), (0, 2)]
    assert calls.communicator[3] == -1


def test_who_asks_for_a_function_that_is_not_there_is_told_so(driver: Path, tmp_path: Path) -> None:
    text = """
int main(void)
{
    return dlsym(RTLD_DEFAULT, "ncclAllReduce") || dlsym(RTLD_DEFAULT, "ncclCommInitRank") ||
           dlsym(RTLD_DEFAULT, "MPI_Barrier");
}
"""
    program = agent.of_c(tmp_path, driver, text)
    agent.run([program], driver, tmp_path / "inside")
