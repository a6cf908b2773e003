"""The native collector: perf_event_open(2) from Python, records straight from the kernel's rings into perf.data.

    perf_event.py   the system call, its structure and ioctls
    events.py       which events are opened
    ring.py         reading a ring in place
    perf_file.py    the file
    existing.py     records of what existed before: processes, mappings, the kernel
    sampler.py      opens, reads, writes; a process of its own (`python -m pinprof.collect.native`)
    attached.py     that process as a recording tool

It needs the standard library only, and no compiler.
"""
