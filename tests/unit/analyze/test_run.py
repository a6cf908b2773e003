"""Facts of a run: computed when somebody asks, once, whatever the order."""

from __future__ import annotations

from pinprof.analyze import Run, analyze
from tests.support.scenes import MIB, Traced, ran, recorded, to_gpu


def run(**options: bool) -> Run:
    return analyze(recorded(ran(0, 60), [Traced("cudaMalloc", 0, 5, MIB), to_gpu(10, 20, MIB)]), **options)


def test_nothing_is_searched_before_somebody_asks() -> None:
    one = run()
    assert not {"course", "ledger", "opportunities", "activity", "lines"} & vars(one).keys()
    assert one.opportunities is not None
    assert {"course", "opportunities"} <= vars(one).keys()


def test_a_fact_is_computed_once_and_the_others_are_made_of_it() -> None:
    one = run()
    assert one.doing is not None
    assert one.doing.course is one.course
    assert one.doing.sites is one.sites
    assert one.events is one.events
    assert one.ledger is one.ledger
    assert one.copies is not None
    assert one.copies is one.copies


def test_the_order_of_questions_does_not_matter() -> None:
    first, last = run(), run()
    answers = [last.answer, last.headline, last.course]
    assert [first.answer, first.headline] == answers[:2]
    assert first.course is not None
    assert last.course is not None
    assert first.course.phases == last.course.phases


def test_who_only_counts_gets_no_phases_and_no_opportunities() -> None:
    one = run(search=False)
    facts = (one.course, one.doing, one.opportunities, one.ledger, one.blame)
    assert facts == (None,) * 5
    assert one.activity is not None
