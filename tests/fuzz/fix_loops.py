"""Generated loops that `pinprof fix` changes print what they printed, or are refused.

usage: python -m tests.fuzz.fix_loops [COUNT] [--first SEED]

COUNT is 500 without one. Ends with status 1, and the seeds, where a changed program prints something else.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tests.support import loops


def main() -> None:
    """Change and run the programs of COUNT seeds."""
    importlib.import_module("torch")  # without it, all programs end with the same error
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    same, refused, wrong = loops.judged(range(asked.first, asked.first + asked.count))
    print(f"{asked.count} programs: {same} changed and alike, {refused} refused, {len(wrong)} wrong {wrong or ''}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
