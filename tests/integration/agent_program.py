"""Calls from thirteen lines, of 2 µs to 20 ms: two threads and those of a backward pass, a generator, asyncio's tasks,
recursion; prints how many each line made.

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
FAST_NS, SLOW_NS = 2_000, 20_000_000
MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
copy = cuda.cuMemcpyHtoDAsync_v2
threads, CALLBACK = ctypes.CDLL(None), ctypes.CFUNCTYPE(ctypes.c_void_p, P)


def straight(stream):
    copy(DEVICE, HOST, N(101), stream)  # 101


def twice(stream):
    copy(DEVICE, HOST, N(102), stream)  # 102
    copy(DEVICE, HOST, N(103), stream)  # 103


def recursive(stream, depth):
    if depth:
        return recursive(stream, depth - 1)
    return copy(DEVICE, HOST, N(104), stream)  # 104


def generated():
    stream = yield
    while True:
        copy(DEVICE, HOST, N(105), stream)  # 105
        stream = yield


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


def in_backward(streams):
    for stream in streams:
        copy(DEVICE, HOST, N(113), stream)  # 113


def backward(stream):
    """Has a thread that Python did not make call back, as PyTorch's does that runs a backward pass."""
    called = CALLBACK(lambda _: in_backward([stream, *[P(FAST_NS)] * 19]))
    thread = ctypes.c_ulong()
    assert threads.pthread_create(ctypes.byref(thread), None, called, None) == 0
    assert threads.pthread_join(thread, None) == 0


text = {**globals()}
exec(compile("def in_text(stream):\n    copy(DEVICE, HOST, N(112), stream)\n", "text.py", "exec"), text)


def work(seed, counts):
    chosen = random.Random(seed)
    loader, generator = Loader(), generated()
    loop = asyncio.new_event_loop()
    next(generator)

    def loaded(stream):
        loader.stream = stream
        next(loader)

    async def both(stream):
        await asyncio.gather(awaited(stream), awaited(P(FAST_NS)))

    def tasks(stream):
        loop.run_until_complete(both(stream))

    def down(stream):
        recursive(stream, chosen.randrange(30))

    plain = [(straight, [101]), (twice, [102, 103]), (down, [104]), (generator.send, [105]), (loaded, [106])]
    plain += [(in_comprehension, [108, 108]), (in_lambda, [109]), (on_two_lines, [110]), (in_except, [111])]
    plain += [(text["in_text"], [112])]
    rare = [(tasks, [107] * 2), (backward, [113] * 20)]
    made = 0
    while made < MOST // 2:
        act, sizes = chosen.choice(rare if chosen.random() < 0.02 else plain)
        slow = chosen.random() < 0.01
        act(P(int(FAST_NS * (SLOW_NS / FAST_NS) ** chosen.random()) if slow else FAST_NS))
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
