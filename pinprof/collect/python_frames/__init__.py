"""CPython's frames, read from outside: which functions and lines each thread of a program is in, a thousand times a
second. `python -m pinprof.collect.python_frames` runs it; the program does nothing else than without it.

    layout.py        where an interpreter of a version keeps its threads, frames and code (3.11 to 3.15)
    memory.py        another process's memory, many places with one system call (process_vm_readv)
    code.py          a code object's name, file and lines
    interpreter.py   one process: the stack of each of its threads, now
    timeline.py      what was seen when, as the lines of `python-stacks.jsonl.gz`
    processes.py     which processes run an interpreter
    __main__.py      the process that does this: keeps the pace
    reader.py        looks at the threads of a process; names.py: what `threading` calls them
    beside.py        that process as a tool of a recording
"""

READY = "python lines: ready"
"""What the process prints when it can look."""
UNKNOWN = "python lines: unknown interpreter "
"""What it prints before the name of an interpreter that it cannot read."""
