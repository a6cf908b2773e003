"""What `pinprof fix` inserts for NumPy arrays that processes hand over: their bytes go through shared memory.

multiprocessing pickles what queues, pipes and pools carry, each message for one reader. Here an array's pickle names a
file of /dev/shm, which its reader reads and unlinks. So the reader has an array of its own, as with a copy through a
pipe. Python's resource tracker unlinks what nobody read. The text below the marker is inserted as it is.
"""


# fmt: off
# ---- inserted
def _taken(name, dtype, shape):
    """The array that another process put into shared memory (pinprof fix)."""
    import os
    from multiprocessing import resource_tracker

    import numpy

    with open(f"/dev/shm/{name}", "rb", buffering=0) as file:
        os.unlink(file.name)
        resource_tracker.unregister(f"/{name}", "shared_memory")
        found = numpy.fromfile(file, dtype)
    found.shape = shape
    return found


def _given(array):
    """How multiprocessing pickles an array: large ones go through shared memory (pinprof fix)."""
    import os
    import pickle
    from multiprocessing import resource_tracker

    plain = array.dtype.kind in "biufc" and array.dtype.isnative and array.dtype.metadata is None
    if not plain or array.nbytes < 1 << 20 or not array.flags.c_contiguous:
        return array.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    name = f"pinprof-{os.getpid()}-{os.urandom(8).hex()}"
    resource_tracker.register(f"/{name}", "shared_memory")
    try:
        with open(f"/dev/shm/{name}", "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(array.reshape(-1).view("u1"))
    except OSError:  # there is no room
        if os.path.exists(f"/dev/shm/{name}"):
            os.unlink(f"/dev/shm/{name}")
        resource_tracker.unregister(f"/{name}", "shared_memory")
        return array.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    return _taken, (name, array.dtype, array.shape)


def _share_arrays():
    """Processes hand large arrays over in shared memory (pinprof fix)."""
    from multiprocessing import reduction, resource_tracker

    import numpy

    resource_tracker.ensure_running()  # one for all processes
    reduction.ForkingPickler.register(numpy.ndarray, _given)


_share_arrays()
