"""Builds an index of made-up texts in pure Python, then searches it many times."""

import random
import time
from collections import defaultdict

made = random.Random(1)
words = ["".join(made.choices("abcdefgh", k=5)) for _ in range(4000)]
texts = [" ".join(made.choices(words, k=60)) for _ in range(8000)]
index = defaultdict(set)
for number, text in enumerate(texts):
    for word in text.split():
        index[word].add(number)


def search(*wanted):
    found = set.union(*(index[word] for word in wanted))
    return sorted(found, key=lambda number: (sum(texts[number].count(word) for word in wanted), number))[:10]


begun = time.monotonic()
hits = 0
for _ in range(900):
    hits += len(search(*made.choices(words, k=4)))
print("seconds", time.monotonic() - begun, hits)
