"""`pinprof dump`: what every thread of a program does now, seen without stopping it.

session.py   the steps
system.py    what /proc says of threads and processes
watched.py   one process while it is looked at
chains.py    call chains: samples of what runs, copies of stacks of what stands still
seen.py      these as a capture, with Python's functions, so that analysis gives each its cause
waits.py     whom a thread waits for, by the arguments of its system call and the lock's own memory
agent.py     what the agent knows, where the program runs under pinprof
explain.py   all of it, in words
results.py   the answer
"""

from pinprof.dump.results import Dump
from pinprof.dump.session import dump

__all__ = ["Dump", "dump"]
