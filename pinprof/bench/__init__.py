"""`pinprof bench`: what each memory operation costs on this machine, by size; pyperf underneath.

measures.py  what is measured: one row for each measure; files.py: those about files in memory
timers.py    ways to time an operation
worker.py    `python -m pinprof.bench.worker`: a process that measures what it is asked for, with pyperf.Runner
process.py   such a process seen from outside: starting it, asking it, ending it
plan.py      which measures at which sizes, and how often within the time allowed
session.py   measure() → Results: calibration in one process, values in several others
suite.py     pyperf's data: runs into a suite, a suite into rates, its stability warnings
recorded_rates.py      the rates that a recording brings
kept_rates.py          what calibrations have measured of this machine
calibration.py         some rates within seconds, after a recording
calibration_worker.py  the process that measures them, without pyperf
compare.py   two suites: ratio and significance
"""
