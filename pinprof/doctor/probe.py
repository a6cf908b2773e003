"""`python -m pinprof.doctor.probe`: tries a uprobe, in a file that nothing else uses, and ends with the errno.

In a process of its own, because definitions need a mount namespace, and so that a limit of time can end it.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile

from pinprof.collect.native import events, perf_event, tracefs
from pinprof.collect.own_processes import collector_environment
from pinprof.machine.children import Limits, ran

LIMIT_S = 20.0
_PAGE = 4096


def refusal() -> int:
    """The errno with which the kernel refuses a uprobe to a process like this one; 0 where it allows it."""
    try:
        done = ran([sys.executable, "-P", "-S", "-m", __name__], Limits(LIMIT_S), collector_environment())
    except OSError as error:
        return error.errno or errno.EPERM
    return errno.ETIMEDOUT if done.status is None else done.status


def main() -> int:
    """Define it as recordings do, open its events and close them."""
    try:
        with tempfile.NamedTemporaryFile(prefix="pinprof-") as file:
            file.write(bytes(_PAGE))
            file.flush()
            with tracefs.probes([tracefs.ProbeSite(file.name, 16)]) as points:
                for spec in events.call_events(points):
                    os.close(perf_event.open_event(spec.attr, 0, -1))
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


if __name__ == "__main__":
    sys.exit(main())
