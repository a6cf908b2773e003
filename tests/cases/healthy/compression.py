"""Compresses pieces of 64 KiB by two methods."""

import lzma
import random
import time
import zlib

piece = bytes(random.Random(1).choices(range(32), k=64 << 10))
begun = time.monotonic()
total = sum(len(zlib.compress(piece, 6)) for _ in range(150)) + sum(len(lzma.compress(piece)) for _ in range(10))
print("seconds", time.monotonic() - begun, total)
