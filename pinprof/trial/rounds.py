"""Who runs when, and when there have been enough runs.

A round is one run as it is and one run with each cure, in an order of its own that the seed decides. What slows a round
slows all of its runs, so a cure is compared within rounds: the mean of log(cured / as is), with Student's interval
around it, widened for the number of cures (Bonferroni). A cure has had enough rounds when its interval is as narrow
as wanted; whether that interval holds 1 plays no part in it, so stopping favours no verdict.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from pinprof.base import statistics
from pinprof.base.lazy_dataclass import dataclass
from pinprof.trial.result import Ratio

LEAST_ROUNDS = 6
"""An interval of fewer rounds may be narrow by chance."""
FEWEST_ROUNDS = 3
"""A ratio is given from this number of runs on: two agree too easily."""
MOST_ROUNDS = 1000
AS_IS = ""
"""Stands for the program as it is among the ids of cures."""


class Failed(Exception):
    """A run that did not do its work; the text says how, as a part of a sentence."""


@dataclass
class Pairs:
    """The runs of one cure, and those as is of the same rounds, in the measure's unit."""

    as_is: list[float] = field(default_factory=list)
    cured: list[float] = field(default_factory=list)

    def ratio(self, comparisons: int) -> Ratio | None:
        """Cured / as is with its interval; None of too few rounds."""
        if len(self.cured) < FEWEST_ROUNDS:
            return None
        estimate = statistics.paired_ratio(self.as_is, self.cured)
        if estimate is None:
            return None
        low, high = estimate.ratio_interval(1 - statistics.LEVEL / comparisons)
        return Ratio(low, estimate.ratio, high)


@dataclass
class Rounds:
    """All rounds of a trial."""

    as_is: list[float] = field(default_factory=list)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Cure → how its run failed."""
    interrupted: bool = False
    """The user ended them."""


@dataclass(frozen=True)
class Wanted:
    """When there are enough rounds."""

    error: float
    """Half the width of every interval, as a share of the ratio."""
    until: float
    """The clock's time by which the last round must have ended, in seconds."""
    seed: int
    least: int = LEAST_ROUNDS
    most: int = MOST_ROUNDS


def play(
    ids: Sequence[str], run: Callable[[str], float], wanted: Wanted, clock: Callable[[], float], run_s: float
) -> Rounds:
    """Play rounds until every cure's interval is as narrow as wanted, or no further round fits into the time.

    `run` runs the program with a cure, or `AS_IS`, and returns what was measured; it raises `Failed`, which ends the
    rounds of that cure; that of the program as it is ends the trial. What was played before KeyboardInterrupt stays.
    `run_s` is how long a run takes, as those before said. The first round is played however long it takes.
    """
    order = random.Random(wanted.seed)
    rounds = Rounds(pairs={name: Pairs() for name in ids})
    left = list(ids)
    began, runs = clock(), 0
    while left and len(rounds.as_is) < wanted.most:
        if rounds.as_is and clock() + run_s * (len(left) + 1) > wanted.until:
            break
        players = [AS_IS, *left]
        order.shuffle(players)
        try:
            _note(_round(players, run, rounds.failed), rounds)
        except KeyboardInterrupt:
            if not rounds.as_is:
                raise
            rounds.interrupted = True
            break
        runs += len(players)
        run_s = (clock() - began) / runs
        left = [
            name for name in left if name not in rounds.failed and not _enough(rounds.pairs[name], len(ids), wanted)
        ]
    return rounds


def _round(players: Sequence[str], run: Callable[[str], float], failed: dict[str, str]) -> Mapping[str, float]:
    values = {}
    for name in players:
        try:
            values[name] = run(name)
        except Failed as error:
            if name == AS_IS:
                raise
            failed[name] = str(error)
    return values


def _note(values: Mapping[str, float], rounds: Rounds) -> None:
    rounds.as_is.append(values[AS_IS])
    for name, value in values.items():
        if name != AS_IS:
            rounds.pairs[name].as_is.append(values[AS_IS])
            rounds.pairs[name].cured.append(value)


def _enough(pairs: Pairs, comparisons: int, wanted: Wanted) -> bool:
    if len(pairs.cured) < wanted.least:
        return False
    ratio = pairs.ratio(comparisons)
    return ratio is not None and ratio.error <= wanted.error
