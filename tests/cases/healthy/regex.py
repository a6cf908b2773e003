"""Searches text for a pattern."""

import random
import re
import time

text = "".join(random.Random(1).choices("abcde 123\n", k=200_000))
pattern = re.compile(r"([a-c]+)\s+(\d+)[^\n]*e")
begun = time.monotonic()
total = sum(len(pattern.findall(text)) for _ in range(60))
print("seconds", time.monotonic() - begun, total)
