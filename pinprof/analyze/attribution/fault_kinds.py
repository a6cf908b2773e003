"""Which row's a page fault is, where its handler alone does not say it: by all that ran during faults of one place.

The kernel handles the first write to a page in one function, whatever the page is: one of zeros that was only read so
far, one that a fork shares, one of a file. What it does then tells them apart, and only some samples see that: it
clears a new page, copies the old one, or asks the file system. Compilers also inline the handlers of files' pages into
one. So the samples of one handler, called from one place, decide together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pinprof.analyze.attribution.tables import RuleTables
from pinprof.data.model import NO_NODE, Int16, Int64, StackTable

if TYPE_CHECKING:
    from pinprof.analyze.attribution.attribute import AttributedStacks

LEAST_SHOWN = 0.2
"""The share of the samples that show a row, of those that show any: kernels that clear all memory they allocate do so
before they copy a page, too."""

LEAST_OF_ALL = 0.1
"""The share of all samples of a handler, where nothing shows its own row: to copy takes a third of what such faults
cost."""


def by_what_faults_do(stacks: StackTable, of: AttributedStacks, samples: Int64, tables: RuleTables) -> Int16:
    """The leaves of stack nodes, with those of faults that another row has; `samples` is how many end at each node.

    Handlers during which nothing telling was sampled are like all others of their row.
    """
    leaf = of.leaf.copy()
    for name, rows in tables.taken().items():
        nodes = np.flatnonzero((of.leaf == name) & (of.decided != NO_NODE))
        if not len(nodes):
            continue
        handlers, which = np.unique(of.decided[nodes], return_inverse=True)
        found = np.array([_beneath(stacks, np.where(of.shown & bit > 0, samples, 0))[handlers] for _, bit in rows])
        least = LEAST_SHOWN * found.sum(axis=0)
        if any(row == name for row, _ in rows):
            # What the same handler did elsewhere is better than nothing.
            found = np.where(least > 0, found, found.sum(axis=1, keepdims=True))
            least = LEAST_SHOWN * found.sum(axis=0)
        else:
            least = LEAST_OF_ALL * _beneath(stacks, samples)[handlers]
        enough = (found > 0) & (found >= least)
        taken = np.array([row for row, _ in rows], np.int16)[np.argmax(enough, axis=0)]
        leaf[nodes] = np.where(enough.any(axis=0), taken, np.int16(name))[which]
    return leaf


def _beneath(stacks: StackTable, samples: Int64) -> Int64:
    """Per node how many of these samples end there or further in."""
    sums = samples.copy()
    for nodes in reversed(list(stacks.levels())[1:]):
        np.add.at(sums, stacks.parent[nodes], sums[nodes])
    return sums
