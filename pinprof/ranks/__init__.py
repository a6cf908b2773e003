"""One answer for a launch of many ranks: which of them the others wait for, where, why, and what it costs the job.

Every rank is read alone and reduced to a `RankRun` (rank_run.py); `engine.explain` joins those of a launch.
"""
