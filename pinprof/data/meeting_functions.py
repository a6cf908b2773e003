"""The functions in which processes meet: those of NCCL, MPI and Gloo, and which argument says with whom and how much.

What records and reads calls knows their names from here alone. Prototypes: nccl.h of NCCL 2.4 to 2.27; mpi.h of MPI
3.1; gloo's headers, whose functions take one structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, get_args

from pinprof.base.lazy_dataclass import dataclass

Waits = Literal["all", "root", "gather", "chain", "pair", "whom", "later", "none"]
"""For whom the call waits: all others of its communicator; the root, all others; all others, the root, and these for
it; some of them; the one that it sends to or receives from; whom the call does not say; all, on the GPU, after the
call; nobody."""
Library = Literal["NCCL", "MPI", "Gloo"]
LIBRARIES: tuple[Library, ...] = get_args(Library)


@dataclass(frozen=True)
class MeetingFunction:
    """Where a function's arguments are, counted from 0; None for one that it does not have."""

    waits: Waits
    communicator: int | None = None
    count: int | None = None
    datatype: int | None = None
    """What `count` counts."""
    peer: int | None = None
    """The rank that it sends to or receives from."""
    root: int | None = None
    tag: int | None = None
    stream: int | None = None
    makes: int | None = None
    """Where it writes the handle of a communicator that it makes."""
    ends: bool = False
    """It ends its communicator, so that the handle may come again for another."""
    sends: bool = False
    """It sends to its peer; other functions with a peer receive."""
    library: Library = "MPI"

    @property
    def numbered(self) -> bool:
        """Whether all ranks of the communicator call it in one order: the nth call of one is the nth of all."""
        return self.communicator is not None and self.peer is None and not self.ends


def _all(communicator: int, count: int | None = None, datatype: int | None = None) -> MeetingFunction:
    return MeetingFunction("all", communicator, count, datatype)


def _rooted(waits: Waits, communicator: int, count: int, datatype: int) -> MeetingFunction:
    """Of MPI: the root stands before the communicator."""
    return MeetingFunction(waits, communicator, count, datatype, root=communicator - 1)


def _later(communicator: int, count: int, datatype: int, peer: int | None = None) -> MeetingFunction:
    """Of NCCL: its stream follows the communicator."""
    return MeetingFunction("later", communicator, count, datatype, peer=peer, stream=communicator + 1)


def _makes(place: int, waits: Waits = "all") -> MeetingFunction:
    return MeetingFunction(waits, 0, makes=place)


_SENDS = MeetingFunction("pair", 5, 1, 2, peer=3, tag=4, sends=True)
_WHOM, _ENDS = MeetingFunction("whom"), MeetingFunction("none", 0, ends=True)

_MPI: Mapping[str, MeetingFunction] = {
    "MPI_Barrier": _all(0),
    "MPI_Allreduce": _all(5, 2, 3),
    "MPI_Allgather": _all(6, 1, 2),
    "MPI_Allgatherv": _all(7, 1, 2),
    "MPI_Alltoall": _all(6, 1, 2),
    **dict.fromkeys(("MPI_Alltoallv", "MPI_Alltoallw"), _all(8)),
    "MPI_Reduce_scatter": _all(5),
    "MPI_Reduce_scatter_block": _all(5, 2, 3),
    "MPI_Bcast": _rooted("root", 4, 1, 2),
    "MPI_Reduce": _rooted("gather", 6, 2, 3),
    "MPI_Gather": _rooted("gather", 7, 1, 2),
    "MPI_Gatherv": _rooted("gather", 8, 1, 2),
    "MPI_Scatter": _rooted("root", 7, 4, 5),
    "MPI_Scatterv": _rooted("root", 8, 5, 6),
    **dict.fromkeys(("MPI_Scan", "MPI_Exscan"), MeetingFunction("chain", 5, 2, 3)),
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Rsend"), _SENDS),
    "MPI_Recv": replace(_SENDS, sends=False),
    **dict.fromkeys(
        (
            "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Probe", "MPI_Mprobe", "MPI_Mrecv", "MPI_Wait", "MPI_Waitall",
            "MPI_Waitany", "MPI_Waitsome", "MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Win_fence",
        ),
        _WHOM,
    ),
    **dict.fromkeys(("MPI_Comm_dup", "MPI_Comm_idup"), _makes(1)),
    **dict.fromkeys(("MPI_Comm_create", "MPI_Comm_dup_with_info", "MPI_Cart_sub"), _makes(2)),
    "MPI_Comm_split": _makes(3),
    "MPI_Comm_split_type": _makes(4),
    **dict.fromkeys(("MPI_Cart_create", "MPI_Graph_create"), _makes(5)),
    "MPI_Comm_create_group": MeetingFunction("whom", makes=3),
    "MPI_Intercomm_merge": MeetingFunction("whom", makes=2),
    "MPI_Intercomm_create": MeetingFunction("whom", makes=5),
    "MPI_Dist_graph_create": _makes(8),
    "MPI_Dist_graph_create_adjacent": _makes(9),
}  # fmt: skip
_NCCL: Mapping[str, MeetingFunction] = {
    "ncclAllReduce": _later(5, 2, 3),
    "ncclReduceScatter": _later(5, 2, 3),
    "ncclBroadcast": _later(5, 2, 3),
    "ncclBcast": _later(4, 1, 2),
    "ncclReduce": _later(6, 2, 3),
    "ncclAllGather": _later(4, 2, 3),
    "ncclSend": replace(_later(4, 1, 2, peer=3), sends=True),
    "ncclRecv": _later(4, 1, 2, peer=3),
    "ncclGroupEnd": _WHOM,
    "ncclCommSplit": _makes(3),
    **dict.fromkeys(("ncclCommDestroy", "ncclCommAbort"), _ENDS),
}
_GLOO: Mapping[str, MeetingFunction] = {
    **dict.fromkeys(
        (
            "_ZN4gloo7barrierERNS_14BarrierOptionsE", "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE",
            "_ZN4gloo9allgatherERNS_16AllgatherOptionsE", "_ZN4gloo10allgathervERNS_17AllgathervOptionsE",
            "_ZN4gloo8alltoallERNS_15AlltoallOptionsE", "_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE",
        ),
        _all(0),
    ),
    **dict.fromkeys(
        (
            "_ZN4gloo9broadcastERNS_16BroadcastOptionsE", "_ZN4gloo6reduceERNS_13ReduceOptionsE",
            "_ZN4gloo6gatherERNS_13GatherOptionsE", "_ZN4gloo7scatterERNS_14ScatterOptionsE",
        ),
        MeetingFunction("chain", 0),
    ),
}  # fmt: skip
"""Their one argument has the communicator first."""

MEETING_FUNCTIONS: Mapping[str, MeetingFunction] = MappingProxyType(
    {
        name: replace(function, library=library)
        for library, functions in zip(LIBRARIES, (_NCCL, _MPI, _GLOO), strict=True)
        for name, function in functions.items()
    }
)
"""By symbol: what every library of MPI 3 has. A program may test whether a newer function is there (mpi4py does so with
those for large counts, `MPI_Allreduce_c`), and the agent's being there would be the wrong answer."""
