"""What to change, where, and what it saves: the answer that everything else in a report is evidence for.

scene.py        what detectors look at
allocating.py, copying.py, managed.py, pages.py    detectors
catalogue.py    cures
search.py       candidates against each other, and the headline
"""
