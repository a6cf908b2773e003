"""What to change, where, and what it saves: the answer that everything else in a report is evidence for.

course.py       how the run went: critical thread, phases, steps, wall time
copies.py       CUDA's copies, whichever tool recorded them
scene.py        what detectors look at
allocating.py, copying.py, managed.py, pages.py    detectors
catalogue.py    cures
search.py       candidates against each other, and the headline
"""
