"""What of a run its recording does not hold: said above every answer, and in the exit status where it is damaged.

Each function of `GAPS` looks at one kind. What cannot change an answer is counted under data quality alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pinprof.analyze.evidence import SHARE_ERROR
from pinprof.base.lazy_dataclass import dataclass
from pinprof.base.units import format_count, format_counted, format_ns, format_share
from pinprof.data.model import Capture

LEAST = 0.05
"""Of samples or calls."""
LEAST_UNKNOWN = 0.2
"""Of stacks, where it is not known that they end early."""
LEAST_TIME = 0.01
"""Damaged durations of a smaller part of the GPU's time change no figure that is shown."""


@dataclass(frozen=True)
class Gap:
    """One thing that is missing."""

    kind: str
    """`damaged, durations, unfinished, lost, lost-calls, clock, stacks, children, outlived, thinned, timers`,
    `unsampled, switches`."""
    text: str
    """One sentence or two."""
    damaged: bool = False
    """Whether what was recorded is not what was written: a command that reads it fails."""
    hides: bool = False
    """Whether costs may be in what is missing: nothing is called low then."""


def gaps_of(capture: Capture) -> tuple[Gap, ...]:
    """All gaps of a recording, damage first."""
    return tuple(gap for look in GAPS for gap in look(capture))


def hides_costs(capture: Capture) -> bool:
    """Whether what is missing may hold costs."""
    return any(gap.hides for gap in gaps_of(capture))


def possible_durations(capture: Capture) -> bool:
    """Whether durations of GPU work are as they can be, but for a trifle."""
    return not any(_durations(capture))


def _damaged(capture: Capture) -> Iterator[Gap]:
    for sentence in capture.losses.damage:
        yield Gap(
            "damaged", f"The recording is damaged: {sentence[:1].lower()}{sentence[1:]}", damaged=True, hides=True
        )


def _durations(capture: Capture) -> Iterator[Gap]:
    activity = capture.activity
    if activity is None or not len(activity.gpu_ops):
        return
    count, ns, whole = activity.impossible
    if count and ns > LEAST_TIME * whole:
        what = format_counted(count, "piece of GPU work overlaps", "pieces of GPU work overlap")
        text = f"The recording is damaged: {what} later work of the same stream, so the GPU's times can't be trusted."
        yield Gap("durations", text, damaged=True)


def _unfinished(capture: Capture) -> Iterator[Gap]:
    state = capture.manifest.outcome.get("state")
    if state == "failed":
        yield Gap("unfinished", "The recording failed before the program ended: what came later is missing.")
    elif state in ("interrupted", "recording"):
        yield Gap("unfinished", "The recording was interrupted: what came later is missing.")


def _lost(capture: Capture) -> Iterator[Gap]:
    lost, kept = capture.losses.lost_samples, len(capture.samples)
    if lost > LEAST * (lost + kept):
        share = format_share(lost, lost + kept)
        yield Gap("lost", f"{share} of the samples were lost: shares and times are less certain.", hides=True)
    activity = capture.activity
    if activity is not None and activity.lost_calls > LEAST * (activity.lost_calls + len(activity.calls)):
        what = format_counted(activity.lost_calls, "CUDA call is", "CUDA calls are")
        yield Gap("lost-calls", f"The records of {what} lost: there were more than are shown.")


def _jumps(capture: Capture) -> Iterator[Gap]:
    for sentence in capture.losses.jumps:
        yield Gap("clock", sentence)


def _stacks(capture: Capture) -> Iterator[Gap]:
    """Stacks whose outermost callers are missing: time of a function is then counted without who called it."""
    if not capture.kernel_chains:
        return  # Calls answer then, not samples.
    cut, count = capture.losses.truncated_chains, len(capture.samples)
    why = "as long as the recorder allows"
    for collector in capture.manifest.collectors:
        stacks = collector.get("stacks")
        if isinstance(stacks, Mapping):
            short, copied, least = _short_copies(stacks)
            if short > least * copied and short > cut:
                cut, count, why = short, copied, "longer than what the recorder copied of it"
    if cut > SHARE_ERROR * count:
        share = format_share(cut, count)
        yield Gap(
            "stacks",
            f"The stack is {why} in {share} of the samples, so functions that called the others are missing there.",
        )


def _switches(capture: Capture) -> Iterator[Gap]:
    """Recording waits keeps a thread at each switch: no wait has that time, but samples of CPU time do."""
    losses, times = capture.losses, capture.samples.time_ns
    if not losses.paused_ns and not losses.switching_ns:
        return
    clocks = [place for place, event in enumerate(capture.events) if event.clocks]
    spent = max((int(capture.weight_at[place].sum()) for place in clocks), default=0)
    whole = int(times[-1] - times[0]) if len(times) else 0
    if losses.paused_ns > LEAST * whole > 0:
        sampled = format_share(max(whole - losses.paused_ns, 0), whole)
        yield Gap(
            "switches",
            f"Threads switched so often that pinprof took stacks in only {sampled} of the time. Times are complete;"
            " what took them is estimated from that part. Record with --no-off-cpu to sample CPU time throughout.",
        )
    elif losses.switching_ns > LEAST * spent > 0:
        taken = format_ns(losses.switching_ns)
        yield Gap(
            "switches",
            f"Recording what threads wait for took at least {taken} of the {format_ns(spent)} of CPU time."
            " Record with --no-off-cpu to see the program without it.",
        )


def _short_copies(stacks: Mapping[str, object]) -> tuple[int, int, float]:
    """Copies that end before their stack, of how many, and the share from which on that matters."""
    samples, whole, further, copied, cut = (
        _count(stacks.get(name)) for name in ("samples", "complete", "continued", "copied", "cut")
    )
    if copied:
        return cut, copied, SHARE_ERROR
    # Older recordings count whatever is not known to be whole, and waits, of which little is copied.
    return samples - whole - further, samples, LEAST_UNKNOWN


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _processes(capture: Capture) -> Iterator[Gap]:
    said = capture.manifest.outcome.get("incomplete")
    for kind in ("children", "outlived"):
        if isinstance(said, Mapping) and isinstance(text := said.get(kind), str) and text:
            yield Gap(kind, text, hides=True)


def _thinned(capture: Capture) -> Iterator[Gap]:
    for collector in capture.manifest.collectors:
        thinned = collector.get("thinned")
        if isinstance(thinned, Mapping) and (one_in := _count(thinned.get("one_in"))) > 1:
            joined = format_ns(_count(thinned.get("joined_ns")))
            text = (
                f"The recording was thinned to stay within its size: at its end it keeps one in {format_count(one_in)} "
                f"samples, and joins waits shorter than {joined}. Totals stay complete."
            )
            yield Gap("thinned", text)


def _timers(capture: Capture) -> Iterator[Gap]:
    if any(event.inferred for event in capture.events):
        yield Gap(
            "timers",
            "CPU time was sampled by timers inside the program: what the kernel did is estimated from the instruction "
            "that led there. Waits for a processor, a child process, a lock, a pipe or a socket are recorded.",
        )


def _unsampled(capture: Capture) -> Iterator[Gap]:
    for sentence in capture.losses.unsampled:
        yield Gap("unsampled", sentence, hides=True)


GAPS: tuple[Callable[[Capture], Iterator[Gap]], ...] = (
    _damaged, _durations, _unfinished, _processes, _lost, _jumps, _stacks, _thinned, _timers, _unsampled,
    _switches,
)  # fmt: skip
"""In the order in which they are shown."""
