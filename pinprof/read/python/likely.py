"""Which stack samples between two looks belong to, by the time to these looks and by what the samples called.

Two looks that agree do not say that a thread was in one place between them: a function may have returned and been
called again. How long a thread stays in a stack shows in looks that follow each other: they come at random times, so
any two are as far apart as can be, and agree less, the longer they are. A thread stays where a look saw it for a time
`tau` on average, and is then in any of the stacks that looks around then saw, as often as they did.

What a sample called tells more. Samples next to a look were in its stack, so they show which functions each stack
calls. Few samples are that near, so a function that was hardly seen counts as its callers do, as far as the
interpreter.

Together they give each sample a chance for each stack. Each stack has as many samples of a clock as are nearest to its
looks: these sums are right, since looks come at random times. Other events, such as faults, may come in one stack
alone, however many looks see others near them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pinprof.base.columns import numbered, numbered_pairs, pack, unpack
from pinprof.data.model import Bool, Int32, Int64

Float = NDArray[np.float64]

_NEAR = 0.2
"""A sample is next to a look if less than this part of `tau` lies between them."""
_AROUND = 32
"""Looks before and after, which say which stacks a thread took turns in."""
_CALLERS_WEIGHT = 2.0
"""How many samples the callers of a function are worth, beside those of the function itself."""
_SUMS_STEPS = 8
_MOST_SUMS = 8.0
"""How many times more samples of a stack the sums may make of those that the probabilities give."""
_TAUS = 2.0 ** np.arange(-4, 12)
"""Periods of looks among which `tau` is."""
_OTHERS = 2
"""Stacks besides those of the two looks: those that call most often what the sample called."""
_BLOCK = 1 << 17
"""Samples at a time: sums are right within each block, and memory is bounded."""


class Gaps(NamedTuple):
    """Samples of one thread that lie between two looks: columns of one length, in order."""

    before: NDArray[np.intp]
    """The number of the look before it,"""
    since: Int64
    """and how long ago that was, in ns of the thread's own time."""
    until: Int64
    """The same to the look after it."""
    called: Int64
    """The number of what it called (`ThreadSamples.run_called`)."""
    clock: Bool
    """Whether a clock took it, so that it says how long the thread was where."""

    def take(self, rows: NDArray[np.intp] | Bool | slice) -> Gaps:
        """Some of them."""
        return Gaps(self.before[rows], self.since[rows], self.until[rows], self.called[rows], self.clock[rows])


class LookTimes:
    """The looks at one thread while it ran, in its own time: how long it stays in a stack, and what it does then."""

    def __init__(self, time: Int64, saw: Int32, stretch: NDArray[np.intp], period_ns: int) -> None:
        """Per look, in order: ns of the thread's own time, the stack it saw, and the stretch between two waits that it
        is in. `period_ns`: between two looks, as they are planned.
        """
        self.saw = saw
        number = np.arange(len(saw))
        self._keys = np.sort(pack(saw, number))
        self._pairs, self.pair = numbered_pairs(saw[:-1], saw[1:])
        """Per look but the last a number of what it and the next one saw: equal ones for equal stacks."""
        self._same = self._share(number - _AROUND, number + _AROUND + 1, saw)
        """Per look the part of the looks around it that saw the same."""
        within = stretch[1:] == stretch[:-1]
        by_chance = np.clip(self._same[:-1], 0.001, 0.999)[within]
        self.tau_ns = _fitted(np.diff(time)[within], (saw[1:] == saw[:-1])[within], by_chance, period_ns)

    def _share(self, first: NDArray[np.intp], end: NDArray[np.intp], stack: Int32) -> Float:
        """The part of these looks that saw a stack."""
        first, end = np.maximum(first, 0), np.minimum(end, len(self.saw))
        count = np.searchsorted(self._keys, pack(stack, end)) - np.searchsorted(self._keys, pack(stack, first))
        return np.asarray(count / np.maximum(end - first, 1))

    def _on_both_sides(self, before: NDArray[np.intp], stack: Int32) -> Float:
        """The part of the looks before a gap that saw a stack, or of those after it: the smaller one. What a thread
        does no longer, or not yet, it does not do between.
        """
        after = before + 1
        return np.minimum(self._share(after - _AROUND, after, stack), self._share(after, after + _AROUND, stack))

    def is_near(self, gaps: Gaps) -> Bool:
        """Which samples are next to a look."""
        return np.asarray(np.minimum(gaps.since, gaps.until) <= _NEAR * self.tau_ns)

    def nearest(self, gaps: Gaps) -> Int32:
        """The stack that the nearer look saw."""
        return self.saw[gaps.before + (gaps.until < gaps.since)]

    def saw_both(self, pair: Int64) -> tuple[Int32, Int32]:
        """Per number of a pair what its looks saw."""
        first, second = unpack(self._pairs[pair])
        return first.astype(np.int32), second.astype(np.int32)

    def chances(self, gaps: Gaps, alike: Int64, stacks: Int32) -> Float:
        """Per column of `stacks` and sample how probable that stack is by time alone, up to a factor that all stacks of
        a sample share; `alike` is the sample's row. A stack that comes twice has 0 then.
        """
        stayed, stays = np.exp(-gaps.since / self.tau_ns), np.exp(-gaps.until / self.tau_ns)
        left, then = 1 - stayed, (1 - stays) * self._same[gaps.before + 1]
        agree = (stacks[0] == stacks[1])[alike]
        chance = np.empty((len(stacks), len(alike)))
        chance[0] = (stayed + left * self._same[gaps.before]) * (stays * agree + then)
        chance[1] = np.where(agree, 0, left * self._same[gaps.before + 1] * (stays + then))
        for number in range(2, len(stacks)):
            rows = np.flatnonzero((stacks[:number] != stacks[number]).all(axis=0)[alike])
            chance[number] = 0
            chance[number, rows] = (
                left[rows] * self._on_both_sides(gaps.before[rows], stacks[number][alike[rows]]) * then[rows]
            )
        return chance


