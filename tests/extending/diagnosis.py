from pinprof.analyze.rules.needs import KERNEL_CAUSES
from pinprof.analyze.rules.rule import Rule, Verdict, View, clear, fired, percent

TIDYING = 0.2
"""Of the time: more stands out."""


def tidying(view: View) -> Verdict:
    scope, share = view.worst("free.unmap")
    evidence = f"{scope.states('free.unmap', share)}; threshold {percent(TIDYING)}."
    if share >= TIDYING:
        stake = view.sampled_stake(share * scope.part.total)
        title, advice = "Tidying up takes a large part of the time.", "Keep the memory for the next use."
        return fired(title, evidence, advice=advice, stake=stake)
    return clear("Tidying up does not stand out.", evidence)


RULE = Rule("tidying", tidying, KERNEL_CAUSES)
