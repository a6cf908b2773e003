"""Calls of PyTorch's backward passes: from backward functions, a hook, what a checkpoint runs again, and a thread of
PyTorch's own.

`backward.py CALLS`: prints how many each line made. A line that calls ends in a comment with the bytes of its copies.
"""

import ctypes
import random
import sys
import threading
from collections import Counter

import torch
from torch.utils.checkpoint import checkpoint

cuda = ctypes.CDLL("libcuda.so.1")
P, Q, N = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
DEVICE, HOST = Q(0x7F << 56), P(4096)
copy = cuda.cuMemcpyHtoDAsync_v2
MOST, DEEP = int(sys.argv[1]), 62  # from 60 passes inside each other on, one runs in another thread
made, threads = Counter(), set()


def stream(chosen):
    return P(int(2_000 * 10_000 ** chosen.random()) if chosen.random() < 0.01 else 2_000)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, chosen):
        ctx.chosen = chosen
        copy(DEVICE, HOST, N(201), stream(chosen))  # 201
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        copy(DEVICE, HOST, N(202), stream(ctx.chosen))  # 202
        return gradient * 2, None


class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, depth):
        ctx.depth = depth
        return value * 1

    @staticmethod
    def backward(ctx, gradient):
        threads.add(threading.get_native_id())
        copy(DEVICE, HOST, N(203), P(2_000))  # 203
        if ctx.depth:
            with torch.enable_grad():
                Nested.apply(torch.ones(1, requires_grad=True), ctx.depth - 1).sum().backward()
        return gradient, None


def hook(gradient):
    copy(DEVICE, HOST, N(204), P(2_000))  # 204
    return gradient


def kept(value):
    copy(DEVICE, HOST, N(205), P(2_000))  # 205
    return value.sin()


def work(seed, counts):
    chosen = random.Random(seed)
    while counts.total() < MOST // 2:
        value = torch.ones(4, requires_grad=True)
        if chosen.random() < 0.02:
            Nested.apply(value, DEEP).sum().backward()
            counts.update({203: DEEP + 1})
            continue
        middle = Scaled.apply(value, chosen)
        middle.register_hook(hook)
        checkpoint(kept, middle, use_reentrant=False).sum().backward()
        counts.update([201, 202, 204, 205, 205])


counts = [Counter(), Counter()]
other = threading.Thread(target=work, args=(1, counts[1]))
other.start()
work(0, counts[0])
other.join()
assert len(threads) > 2, "no pass ran in a thread of PyTorch's own"
for size, count in sorted((counts[0] + counts[1]).items()):
    print(size, count)
