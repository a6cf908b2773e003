"""What to change, where, and what it saves: the answer that everything else in a report is evidence for.

scene.py        what detectors look at
allocating.py, between.py, blocking.py, cold.py, copying.py, managed.py, pages.py, pressure.py, turns.py
                detectors
catalogue.py    cures
knobs.toml      options of libraries that do what cures say; options.py finds them
search.py       candidates against each other, and the headline
"""
