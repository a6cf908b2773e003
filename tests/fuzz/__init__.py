"""The structure-aware fuzzer: every format that pinprof reads, and every file of a capture.

    python -m tests.fuzz --inputs 1000000     (make fuzz N=1000000)

`targets.py` what is damaged, from which seeds and how; `change_*.py` how; `check.py` what must hold whatever the bytes
are; `workers.py` processes that run inputs; `keep.py` inputs as files. An input is a function of the seed of a run and
of its number.
"""
