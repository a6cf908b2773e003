"""Cures proven: alternating runs of a program with and without each cure that needs no code changes.

cures.py        what can be tried, as rows
environment.py  a program's environment with a cure: what the user has set stays
processes.py    one run of the program, and how it ended
measure.py      what is compared: wall time, a phase, a range, a number that the program prints, memory
recorded.py     one run under `pinprof record`, and what its opportunities select and predict
rounds.py       who runs when, and when there have been enough runs
session.py      the whole trial, from the first run to the result
result.py       the result
"""
