"""Two processes of a pool compute; the messages are small."""

import time
from concurrent.futures import ProcessPoolExecutor


def collatz(start):
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


begun = time.monotonic()
with ProcessPoolExecutor(2) as pool:
    longest = max(pool.map(collatz, range(1, 150_000), chunksize=1000))
print("seconds", time.monotonic() - begun, longest)
