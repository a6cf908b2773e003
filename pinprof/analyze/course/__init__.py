"""What a run was doing, and when: its critical thread's time by cause, place, phase, range and call.

course.py      the whole of it: critical thread, phases, steps, wall time
table.py       one row a piece of the critical thread's time, for all who ask where it went
copies.py      CUDA's copies, whichever tool recorded them
"""
