"""What `pinprof fix` inserts for NumPy arrays that processes hand over: their bytes go through shared memory.

multiprocessing pickles what queues, pipes and pools carry, each message for one reader. Here an array's pickle names a
file of /dev/shm, which its reader reads and unlinks. So the reader has an array of its own, as with a copy through a
pipe. Python's resource tracker unlinks what nobody read. The text below the marker is inserted as it is.
"""

# fmt: off
# ---- inserted
import itertools as _itertools
import multiprocessing.reduction as _reduction
import os as _os
from multiprocessing import resource_tracker as _tracker

import numpy as _numpy

_tracker.ensure_running()  # one for all processes
_counted = _itertools.count()


def _taken(name, dtype, shape):
    """The array that another process put into shared memory (pinprof fix)."""
    with open(f"/dev/shm/{name}", "rb", buffering=0) as file:
        _os.unlink(file.name)
        _tracker.unregister(f"/{name}", "shared_memory")
        return _numpy.fromfile(file, dtype).reshape(shape)


def _given(array):
    """How multiprocessing pickles an array: large ones go through shared memory (pinprof fix)."""
    if array.nbytes < 1 << 20 or array.dtype.kind not in "biufc" or not array.flags.c_contiguous:
        return array.__reduce__()
    name = f"pinprof-{_os.getpid()}-{next(_counted)}-{_os.urandom(4).hex()}"
    _tracker.register(f"/{name}", "shared_memory")
    try:
        with open(f"/dev/shm/{name}", "xb", opener=lambda path, flags: _os.open(path, flags, 0o600)) as file:
            file.write(array.reshape(-1).view(_numpy.uint8))
    except OSError:  # there is no room
        if _os.path.exists(f"/dev/shm/{name}"):
            _os.unlink(f"/dev/shm/{name}")
        _tracker.unregister(f"/{name}", "shared_memory")
        return array.__reduce__()
    return _taken, (name, array.dtype, array.shape)


_reduction.ForkingPickler.register(_numpy.ndarray, _given)
