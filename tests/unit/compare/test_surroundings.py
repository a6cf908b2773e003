"""What differs around the program is named, and refuses shares where one side saw less."""

from __future__ import annotations

from pinprof.compare.surroundings import coverage, differing, slower
from pinprof.data.rates import Rate, Rates

HERE = {"kernel": "6.1", "huge pages": "madvise", "kernel seen": "yes", "samples per second": "999"}


def test_equal_surroundings_are_not_named() -> None:
    assert differing([HERE, HERE], [HERE]) == ()
    assert differing([HERE], [{}]) == ()


def test_what_differs_is_named_with_both_values_in_a_fixed_order() -> None:
    found = differing([HERE], [HERE | {"samples per second": "100", "kernel": "6.8"}])
    assert [(one.what, one.before, one.after) for one in found] == [
        ("kernel", "6.1", "6.8"), ("samples per second", "999", "100"),
    ]  # fmt: skip
    assert not any(one.refuses for one in found)


def test_runs_of_one_side_that_differ_are_named() -> None:
    (one,) = differing([HERE, HERE | {"kernel": "6.8"}], [HERE])
    assert (one.before, one.after, one.refuses) == ("6.1, 6.8", "6.1", False)


def test_a_side_that_did_not_see_the_kernel_refuses_shares() -> None:
    (one,) = differing([HERE], [HERE | {"kernel seen": "no"}])
    assert one.refuses


def test_symbols_of_a_library_on_one_side_alone_refuse_shares() -> None:
    named, nameless = {"libx.so": (0.3, 0.3), "": (0.6, 0.7)}, {"libx.so": (0.0, 0.3), "": (0.6, 0.7)}
    assert coverage([named], [named]) == ()
    (one,) = coverage([named], [nameless])
    assert (one.what, one.before, one.after, one.refuses) == (
        "functions with names, of libx.so",
        "100 %",
        "0.0 %",
        True,
    )


def test_time_that_moves_to_a_library_without_names_is_no_difference_in_coverage() -> None:
    before, after = {"libx.so": (0.0, 0.1), "": (0.9, 0.9)}, {"libx.so": (0.0, 0.6), "": (0.4, 0.4)}
    assert coverage([before], [after]) == ()


def rates(factor: float) -> Rates:
    measures = ("touch.first", "pin.alloc", "free.pinned", "h2d.pinned", "memcpy.host")
    return Rates({}, "host", "", tuple(Rate(name, 1 << 20, 100.0 * factor, 90.0, 110.0) for name in measures))


def test_a_machine_that_was_slower_is_named() -> None:
    (one,) = slower([rates(1.0)], [rates(1.3), rates(1.3)])
    assert (one.before, one.after) == ("1 ×", "1.30 ×")
    assert slower([rates(1.0)], [rates(1.05)]) == ()
    assert slower([rates(1.0)], [None]) == ()