def _fitted(apart: Int64, same: Bool, by_chance: Float, period_ns: int) -> float:
    """How long a thread stays in a stack on average: what explains best which looks agree."""
    best, most = float(_TAUS[-1] * period_ns), -np.inf
    for tau in _TAUS[::-1] * period_ns:
        agree = np.exp(-apart / tau)
        agree = np.clip(agree + (1 - agree) * by_chance, 1e-9, 1 - 1e-9)
        said = float(np.log(np.where(same, agree, 1 - agree)).sum())
        if said > most:
            best, most = float(tau), said
    return best


class CallHabits:
    """Which stacks call which functions, by samples next to a look."""

    def __init__(self, callers: Int64, seen: list[tuple[Int64, Int32]]) -> None:
        """`callers`: per number of what a sample called, the number without its innermost function, -1 for none; per
        thread what samples next to a look called, and the stack of that look.
        """
        self._callers = callers
        called = _itself(np.concatenate([np.zeros(0, np.int64), *(of for of, _ in seen)]))
        stack = np.concatenate([np.zeros(0, np.int32), *(of for _, of in seen)])
        self._stacks, all_of = np.unique(stack, return_counts=True)
        self._part = (all_of + 0.5) / (all_of.sum() + 0.5 * (len(all_of) + 1))
        keys, count = np.unique(pack(called, stack), return_counts=True)
        every, counts = [keys], [count]
        while len(keys):
            called, stack = unpack(keys)
            called = self._above(called)
            keys, count = pack(called, stack)[called >= 0], count[called >= 0]
            every.append(keys)
            counts.append(count)
        self._keys, place = np.unique(np.concatenate(every), return_inverse=True)
        self._count = np.bincount(place.reshape(-1), np.concatenate(counts), minlength=len(self._keys))
        functions, _ = unpack(self._keys)
        self._functions, place = np.unique(functions, return_inverse=True)
        self._all = np.bincount(place.reshape(-1), self._count, minlength=len(self._functions))
        order = np.lexsort((-self._count, functions))
        self._first = np.searchsorted(functions[order], self._functions)
        self._by_count = unpack(self._keys)[1][order].astype(np.int32)
        self._functions_of = functions[order]

    def _above(self, called: Int64) -> Int64:
        """What counts where too little is known: with a function itself, all that it called; then its caller."""
        function = called >> 1
        caller = np.append(self._callers, -1)[np.clip(function, -1, len(self._callers))]
        return np.where(called & 1, called - 1, np.where(caller < 0, -1, 2 * caller))

    def most_often(self, called: Int64, rank: int, otherwise: Int32) -> Int32:
        """The stack that calls a function most often (rank 0), or next to it."""
        if not len(self._functions):
            return otherwise
        called = _itself(called)
        number = np.minimum(np.searchsorted(self._functions, called), len(self._functions) - 1)
        place = np.minimum(self._first[number] + rank, len(self._by_count) - 1)
        known = (self._functions[number] == called) & (self._functions_of[place] == called)
        return np.where(known, self._by_count[place], otherwise).astype(np.int32)

    def odds(self, called: Int64, stack: Int32) -> Float:
        """How many times more often than others each stack calls the function of its column."""
        pairs, which = numbered_pairs(np.broadcast_to(_itself(called), stack.shape).reshape(-1), stack.reshape(-1))
        functions, stacks = unpack(pairs)
        levels = [functions]
        while (levels[-1] >= 0).any():
            levels.append(np.where(levels[-1] >= 0, self._above(levels[-1]), -1))
        usual = _looked_up(self._stacks, self._part, stacks, float(self._part.min(initial=1.0)))
        part = usual.copy()
        for level in levels[::-1]:
            count = _looked_up(self._keys, self._count, pack(np.maximum(level, 0), stacks)) * (level >= 0)
            total = _looked_up(self._functions, self._all, level)
            part = (count + _CALLERS_WEIGHT * part) / (total + _CALLERS_WEIGHT)
        return np.asarray((part / usual)[which].reshape(stack.shape))


