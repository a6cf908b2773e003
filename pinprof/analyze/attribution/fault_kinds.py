"""Which row's a page fault is, where its handler alone does not say it: by all that ran during faults of one place.

The kernel handles the first write to a page in one function, whatever the page is: one of zeros that was only read so
far, one that a fork shares, one of a file. What it does then tells them apart, and only some samples see that: it
clears a new page, copies the old one, or asks the file system. Compilers also inline the handlers of files' pages into
one. So the samples of one handler, called from one place, decide together.
"""

from __future__ import annotations

import numpy as np

from pinprof.analyze.attribution.tables import RuleTables
from pinprof.data.model import NO_NODE, Int16, Int32, Int64, UInt8

LEAST_SHOWN = 0.2
"""The share of the samples that show a row, of those that show any: kernels that clear all memory they allocate do so
before they copy a page, too."""


def by_what_faults_do(leaf: Int16, decided: Int32, shown: UInt8, samples: Int64, tables: RuleTables) -> Int16:
    """The leaves of stack nodes, with those of faults that another row has.

    `decided` is per node the one whose frame decided, `shown` the bits of `RuleTables.shown_by` on its stack, `samples`
    how many end there. Handlers during which nothing telling was sampled are like all others of their row.
    """
    leaf = leaf.copy()
    for name, rows in tables.taken().items():
        nodes = np.flatnonzero((leaf == name) & (decided != NO_NODE))
        if not len(nodes):
            continue
        handlers, of = np.unique(decided[nodes], return_inverse=True)
        found = np.array(
            [
                np.bincount(of, weights=np.where(shown[nodes] & bit > 0, samples[nodes], 0), minlength=len(handlers))
                for _, bit in rows
            ]
        )
        found = np.where(found.any(axis=0), found, found.sum(axis=1, keepdims=True))
        enough = (found > 0) & (found >= LEAST_SHOWN * found.sum(axis=0))
        taken = np.array([row for row, _ in rows], np.int16)[np.argmax(enough, axis=0)]
        leaf[nodes] = np.where(enough.any(axis=0), taken, np.int16(name))[of]
    return leaf
