"""Who holds, who waits: whom each thread waited for, and what that one did meanwhile.

timelines.py   what each thread did, piece by piece
wakers.py      who ended a wait, where wake-ups were recorded
inference.py   who is likely to have, where they were not
charging.py    waits charged to what the awaited threads did
table.py       the rows of a report: waiter, holder, line, how certain
"""
