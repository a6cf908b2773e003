"""NVTX ranges of any program without nsys: the agent, which NVTX itself loads into the program, and its environment.

Files that the agent writes (`inside/nvtx.c`) are read by `read/nvtx/injection.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pinprof.base.errors import PinprofError
from pinprof.collect import cuda_traced
from pinprof.collect.collector import Collector, Setup, Tool
from pinprof.machine.libraries import INSIDE
from pinprof.streams import store

LIBRARY_VARIABLE = "NVTX_INJECTION64_PATH"
"""Environment variable of NVTX itself: the library to load."""
FOLDER_VARIABLE = "PINPROF_NVTX"
"""Environment variable: where the library writes, an absolute path."""


def _join(setup: Setup) -> Sequence[Tool]:
    """Put the library into the program's environment, or note why not; unless a collector records NVTX itself.

    A process that records itself has loaded NVTX already.
    """
    given = os.environ.get(LIBRARY_VARIABLE)
    # Under another pinprof, both variables are that one's.
    nested = setup.environment.pop(FOLDER_VARIABLE, None) is not None
    if setup.request.own_process or cuda_traced(setup.request):
        return []
    if given is not None and not (nested and Path(given).name.startswith(INSIDE.prefix)):
        reason = f"{LIBRARY_VARIABLE} is set, so NVTX ranges go to that library and not into the capture."
    else:
        try:
            library, folder = setup.agent(store.NVTX)
        except PinprofError as error:
            reason = f"NVTX ranges are not recorded: {error}"
        else:
            setup.environment.update({LIBRARY_VARIABLE: str(library), FOLDER_VARIABLE: str(folder)})
            return []
    if not setup.request.region_only:  # a scenario writes its ranges itself
        setup.notes.append(reason)
    return []


COLLECTOR = Collector(_join, lost="NVTX ranges are not recorded")
