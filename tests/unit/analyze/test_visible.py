"""Without call chains, or names of kernel functions, nothing is clear: causes are told by both."""

from __future__ import annotations

import pytest

from pinprof.analyze import analyze
from pinprof.analyze.rules.needs import has_call_chains, has_kernel_names
from pinprof.data.model import Capture
from tests.support.stacks import Sample, capture

LONE_KERNEL, LONE_USER, WHOLE = ["clear_page_erms"], ["main@/app"], ["main@/app", "asm_exc_page_fault"]


def recorded(*kinds: tuple[list[str], int]) -> Capture:
    stacks = [stack for stack, count in kinds for _ in range(count)]
    return capture([Sample(stack, 1_000_000, time_ns=number * 1_000_000) for number, stack in enumerate(stacks)])


@pytest.mark.parametrize(
    ("kinds", "known"),
    [
        ([(WHOLE, 100)], True),
        ([(LONE_KERNEL, 10), (LONE_USER, 90)], False),
        ([([], 100)], False),
        ([(LONE_USER, 100)], True),
        ([(LONE_USER, 50), (WHOLE, 50)], True),
        ([(LONE_KERNEL, 10), (WHOLE, 90)], True),
        ([(LONE_KERNEL, 11), (WHOLE, 89)], False),
        ([([], 11), (WHOLE, 89)], False),
    ],
)
def test_call_chains_are_there_when_callers_of_the_kernel_are_known(
    kinds: list[tuple[list[str], int]], known: bool
) -> None:
    assert has_call_chains(recorded(*kinds), 0) is known


def test_rules_that_need_stacks_are_not_assessable_without_them() -> None:
    found = {finding.slug: finding for finding in analyze(recorded((LONE_KERNEL, 50), (LONE_USER, 50))).findings}
    for rule in (
        "first-touch-in-pin",
        "first-touch",
        "staging-copies",
        "managed-cpu-faults",
        "freeing",
        "no-huge-pages",
    ):
        assert (found[rule].severity, "Call chains" in found[rule].missing) == ("not-assessable", True), rule
    assert not [finding for finding in found.values() if finding.severity == "ok" and finding.slug != "sampling-gap"]


def test_nothing_found_without_call_chains_is_not_nothing_to_gain() -> None:
    answer = analyze(recorded((LONE_KERNEL, 50), (LONE_USER, 50))).opportunities
    assert answer is not None
    assert (answer.headline, any("no call chains" in line for line in answer.unseen)) == ("", True)


def test_the_headline_claims_nothing_of_memory_without_call_chains() -> None:
    headline = analyze(recorded((LONE_KERNEL, 5), (LONE_USER, 95))).headline
    assert headline == (
        "This recording cannot show host-memory costs, because its samples have no call chains; record with `pinprof "
        "record` or `perf record -g`. 95 % of its 100 ms of cpu-clock is in main."
    )


NAMELESS = ["main@/app", "[unknown kernel]", "[unknown kernel]"]


@pytest.mark.parametrize(
    ("kinds", "known"),
    [
        ([(NAMELESS, 100)], False),
        ([(NAMELESS, 11), (WHOLE, 89)], False),
        ([(NAMELESS, 10), (WHOLE, 90)], True),
        ([(LONE_USER, 100)], True),
        ([(["main@/app", "asm_exc_page_fault", "[unknown kernel]"], 100)], True),
        ([(["main@/app", "[unknown kernel]", "main@/app"], 100)], True),
    ],
)
def test_kernel_functions_are_known_when_stacks_in_the_kernel_name_any(
    kinds: list[tuple[list[str], int]], known: bool
) -> None:
    assert has_kernel_names(recorded(*kinds), 0) is known


def test_without_names_of_kernel_functions_nothing_is_clear() -> None:
    found = analyze(recorded((NAMELESS, 100)))
    unclear = {finding.slug for finding in found.findings if "Names of kernel functions" in finding.missing}
    assert unclear == {
        "first-touch-in-pin",
        "first-touch",
        "managed-cpu-faults",
        "freeing",
        "no-huge-pages",
        "compaction",
    }
    assert found.headline.startswith(
        "This recording cannot show host-memory costs, because kernel functions have no names; "
    )
    assert found.opportunities is not None
    assert found.opportunities.headline == ""
