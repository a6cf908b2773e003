"""Reads a table from a CSV file that it wrote, then answers questions of it."""

import tempfile
import time

import numpy as np
import pandas as pd


def load(path):
    table = pd.read_csv(path)
    table["band"] = table["value"] // 10
    return table


def ask(table, key):
    groups = table[table["key"] % 7 == key].groupby("band")["value"]
    return groups.agg(["mean", "sum", "count"]).sort_values("sum")


def main():
    random = np.random.default_rng(1)
    with tempfile.NamedTemporaryFile("w") as file:
        made = pd.DataFrame({"key": random.integers(0, 1000, 300_000), "value": random.random(300_000) * 1000})
        made.to_csv(file.name, index=False)
        table = load(file.name)
    begun = time.monotonic()
    total = 0.0
    for number in range(120):
        total += ask(table, number % 7)["sum"].iloc[0]
    print("seconds", time.monotonic() - begun, total)


if __name__ == "__main__":
    main()
