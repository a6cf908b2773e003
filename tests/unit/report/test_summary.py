"""What the page and the terminal say in the same words."""

from __future__ import annotations

from dataclasses import replace

from pinprof.report.summary import hero_facts, quality_notes, quality_tiles
from tests.sample_report import sample_report


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    data = sample_report()
    one = replace(data, losses=replace(data.losses, unresolved_frames=1, truncated_chains=1))
    labels = {tile.label: tile.value for tile in quality_tiles(one)}
    assert labels["frame without a symbol"] == "1"
    assert labels["truncated callchain"].startswith("1 (")


def test_an_event_without_a_name_is_not_called_by_its_unit_twice() -> None:
    data = sample_report()
    event = replace(data.events[0], name="samples", unit="samples", samples=64)
    assert "64 weighted stacks" in hero_facts(replace(data, events=(event,)))


def test_clocks_are_compared_only_where_there_are_ranges() -> None:
    data = sample_report()
    assert any("ranges count on" in note for note in quality_notes(data))
    assert not any("ranges count on" in note for note in quality_notes(replace(data, ranges=())))
