"""Random programs whose places are known to make memory once, repeatedly or not at all: no false claim comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinprof.analyze.opportunities.results import Opportunity
from pinprof.analyze.opportunities.search import search
from pinprof.data.activity import Caller
from pinprof.data.host_memory import HostEvent, HostMemoryTable, HostSite, LargeMemory, Maker
from pinprof.data.model import Capture
from tests.support.scenes import FREE, HUGE, MAIN, MIB, MS, SMALL, ran, recorded, scene

ONCE, OWN, HANDED, KEPT, FREES = "once", "own", "handed", "kept", "frees"
"""Makes memory once; makes and frees it in each turn; makes it for another line to free; makes it in each turn and
keeps it; frees what was made before the recording."""
AGAIN = (OWN, HANDED)
TOLD = (ONCE, OWN, FREES)
"""What samples alone tell apart: they have no addresses."""


@dataclass(frozen=True)
class Place:
    kind: str
    takes: int
    """Milliseconds of faults in each turn."""
    frees: int
    huge: bool
    at: int
    """The turn in which it makes memory once."""
    small: bool = False
    """Whether it makes many small blocks, which the agent does not tell of, beside one large one that is kept."""


@dataclass(frozen=True)
class Program:
    places: tuple[Place, ...]
    turns: int
    works: int
    """Milliseconds of other work between two places."""
    told: bool
    """Whether the agent tells of large memory."""


@st.composite
def programs(draw: st.DrawFn) -> Program:
    told = draw(st.booleans())
    place = st.builds(
        Place, st.sampled_from((ONCE, OWN, HANDED, KEPT, FREES) if told else TOLD), st.integers(2, 40),
        st.integers(1, 12), st.booleans(), st.integers(0, 7),
    )  # fmt: skip
    place = place.flatmap(lambda one: st.booleans().map(lambda small: replace(one, small=small and one.kind in TOLD)))
    places = draw(st.lists(place, min_size=1, max_size=4))
    return Program(tuple(places), draw(st.integers(2, 8)), draw(st.integers(0, 20)), told)


def steps(program: Program) -> Iterator[tuple[str, int, tuple[str, ...], HostEvent | None, int]]:
    """Who does what for how many milliseconds, with the event of memory that it is, and of which place's memory."""
    for turn in range(program.turns):
        for number, place in enumerate(program.places):
            own, other = f"place{number}", f"other{number}"
            once = place.kind == ONCE
            if place.kind != FREES and (not once or turn == place.at % program.turns):
                yield own, place.takes * (3 if once else 1), HUGE if place.huge else SMALL, HostEvent.MADE, number
            if program.works:
                yield "main", program.works, MAIN, None, number
            if place.kind in (OWN, HANDED, FREES):
                given = None if place.kind == FREES else HostEvent.GIVEN
                yield own if place.kind == OWN else other, place.frees, FREE, given, number


def made(program: Program) -> Capture:
    samples, now, rows, kept = [], 0, [], set[int]()
    for who, takes, stack, event, number in steps(program):
        samples += ran(now, now + takes, (f"{who}@/app", *stack[1:]))
        place = program.places[number]
        if place.small and event == HostEvent.MADE and number not in kept:
            kept.add(number)
            rows.append((now, event, number, MIB, takes, 2 * number))
        elif event is not None and not place.small:
            size = 20 * MIB * place.takes * (3 if place.kind == ONCE else 1)
            rows.append((now, event, number, size, takes, 2 * number + (who[0] == "o")))
        now += takes
    memory = None
    if program.told:
        given = [event == HostEvent.GIVEN for _, event, *_ in rows]
        table = HostMemoryTable.of(
            len(rows),
            time_ns=[row[0] * MS for row in rows],
            event=[row[1] for row in rows],
            maker=Maker.MALLOC,
            pid=100,
            tid=100,
            count=1,
            size_bytes=[row[3] for row in rows],
            site=[2 * row[2] for row in rows],
            given_at=[row[5] if back else -1 for row, back in zip(rows, given, strict=True)],
            lifetime_ns=[10 * MS * back for back in given],
            took_ns=[row[4] * MS * back for row, back in zip(rows, given, strict=True)],
        )
        names = [f"{who}{number}" for number in range(len(program.places)) for who in ("place", "other")]
        memory = LargeMemory(table, tuple(HostSite(Caller(name, "app"), (Caller(name),)) for name in names), 0)
    return replace(recorded(samples), host_memory=memory)


def said(program: Program) -> list[Opportunity]:
    return list(search(scene(made(program))).found)


def kind_at(program: Program, one: Opportunity) -> str:
    place = one.site.function or one.site.place
    return program.places[int(place.removeprefix("place"))].kind if place.startswith("place") else FREES


@pytest.mark.slow
@given(programs())
@settings(max_examples=60, deadline=None)
def test_no_place_is_said_to_make_memory_each_time_that_does_not(program: Program) -> None:
    for one in said(program):
        if "each time" in one.title:
            assert kind_at(program, one) in AGAIN, one.title
            assert not [proof for proof in one.evidence if "none is given back" in proof.text], one.evidence
        if one.cure.id == "huge-pages":
            assert not program.places[int(one.site.function.removeprefix("place"))].huge, one.title


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("kind", [ONCE, OWN, KEPT, HANDED])
def test_each_kind_is_told_from_the_others(kind: str, told: bool) -> None:
    program = Program((Place(kind, 10, 4, False, 2), Place(FREES, 10, 6, False, 0)), 5, 2, told)
    if told or kind in TOLD:
        (one,) = said(program)
        assert ("each time" in one.title) == (kind in AGAIN)
        assert kind_at(program, one) == kind


def test_memory_that_is_kept_is_no_evidence_of_small_blocks_that_are_made_again() -> None:
    program = Program((Place(OWN, 10, 4, False, 0, small=True),), 5, 2, True)
    (one,) = said(program)
    assert "each time" in one.title
    assert (one.count, one.bytes) == (0, 0)


def test_what_faults_where_memory_is_freed_is_no_cost_of_another_place() -> None:
    freeing = tuple(Place(OWN, 2, 4, False, 0) for _ in range(3))
    costs = [one.cost_ns for one in said(Program((Place(ONCE, 6, 1, False, 0), *freeing), 2, 0, False))]
    assert max(costs, default=0) <= 18 * MS


def test_what_is_made_again_is_found() -> None:
    program = Program((Place(OWN, 10, 4, False, 0), Place(ONCE, 10, 4, False, 1)), 5, 2, True)
    assert {kind_at(program, one) for one in said(program) if "each time" in one.title} == {OWN}
