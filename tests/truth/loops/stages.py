"""Three stages, each of them work: makes records, sorts and joins them, and writes them out."""

import csv
import io
import random
import time


def make(count):
    made = random.Random(1)
    return [{"id": made.randrange(count), "name": f"n{number}", "value": made.random()} for number in range(count)]


def join(rows):
    by_id = {}
    for row in rows:
        by_id.setdefault(row["id"], []).append(row)
    return sorted((sum(r["value"] for r in found), key) for key, found in by_id.items())


def write(pairs):
    out = io.StringIO()
    writer = csv.writer(out)
    for value, key in pairs:
        writer.writerow([key, f"{value:.6f}", round(value * 100)])
    return len(out.getvalue())


begun = time.monotonic()
rows = make(450_000)
pairs = join(rows)
print("size", write(pairs))
print("seconds", time.monotonic() - begun)
