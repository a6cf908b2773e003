"""A scenario of pinprof as a program: `scenario.py NAME --size-bytes=… --iterations=…`."""

import runpy
import sys
import time

from say import say

begun = time.monotonic_ns()
sys.argv[0] = "pinprof.scenario"
try:
    runpy.run_module("pinprof.scenario", run_name="__main__")
finally:
    say(1, time.monotonic_ns() - begun)