def _itself(called: Int64) -> Int64:
    """The number of samples in a function itself; the even number before it has all that it called, too."""
    return 2 * called + 1


def _looked_up(keys: Int32 | Int64, values: NDArray[Any], wanted: Int64, missing: float = 0.0) -> Float:
    """The value of each wanted key; keys ascend."""
    if not len(keys):
        return np.full(len(wanted), missing)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], missing)


def likely_stacks(gaps: Gaps, looks: LookTimes, calls: CallHabits) -> Int32:
    """The stack of each sample."""
    blocks = [gaps.take(slice(start, start + _BLOCK)) for start in range(0, len(gaps.since), _BLOCK)]
    return np.concatenate([np.zeros(0, np.int32), *(_likely(block, looks, calls) for block in blocks)])


def _likely(gaps: Gaps, looks: LookTimes, calls: CallHabits) -> Int32:
    """Alike are samples that called the same between looks at the same: they have the same stacks to choose from."""
    keys, alike = numbered_pairs(gaps.called, looks.pair[gaps.before])
    called, pair = unpack(keys)
    first, second = looks.saw_both(pair)
    stacks = np.stack([first, second, *(calls.most_often(called, rank, first) for rank in range(_OTHERS))])
    chance = looks.chances(gaps, alike, stacks)
    chance *= calls.odds(called, stacks)[:, alike]
    chance = _with_sums(chance, stacks, alike, gaps)
    return np.asarray(stacks[_chosen(chance, alike), alike])


def _chosen(chance: Float, alike: Int64) -> NDArray[np.intp]:
    """One column for each sample: among those that are alike, each has as many as its chances add up to, where it has
    most.

    To take whatever is likeliest would be right more often and wrong in sum: what two lines call, one would have alone.
    """
    chosen = np.full(chance.shape[1], -1)
    for column, mine in enumerate(chance):
        many = np.diff(np.floor(np.cumsum(np.bincount(alike, mine)) + 0.5), prepend=0)
        open_ = np.flatnonzero((chosen < 0) & (mine > 0))
        left = np.bincount(alike[open_], minlength=len(many))
        chosen[open_[(left <= many)[alike[open_]]]] = column
        open_ = open_[((left > many) & (many > 0))[alike[open_]]]
        open_ = open_[np.lexsort((-mine[open_], alike[open_]))]
        ordered = alike[open_]
        rank = np.arange(len(open_)) - np.searchsorted(ordered, np.arange(len(many)))[ordered]
        chosen[open_[rank < many[ordered]]] = column
    return np.where(chosen < 0, chance.argmax(axis=0), chosen)


def _with_sums(chance: Float, stacks: Int32, alike: Int64, gaps: Gaps) -> Float:
    """Chances that add up to 1 per sample, and for a clock's samples to the sums of the nearest looks per stack."""
    known, number = numbered(stacks.reshape(-1))
    number = number.reshape(stacks.shape)
    of_clock, mine = chance[:, gaps.clock], number[:, alike[gaps.clock]]
    later, by_sample = gaps.until < gaps.since, mine.T.reshape(-1)
    wanted = np.bincount(np.where(later[gaps.clock], mine[1], mine[0]), minlength=len(known))
    factor = np.ones(len(known))
    for _ in range(_SUMS_STEPS if mine.shape[1] else 0):
        now = of_clock * factor[mine]
        now /= np.maximum(now.sum(axis=0), 1e-300)
        sums = np.bincount(by_sample, now.T.reshape(-1), minlength=len(known))
        factor = np.clip(factor * (wanted + 0.5) / (sums + 0.5), 1 / _MOST_SUMS, _MOST_SUMS)
    chance *= factor[number][:, alike]
    return np.asarray(chance / np.maximum(chance.sum(axis=0), 1e-300))
