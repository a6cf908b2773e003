"""Imported by a program of which several are started at once: it goes on once the file that TURN names exists.

Programs load their libraries meanwhile; one after the other has the GPUs. To a recorder the wait is a part of the
imports.
"""

import os
import time

if "TURN" in os.environ:
    while not os.path.exists(os.environ["TURN"]):  # noqa: PTH110  nothing but what the program imports anyway
        time.sleep(0.005)
