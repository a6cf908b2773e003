"""Rules about pinning: what the pinning call does, and how much is pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pinprof.analyze.allocations.results import IdlePins
from pinprof.analyze.attribution.attribute import RECLAIM_IN_PIN
from pinprof.analyze.evidence import MIN_SAMPLES
from pinprof.analyze.rules.rule import Scope, Verdict, View, clear, fired, lacks, percent
from pinprof.base.units import format_bytes, format_counted, format_ns, format_share

FIRST_TOUCH_IN_PIN = 0.50
"""pin.faultin, of the pinning call."""
PINNING_CALL = 0.10
"""A range counts as a pinning call when pinning is at least this much of it."""
COMPACTION_OF_PIN = 0.10
"""Samples of reclaim or compaction inside a pin, of pinning."""
PINNED_SERVER, PINNED_DESKTOP, PINNED_CRITICAL = 0.50, 0.25, 0.80
"""The peak of pinned memory, of the machine's."""
GIANT_PIN_BYTES, FAILING_PIN_BYTES = 64 << 30, 512 << 30

LEAST_IDLE_BYTES, IDLE_SHARE = 64 << 20, 0.10
"""Pinned memory that is kept unused, and its part of the most that was pinned at once."""
GROWS = 3
"""Blocks that were made beside unused ones: from three on, what is kept grows."""
FAR_SHARE = 0.10
"""Pages on another node than the GPUs, of those that are known."""

_NAMED = 3
_DESKTOP_GPUS = ("GeForce", "TITAN")
_FEW_OF_PINNING = f"At least {MIN_SAMPLES} samples of pinning: record for longer, or with a higher --frequency."
_NO_PINNING = f"No range or recording with {percent(PINNING_CALL)} of pin.*."


def first_touch_in_pin(view: View) -> Verdict:
    """12: the pinning call creates the pages it pins."""
    calls = _pinning_calls(view)
    if not calls:
        return clear("No call spends much time pinning.", _NO_PINNING)
    scope, pinning = max(calls, key=lambda call: call[0].part.by_leaf.get("pin.faultin", 0))
    # Without ranges the call's own time is not known: pinning itself is the best measure.
    whole = scope.part.total if scope.range else pinning
    created = scope.part.by_leaf.get("pin.faultin", 0)
    measured = (
        f"pin.faultin is {format_share(created, whole)} of {scope.name if scope.range else 'pinning'}; "
        f"threshold {percent(FIRST_TOUCH_IN_PIN)}."
    )
    evidence = (measured, *_faults_of_pins(view))
    if not scope.enough(whole):
        return lacks(_FEW_OF_PINNING, *evidence)
    if created >= FIRST_TOUCH_IN_PIN * whole:
        return fired(
            "Pinning itself is cheap. This call also creates the pages, and that takes the time.",
            *evidence,
            advice="Touch the memory first, in parallel and in huge pages, then register it. Pool pinned buffers. In "
            "PyTorch, set PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True,pinned_num_register_threads:8.",
            stake=view.sampled_stake(created),
        )
    return clear("The pages existed before they were pinned.", *evidence)


def _faults_of_pins(view: View) -> Iterator[str]:
    """How often calls that pin fault, where that was recorded."""
    for call in view.traced.whole.calls if view.traced else ():
        if call.faults and call.size_bytes and call.purpose in ("alloc pinned", "register"):
            faults = format_counted(call.faults.minor + call.faults.major, "page fault", "page faults")
            count = format_counted(call.faults.calls, "call", "calls")
            yield f"{call.name} pins {format_bytes(call.size_bytes)} with {faults} in {count}."


def compaction(view: View) -> Verdict:
    """14: making room for the pages costs more than a little of pinning."""
    calls = _pinning_calls(view)
    if not calls:
        return clear("No call spends much time pinning.", _NO_PINNING)
    judged = [call for call in calls if call[0].enough(call[1])]
    if not judged:
        return lacks(_FEW_OF_PINNING)
    scope, pinning = max(judged, key=lambda call: call[0].part.inclusive[RECLAIM_IN_PIN] / call[1])
    reclaiming = scope.part.inclusive[RECLAIM_IN_PIN]
    evidence = (
        f"Reclaim or compaction runs in {format_share(reclaiming, pinning)} of pinning in {scope.name}; "
        f"threshold {percent(COMPACTION_OF_PIN)}."
    )
    if reclaiming >= COMPACTION_OF_PIN * pinning:
        return fired(
            "The kernel compacts or reclaims memory to find pages for the pin.",
            evidence,
            advice="Reserve hugetlbfs pages, or set the defragmentation of transparent huge pages to "
            "defer+madvise. Leave more memory free.",
            stake=view.sampled_stake(reclaiming),
        )
    return clear("Free pages for the pin were available.", evidence)


def _pinning_calls(view: View) -> list[tuple[Scope, int]]:
    """The scopes that count as calls that pin, each with its weight of `pin.*`; releasing pins is none of it."""
    calls = []
    for scope in view.innermost():
        pinning = sum(weight for leaf, weight in scope.part.by_leaf.items() if leaf.startswith("pin."))
        if pinning and pinning >= PINNING_CALL * scope.part.total:
            calls.append((scope, pinning))
    return calls


