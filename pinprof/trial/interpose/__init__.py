"""Libraries that a tried program loads (LD_PRELOAD): the same calls, answered from other memory.

scope.h   which processes of a run a library acts in, and where it says what it did
memory.c  large blocks of malloc from huge pages that are kept; mapped files whose pages are mapped at once
cuda.c    pinned memory from touched huge pages and pools; copies of pageable memory by way of pinned memory
"""
