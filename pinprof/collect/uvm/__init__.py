"""Managed memory without CUPTI: the driver's own events, of a program that pinprof starts or that runs already.

    driver.py       /dev/nvidia-uvm-tools: ioctls, the event queue, the counters
    descriptors.py  which descriptors of /dev/nvidia-uvm a program has, and copies of them
    source.py       one address space: from its queue into a file of the capture, within a budget
    __main__.py     the process that follows all address spaces of a program
    beside.py       that process as a tool of a recording

`uvm_events.py` has the files' layout, `read/uvm.py` reads them.
"""

READY = "managed memory: ready"
"""What the process prints when it looks for address spaces."""
REFUSED = "managed memory: refused to "
"""What it prints before the reason why one was not followed."""
