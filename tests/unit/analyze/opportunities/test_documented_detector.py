"""A new detector is one function and one line, its cure one entry: docs/extending.md, as it stands there."""

from __future__ import annotations

from types import MappingProxyType, ModuleType

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.opportunities import catalogue, search
from pinprof.analyze.opportunities.results import Opportunities
from pinprof.data.rate_book import REFERENCE, RateBook
from pinprof.report.gather import build
from tests.support.activities import MS
from tests.support.documented import module
from tests.support.stacks import Sample, capture

READ = ["main@/home/app", "load@/home/app", "read@/usr/lib/x86_64-linux-gnu/libc.so.6", "vfs_read", "_copy_to_iter"]
PIPE = ["main@/home/app", "load@/home/app", "read@/usr/lib/x86_64-linux-gnu/libc.so.6", "pipe_read", "_copy_to_iter"]
WORK = ["main@/home/app", "compute@/home/app"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = module("detector.py")
    monkeypatch.setattr(
        search, "DETECTORS", (*search.DETECTORS, search.Detector(made.read, "files read piece by piece"))
    )
    monkeypatch.setattr(catalogue, "CURES", MappingProxyType({**catalogue.CURES, "map-file": made.CURE}))
    return made


def found(stack: list[str], part: int = 400) -> Opportunities:
    """In a program of one second, which spends so many milliseconds of it there."""
    samples = [Sample(stack if at < part else WORK, MS, (at + 1) * MS) for at in range(1000)]
    answer = analyze(capture(samples)).opportunities
    assert answer is not None
    return answer


def test_it_is_an_answer_with_place_cure_and_a_saving_by_rates(toy: ModuleType) -> None:
    (one,) = found(READ).found
    assert (one.title, one.site.function) == ("load reads a file that lies in memory.", "load")
    assert (one.cure.id, one.cure.code) == ("map-file", toy.CURE.code[catalogue.NATIVE])
    assert (one.cost_ns, dict(one.causes)) == (400 * MS, {"copy.kernel": 400 * MS})
    book = RateBook.of(capture([]))
    now, then = (book.cost(measure, 1 << 20) for measure in ("file.read", "file.map-touch"))
    assert now is not None
    assert then is not None
    assert one.bytes == pytest.approx(400 * MS / now.ns * (1 << 20))
    assert one.saving.likely_ns == pytest.approx(400 * MS * (1 - then.ns / now.ns))
    assert one.saving.low_ns < one.saving.likely_ns < one.saving.high_ns
    assert all(REFERENCE in line for line in one.basis)


@pytest.mark.usefixtures("toy")
def test_every_output_has_it() -> None:
    samples = [Sample(READ if at < 400 else WORK, MS, (at + 1) * MS) for at in range(1000)]
    document = build(analyze(capture(samples))).to_json()
    assert [one["cure"]["id"] for one in document["opportunities"]] == ["map-file"]
    assert search.looked_for().endswith(", files read piece by piece")
    assert document["headline"].startswith("load reads a file that lies in memory: mapping the file once saves about 2")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("stack", "part"), [(PIPE, 400), (WORK, 400), (READ, 8)], ids=["pipe", "none", "little"])
def test_other_costs_and_small_ones_are_no_answer(stack: list[str], part: int) -> None:
    assert found(stack, part).found == ()
