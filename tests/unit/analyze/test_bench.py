"""What measured rates say: limits, break-even counts, and a decision tree that answers only what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinprof.analyze.costs.bench import study
from pinprof.analyze.costs.costs import BreakEven, link_of
from pinprof.data.rates import Rate, Rates, is_measure
from tests.support.bench_rates import GIB, gpu_rates


def machine(**gpu: Any) -> dict[str, Any]:
    return {"gpus": [{"name": "A GPU", **gpu}]}


TWO_LINKS = {"gpus": [{"link_generation_max": generation, "link_width_max": 16} for generation in (4, 5)]}


@pytest.mark.parametrize(
    ("host", "name", "theory"),
    [
        (machine(link_generation_max=3, link_width_max=16), "PCIe 3.0 x16", 15.75),
        (machine(link_generation_max=4, link_width_max=8), "PCIe 4.0 x8", 15.75),
        (machine(link_generation_max=5, link_width_max=16), "PCIe 5.0 x16", 63.0),
        (machine(link_generation_max=6, link_width_max=16), "PCIe 6.0 x16", 121.0),
        ({"gpus": [{"name": "NVIDIA GH200 480GB"}]}, "NVLink-C2C", 450.0),
        (machine(link_generation_max=9, link_width_max=16), "", None),
        (machine(link_generation_max="5", link_width_max=None), "", None),
        (machine(link_generation_max=5, link_width_max=10**400), "", None),
        (TWO_LINKS, "", None),
        ({"gpus": "none"}, "", None),
        ({}, "", None),
    ],
)  # fmt: skip
def test_theory_of_the_link(host: dict[str, Any], name: str, theory: float | None) -> None:
    found, rate = link_of(host)
    assert found == name
    assert rate == (None if theory is None else pytest.approx(theory, rel=0.001))


def test_moves_are_compared_with_theory_and_the_best_measured() -> None:
    found = study(gpu_rates())
    pinned, pageable = found.cost("h2d.pinned", 4 << 30), found.cost("h2d.pageable", 4 << 30)
    assert pinned is not None
    assert pageable is not None
    assert pinned.of_theory == pytest.approx(55 / 63, rel=0.01)
    assert pageable.of_practical == pytest.approx(9 / 55.1, rel=0.01)
    launch, alloc = found.cost("kernel.launch-sync", 0), found.cost("pin.alloc", 1 << 30)
    assert launch is not None
    assert launch.ns_per_gib is None
    assert alloc is not None
    assert (alloc.gb_per_s, alloc.of_theory) == (None, None)
    assert alloc.ns_per_gib == pytest.approx(340e6, rel=0.01)


def test_the_host_backend_has_no_link() -> None:
    found = study(replace(gpu_rates(), backend="host"))
    assert (found.link, found.limits) == ("", ())


def test_without_a_gpu_no_advice_is_given_and_the_reason_is() -> None:
    found = study(replace(gpu_rates(), backend="host"))
    assert (found.break_even, found.answers) == ((), ())
    assert found.withheld.startswith("Without a GPU")
    assert found.costs


def test_where_most_benchmarks_are_unstable_no_advice_is_given_and_the_reason_is() -> None:
    rates = gpu_rates()
    half = len(rates.rates) // 2
    assert (study(rates, half).withheld, len(study(rates, half).answers)) == ("", 8)
    found = study(rates, half + 1)
    assert (found.break_even, found.answers) == ((), ())
    assert found.withheld.startswith(f"{half + 1} of {len(rates.rates)} benchmarks are unstable")


@pytest.mark.parametrize(
    ("pageable", "pinned", "cost", "copies"),
    [
        (100, 20, 800, 10),
        (100, 20, 801, 11),
        (100, 20, 1, 1),
        (20, 20, 800, None),
        (20, 100, 800, None),
        (9, 1, None, None),
    ],
)
def test_break_even_is_a_whole_number_of_copies(
    pageable: float, pinned: float, cost: float | None, copies: int | None
) -> None:
    assert BreakEven(4096, pageable, pinned, cost, None).copies(cost) == copies


def test_break_even_by_size() -> None:
    last = study(gpu_rates()).break_even[-1]
    assert last.size_bytes == 4 << 30
    # (340 + 88) ms per GiB against 119.3 − 19.5.
    assert last.copies(last.pin_ns) == 5
    assert last.copies(last.register_ns) == 1


def test_every_branch_is_answered_with_figures() -> None:
    answers = {answer.choice: answer for answer in study(gpu_rates()).answers}
    assert len(answers) == 8
    assert answers["allocate it pinned, once, and reuse it"].question.endswith("more than 5 times?")
    assert "4.4 × faster" in answers["touch huge pages with 16 threads, then register"].because
    assert "137 × in the kernel" in answers["prefetch it"].because
    assert answers["batch them"].question == "Are the pieces of work smaller than 256 KiB?"


@pytest.mark.parametrize(
    ("measures", "count"),
    [
        (("pin.alloc",), 0),
        (("h2d.pageable", "h2d.pinned"), 0),
        (("h2d.pageable", "h2d.pinned", "pin.alloc", "free.pinned"), 1),
    ],
)
def test_a_branch_needs_everything_it_rests_on(measures: tuple[str, ...], count: int) -> None:
    assert len(study(gpu_rates(*measures)).answers) == count


def test_a_machine_on_which_nothing_helps_is_told_so() -> None:
    slow = {
        "pin.alloc": 10,
        "free.pinned": 5,
        "h2d.pageable": 20,
        "h2d.pinned": 20,
        "h2d.staged": 40,
        "prefault.t1": 30,
    }
    rows = tuple(Rate(name, GIB, 1e6 * ms, 1e6 * ms, 1e6 * ms) for name, ms in slow.items())
    answers = study(Rates({}, "cuda", "", rows)).answers
    assert [answer.choice for answer in answers] == ["leave it pageable", "allocate it pinned", "leave it pageable"]


def test_measures_are_in_the_order_of_their_explanation() -> None:
    rates = gpu_rates()
    shuffled = replace(rates, rates=tuple(reversed(rates.rates)))
    names = study(shuffled).measures
    assert names[0] == "alloc.malloc"
    assert [name for name in names if name.startswith("prefault")] == [f"prefault.t{n}" for n in (1, 2, 4, 8, 16)]
    assert study(Rates({}, "cuda", "", ())).sizes == ()


@pytest.mark.parametrize("name", ["prefault.tx", "prefault.t0", "prefault.t\u0663", "prefault.t" + "9" * 7])
def test_measures_that_only_look_like_prefaulting_are_no_threads(name: str) -> None:
    rates = gpu_rates()
    odd = replace(rates, rates=(*rates.rates, Rate(name, 1 << 20, 1.0, 1.0, 1.0)))
    assert not is_measure(name)
    assert study(odd).answers == study(rates).answers
    assert study(odd).measures[-1] == name
    assert study(odd).prefaults(1 << 20) == study(rates).prefaults(1 << 20)
