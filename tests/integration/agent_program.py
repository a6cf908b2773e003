"""Calls from twelve lines: two threads, a generator, an asyncio task, recursion; prints how many each line made.

A line that calls ends in a comment with the bytes of its copies, by which it is known.
"""

import asyncio
import ctypes
import random
import sys
import threading
from collections import Counter

cuda = ctypes.CDLL("libcuda.so.1")
P, Q, N = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
DEVICE, HOST = Q(0x7F << 56), P(4096)
FAST, SLOW = P(0), P(2_000)
MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
copy = cuda.cuMemcpyHtoDAsync_v2


def straight(stream):
    copy(DEVICE, HOST, N(101), stream)  # 101


def twice(stream):
    copy(DEVICE, HOST, N(102), stream)  # 102
    copy(DEVICE, HOST, N(103), stream)  # 103


def recursive(stream, depth):
    if depth:
        return recursive(stream, depth - 1)
    return copy(DEVICE, HOST, N(104), stream)  # 104


def generated(stream):
    while True:
        copy(DEVICE, HOST, N(105), stream)  # 105
        yield


class Loader:
    def __iter__(self):
        return self

    def __next__(self):
        copy(DEVICE, HOST, N(106), self.stream)  # 106


async def awaited(stream):
    await asyncio.sleep(0)
    copy(DEVICE, HOST, N(107), stream)  # 107


def in_comprehension(stream):
    return [copy(DEVICE, HOST, N(108), stream) for _ in range(2)]  # 108


def in_lambda(stream):
    return min([109], key=lambda size: copy(DEVICE, HOST, N(size), stream))  # 109


def on_two_lines(stream):
    copy(  # 110
        DEVICE,
        HOST,
        N(110),
        stream,
    )


def in_except(stream):
    try:
        raise ValueError
    except ValueError:
        copy(DEVICE, HOST, N(111), stream)  # 111


text = {**globals()}
exec(compile("def in_text(stream):\n    copy(DEVICE, HOST, N(112), stream)\n", "text.py", "exec"), text)


def work(seed, counts):
    chosen = random.Random(seed)
    loader, generators = Loader(), {False: generated(FAST), True: generated(SLOW)}
    loop = asyncio.new_event_loop()

    def stepped(stream):
        next(generators[stream is SLOW])

    def loaded(stream):
        loader.stream = stream
        next(loader)

    def task(stream):
        loop.run_until_complete(awaited(stream))

    def down(stream):
        recursive(stream, chosen.randrange(30))

    plain = [(straight, [101]), (twice, [102, 103]), (down, [104]), (stepped, [105]), (loaded, [106])]
    plain += [(in_comprehension, [108, 108]), (in_lambda, [109]), (on_two_lines, [110]), (in_except, [111])]
    plain += [(text["in_text"], [112])]
    rare = [(task, [107])]
    made = 0
    while made < MOST // 2:
        act, sizes = chosen.choice(rare if chosen.random() < 0.02 else plain)
        act(SLOW if chosen.random() < 0.02 else FAST)
        counts.update(sizes)
        made += len(sizes)
    loop.close()


counts = [Counter(), Counter()]
other = threading.Thread(target=work, args=(1, counts[1]))
other.start()
work(0, counts[0])
other.join()
for size, count in sorted((counts[0] + counts[1]).items()):
    print(size, count)
