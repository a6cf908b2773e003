"""The agent: a library inside the recorded program that sees CUDA's calls and large memory (agent.c says how).

    agent.c      wrappers, and what dlsym and cuGetProcAddress answer
    agent.h      what the parts share; the layout of the file
    calls.h      what is recorded of a call
    host_memory.h  large memory of the host: who makes it, who gives it back
    mappings.h   mapped files, and what the driver maps
    late.h       how it comes into a process that runs already
    site.h       who called: native.h, return addresses; python.h, frames of CPython 3.11 to 3.15
    file.h       the mapped file of a process
    functions.h  the functions, written by tools/agent_functions.py

`machine/libraries.py` builds it, `collect/inside.py` puts it into a program, `read/inside/` reads what it writes.
"""
