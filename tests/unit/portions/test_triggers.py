"""What a flight recorder waits for: how it is written, and when it fires."""

from __future__ import annotations

import signal
from collections.abc import Iterable

import numpy as np
import pytest

from pinprof.base.errors import UsageError
from pinprof.portions.inside_kept import Called
from pinprof.portions.triggers import Crash, LookedAt, Sent, Timed, chosen, parsed

MS = 10**6


def ranges(*lengths: int, name: str = "step") -> list[Timed]:
    return [Timed(name, 1000, 1000 + length, 7) for length in lengths]


def seen(what: Iterable[Timed] = (), **others: object) -> LookedAt:
    return LookedAt(since_ns=0, until_ns=10**9, ranges=list(what), **others)  # type: ignore[arg-type]


def test_a_range_that_takes_longer_fires_and_the_longest_is_named() -> None:
    trigger = parsed("range:st*>250ms")
    assert trigger.look(seen(ranges(250 * MS))) is None
    assert trigger.look(seen(ranges(900 * MS, name="load"))) is None
    fired = trigger.look(seen(ranges(260 * MS, 312 * MS, 270 * MS)))
    assert fired is not None
    assert (fired.said, fired.moment_ns, fired.pid) == ("step took 312 ms, above 250 ms", (1000, 1000 + 312 * MS), 7)


def test_a_range_is_compared_with_those_of_its_name_before() -> None:
    trigger = parsed("range:*>p99")
    assert trigger.look(seen(ranges(*[10 * MS] * 199, 5000 * MS))) is None, "too few are known"
    assert trigger.look(seen(ranges(5 * MS, 10 * MS))) is None
    fired = trigger.look(seen(ranges(11 * MS)))
    assert fired is not None
    assert fired.said.startswith("step took 11 ms, above its p99, 10")
    assert trigger.look(seen(ranges(5000 * MS, name="load"))) is None, "another name has its own"


def test_a_multiple_of_the_p99_lets_what_is_usual_pass() -> None:
    trigger = parsed("range:step>2xp99")
    assert trigger.look(seen(ranges(*[10 * MS] * 300, 19 * MS))) is None
    fired = trigger.look(seen(ranges(25 * MS)))
    assert fired is not None
    assert "above 2 times its p99, 2" in fired.said


def test_names_beyond_the_number_that_is_followed_are_left_out() -> None:
    trigger = parsed("range:*>p99")
    for number in range(1000):
        trigger.look(seen(ranges(MS, name=f"step {number}")))
    assert trigger.look(seen(ranges(*[MS] * 300, 900 * MS, name="one more"))) is None


@pytest.mark.parametrize(
    ("text", "waited", "who"),
    [("psi:memory>10%", "memory some", "some"), ("psi:io.full>10%", "io full", "all")],
)
def test_pressure_is_a_share_of_the_time_since_the_look_before(text: str, waited: str, who: str) -> None:
    trigger = parsed(text)
    assert trigger.look(seen()) is None, "a kernel that does not count it"
    assert trigger.look(seen(stalled_ns={waited: 100 * MS})) is None
    assert trigger.look(seen(stalled_ns={"cpu some": 900 * MS})) is None
    fired = trigger.look(seen(stalled_ns={waited: 250 * MS}))
    assert fired is not None
    assert fired.said == f"{who} threads waited for {waited.split()[0]} for 25 % of 1 s, above 10 %"
    assert fired.moment_ns == (0, 10**9)


def test_pinned_memory_fires_when_it_comes_to_be_too_much_and_not_while_it_is() -> None:
    trigger = parsed("pinned>4GiB")
    assert [trigger.look(seen(pinned_bytes=size << 30)) is not None for size in (4, 5, 6, 3, 5)] == [
        False, True, False, False, True,
    ]  # fmt: skip


def test_a_signal_and_the_end_by_one() -> None:
    fired = parsed("signal:usr2").look(seen(signals=frozenset({signal.SIGUSR2})))
    assert fired is not None
    assert fired.said == "SIGUSR2 arrived"
    assert parsed("signal:SIGUSR1").look(seen(signals=frozenset({signal.SIGUSR2}))) is None
    crashed = parsed("crash").look(seen(ended_by=11))
    assert crashed is not None
    assert crashed.said == "the program was ended by SIGSEGV"
    assert parsed("crash").look(seen()) is None


def test_of_a_running_program_neither_ranges_nor_its_end_are_known() -> None:
    assert list(map(type, chosen((), running=False))) == [Sent, Crash]
    assert list(map(type, chosen((), running=True))) == [Sent]
    for text in ("range:step>1s", "crash"):
        assert len(chosen((text, "signal:USR1"), running=False)) == 2
        with pytest.raises(UsageError, match="needs a program that pinprof has started"):
            chosen((text, "signal:USR1"), running=True)


def test_a_call_that_took_longer_is_told_by_its_name_and_pins_by_what_they_do() -> None:
    names = ("cuMemHostAlloc", "cuMemcpyHtoD", "cuMemHostRegister")
    long = np.array([300, 400, 20, 350]) * MS
    calls = Called(7, names, np.array([0, 1, 2, 2]), np.full(4, 5 * MS), 5 * MS + long)
    told = [parsed(text).look(seen(calls=[calls])) for text in ("call:pin>250ms", "call:cuMemcpy*>250ms", "call:*>1s")]
    assert [one and one.said for one in told] == [
        "a call of cuMemHostRegister took 350 ms, above 250 ms",
        "a call of cuMemcpyHtoD took 400 ms, above 250 ms",
        None,
    ]  # fmt: skip
    assert told[0] is not None
    assert (told[0].moment_ns, told[0].pid) == ((5 * MS, 355 * MS), 7)
    with pytest.raises(UsageError, match="needs a program that pinprof has started"):
        chosen(("call:pin>1s",), running=True)


@pytest.mark.parametrize("text", ["range:step", "call:pin", "psi:memory", "pinned"])
def test_a_limit_that_the_shell_took_is_asked_for_in_quotes(text: str) -> None:
    with pytest.raises(UsageError, match="in quotes") as refused:
        parsed(text)
    parsed(str(refused.value).rpartition("--trigger '")[2].split("'")[0])


@pytest.mark.parametrize(
    "text",
    ["", "step>250ms", "range:>250ms", "range:step>", "psi:disk>1%", "psi:memory.most>1%", "signal:KILL",
     "signal:USR2>1", "crash>1", "crash:x", "pinned:x>1", "range:step>0xp98"],
)  # fmt: skip
def test_what_is_no_trigger_is_told_what_is_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"trigger|not a duration"):
        parsed(text)


@pytest.mark.parametrize("text", ["range:step>fast", "psi:memory>lots", "pinned>much"])
def test_a_limit_is_of_its_kind(text: str) -> None:
    with pytest.raises(UsageError, match="is not a"):
        parsed(text)
