"""What pinprof says of the GPU's work against what Nsight Systems says, and what each costs; for a machine with a GPU.

measure.py     the command: three tables, as JSON and Markdown
runs.py        one run of one program under one recorder
work.py        the GPU's work that a recording holds, pinprof's or nsys's
agreement.py, overhead.py, profilers.py   the tables
table.py       a table as Markdown
uvm_events.py  the driver's events of managed memory against CUPTI's
try_cases.py   `pinprof try` on programs with known cures
programs/      what is run
"""
