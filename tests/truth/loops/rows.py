"""Fills a database file with rows, commits, and then runs queries, each in a function."""

import random
import sqlite3
import tempfile
import time

WORDS = [f"word{number}" for number in range(2000)]


def fill(base, count):
    made = random.Random(2)
    base.execute("create table sales (day integer, item text, price real)")
    base.executemany(
        "insert into sales values (?, ?, ?)",
        ((made.randrange(365), made.choice(WORDS), made.random() * 100) for _ in range(count)),
    )
    base.execute("create index by_day on sales (day)")
    base.commit()


def best(base, day):
    rows = base.execute(
        "select item, sum(price) as total from sales where day between ? and ? group by item order by total desc",
        (day, day + 30),
    )
    return rows.fetchall()[:5]


with tempfile.NamedTemporaryFile(suffix=".db") as file:
    base = sqlite3.connect(file.name)
    fill(base, 300_000)
    begun = time.monotonic()
    winners = [best(base, day) for day in range(0, 330, 6)]
    print("seconds", time.monotonic() - begun, winners[0][0][0])
