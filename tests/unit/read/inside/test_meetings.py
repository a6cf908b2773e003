"""Calls in which processes meet, from files of the agent."""

from __future__ import annotations

from pinprof.data.meeting_calls import Communicator
from pinprof.read.inside import calls as inside_calls
from pinprof.read.inside.calls import InsideCalls
from pinprof.read.inside.file import parse
from pinprof.read.inside.layout import Kind
from pinprof.read.symbols.resolver import Resolver
from tests.support.agent_file import chunk, header, record, site

BEGIN = 3_000_000


def read(*units: bytes) -> InsideCalls:
    file = parse(header() + chunk(*units))
    assert file is not None
    return inside_calls.combine([file], Resolver(recording=True))


def met(at_ns: int, name: str = "MPI_Allreduce", length_ns: int = 1000, **values: int) -> bytes:
    return record(Kind.MET, BEGIN + at_ns, BEGIN + at_ns + length_ns, name, **values)


def communicator(identity: int, rank: int, size: int) -> bytes:
    return record(Kind.COMMUNICATOR, address=identity, source=size << 32 | rank)


def test_calls_have_their_communicator_number_peer_and_line() -> None:
    found = read(
        communicator(2**63 + 5, 1, 4),
        site(3, "P\t12\tstep\t/home/me/step.py\n"),
        met(9000, "MPI_Recv", address=2**63 + 5, stream=7 << 32 | 2, bytes=80),
        met(0, address=2**63 + 5, source=1, site=3),
        met(4000, address=2**63 + 5, source=2),
    )
    calls = found.meetings
    assert calls is not None
    assert (found.notes, len(found.activity.calls), found.activity.sited) == ((), 0, frozenset())
    assert [calls.names[name] for name in calls.name] == ["MPI_Allreduce", "MPI_Allreduce", "MPI_Recv"]
    assert calls.start_ns.tolist() == [BEGIN, BEGIN + 4000, BEGIN + 9000]
    assert (calls.end_ns - calls.start_ns).tolist() == [1000] * 3
    assert calls.communicators == (Communicator(2**63 + 5, 1, 4),)
    assert calls.communicator.tolist() == [0, 0, 0]
    assert calls.number.tolist() == [1, 2, 0]
    assert calls.peer.tolist() == [-1, -1, 2]
    assert calls.tag.tolist() == [0, 0, 7]
    assert calls.size_bytes.tolist() == [-1, -1, 80]
    assert calls.site.tolist() == [0, -1, -1]
    assert (calls.sites[0].path, calls.sites[0].line) == ("/home/me/step.py", 12)


def test_a_call_inside_another_is_part_of_it() -> None:
    calls = read(met(0, length_ns=1000), met(100, length_ns=200), met(2000)).meetings
    assert calls is not None
    assert calls.start_ns.tolist() == [BEGIN, BEGIN + 2000]


def test_what_makes_no_sense_is_left_out_and_told() -> None:
    found = read(communicator(7, 4, 4), communicator(8, 0, 2**31), met(0, address=7, source=1), met(5, source=2**63))
    assert found.meetings is not None
    assert found.meetings.communicators == ()
    assert found.meetings.communicator.tolist() == [-1]
    assert len(found.notes) == 1
    assert "damage" in found.notes[0]
