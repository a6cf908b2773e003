"""The main thread waits for a helper thread that reads every batch into memory of its own."""

import mmap
import sys
import tempfile
import threading
import time
from queue import Queue

CURED = "cured" in sys.argv
SIZE, STEPS = 48 << 20, 30
buffer = mmap.mmap(-1, SIZE)
file = tempfile.TemporaryFile(buffering=0)
file.write(buffer)
orders, batches = Queue(), Queue()


def prepare():
    while orders.get():
        file.seek(0)
        if CURED:
            file.readinto(buffer)
        batches.put(buffer if CURED else file.read(SIZE))  # GUILTY


threading.Thread(target=prepare, name="prepare", daemon=True).start()
begun = time.monotonic()
for _ in range(STEPS):
    orders.put(True)
    assert batches.get()[SIZE - 1] == 0
print("seconds", time.monotonic() - begun)
