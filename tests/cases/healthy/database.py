"""Fills a table of a database in memory, and asks it questions."""

import sqlite3
import time

database = sqlite3.connect(":memory:")
database.execute("create table rows (id integer primary key, name text, value real)")
begun = time.monotonic()
database.executemany("insert into rows values (?, ?, ?)", ((i, f"name {i % 997}", i / 3) for i in range(200_000)))
for _ in range(10):
    database.execute("select name, sum(value), count(*) from rows group by name order by 2 desc").fetchall()
print("seconds", time.monotonic() - begun)