def over_pinned(view: View) -> Verdict:
    """16: pinned memory takes too much of the machine."""
    memory, total = view.activity.memory, view.host["memory_bytes"]
    assert memory
    desktop = any(name in str(gpu) for gpu in view.gpu_facts("name") for name in _DESKTOP_GPUS)
    limit = PINNED_DESKTOP if desktop else PINNED_SERVER
    evidence = (
        f"At most {format_bytes(memory.pinned_bytes)} pinned at once, {format_share(memory.pinned_bytes, total)} of "
        f"{format_bytes(total)} (thresholds {percent(limit)} on a {'desktop' if desktop else 'server'}, "
        f"{percent(PINNED_CRITICAL)} critical)."
    )
    if memory.pinned_bytes > limit * total:
        return fired(
            "Pinned memory leaves little memory for everything else.",
            evidence,
            advice="Limit it: stage through a ring of a few pinned buffers.",
            stake=None,
            severity="critical" if memory.pinned_bytes > PINNED_CRITICAL * total else "warning",
        )
    return clear("Pinned memory leaves enough memory for the rest.", evidence)


def giant_pin(view: View) -> Verdict:
    """17: one call pins more than it should."""
    memory = view.activity.memory
    assert memory
    evidence = (
        f"The largest pinned allocation is {format_bytes(memory.largest_pin_bytes)} (thresholds "
        f"{format_bytes(GIANT_PIN_BYTES)}, {format_bytes(FAILING_PIN_BYTES)} critical)."
    )
    if memory.largest_pin_bytes >= GIANT_PIN_BYTES:
        return fired(
            "One call pins a very large buffer.",
            evidence,
            advice="Pin in pieces of at most 64 GiB, and check every return code: drivers from 580 on fail at 512 GiB.",
            stake=None,
            severity="critical" if memory.largest_pin_bytes >= FAILING_PIN_BYTES else "warning",
        )
    return clear("No single call pins a very large buffer.", evidence)


def idle_pinned(view: View) -> Verdict:
    """Page-locked memory is kept and no longer used."""
    memory = view.activity.memory
    assert memory
    assert view.pinned
    kept = view.pinned.idle or ()
    idle = sum(one.bytes for one in kept)
    limits = f"thresholds {format_bytes(LEAST_IDLE_BYTES)} and {percent(IDLE_SHARE)}"
    whole = f"{format_bytes(idle)} of at most {format_bytes(memory.pinned_bytes)} pinned at once ({limits})."
    if idle < max(LEAST_IDLE_BYTES, IDLE_SHARE * memory.pinned_bytes):
        return clear("Pinned memory that is kept is used.", whole)
    grows = sum(one.made_beside for one in kept)
    return fired(
        "The program keeps pinned memory that no copy uses any more"
        + (", and pins more beside it." if grows >= GROWS else "."),
        *(_idle(one) for one in kept[:_NAMED]),
        whole,
        "Kernels that read the host's memory themselves are not recorded: memory for these is in use.",
        advice="Give it back, or bound what is cached: PyTorch has torch.accelerator.memory.empty_host_cache() and "
        "PYTORCH_ALLOC_CONF=pinned_max_cached_size_mb:512, CuPy cupy.get_default_pinned_memory_pool()."
        "free_all_blocks(). Sizes that repeat let a cache use its blocks again.",
        stake=None,
        severity="warning" if grows >= GROWS else "info",
    )


def _idle(one: IdlePins) -> str:
    beside = (
        f" {format_counted(one.made_beside, 'was', 'were')} made while an unused one of that size or larger was there."
        if one.made_beside
        else ""
    )
    return (
        f"{one.line or f'Process {one.pid}'} keeps {format_counted(one.count, 'block', 'blocks')} of"
        f" {format_bytes(one.bytes)} in all. No copy uses any of it in the last {format_ns(one.idle_ns)} up to the"
        f" process's last copy.{beside}"
    )


def far_node(view: View) -> Verdict:
    """Page-locked memory lies on another NUMA node than the GPU that copies it."""
    if view.one_node:
        return clear("Pinned memory lies on the node of the GPUs.", "The machine has one NUMA node.")
    assert view.pinned
    near = set(view.gpu_facts("numa_node"))
    where = "On which NUMA node the GPUs are, and one node for all: the machine does not tell, or they have several."
    if len(near) != 1 or None in near:
        return lacks(where)
    (node,) = near
    nodes = view.pinned.nodes
    far = {line: sum(size for on, size in of_line.items() if on != node) for line, of_line in nodes.items()}
    known, away = sum(sum(of_line.values()) for of_line in nodes.values()), sum(far.values())
    evidence = [
        (
            f"{format_share(away, known)} of {format_bytes(known)} of pinned memory with a known place lies"
            f" on other nodes than node {node}, where the GPUs are (threshold {percent(FAR_SHARE)})."
        )
    ]
    if not known or away < FAR_SHARE * known:
        return clear("Pinned memory lies on the node of the GPUs.", *evidence)
    evidence += [f"{line or 'An unknown line'}: {format_bytes(far[line])}." for line in _largest(far)]
    lost_ns = view.lost_on_link_ns()
    if lost_ns is None:
        evidence.append("What that costs is unknown: the GPU's copies, or the rate of its link, were not recorded.")
    else:
        evidence.append(
            f"Against the practical rate of the link, large pinned copies lose {format_ns(lost_ns)}: memory on the near"
            " node saves that at most."
        )
    return fired(
        "Pinned memory lies on another NUMA node than the GPUs.",
        *evidence,
        advice=f"Run the threads that pin on node {node}: numactl --cpunodebind={node} --membind={node}, or "
        "set_mempolicy(2) before the memory is touched.",
        stake=None if lost_ns is None else view.stake(lost_ns),
    )


def _largest(far: Mapping[str, int]) -> list[str]:
    return sorted((line for line in far if far[line]), key=lambda line: -far[line])[:_NAMED]
