"""A thread decodes blocks ahead; the main thread takes each from a queue and adds it up. The blocks are made first."""

import queue
import threading
import time
import zlib

import numpy as np

random = np.random.default_rng(1)
blocks = [zlib.compress(random.integers(0, 9, 400_000).astype(np.uint8).tobytes()) for _ in range(12)]
ready = queue.Queue(2)


def decode():
    for number in range(240):
        ready.put(np.frombuffer(zlib.decompress(blocks[number % len(blocks)]), np.uint8))
    ready.put(None)


threading.Thread(target=decode, daemon=True).start()
begun, total = time.monotonic(), np.zeros(9, np.int64)
while (block := ready.get()) is not None:
    total += np.bincount(block, minlength=9)
print("seconds", time.monotonic() - begun, total[0])
