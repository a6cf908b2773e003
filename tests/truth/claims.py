"""Claims about random programs of known structure, and how many of them are false.

usage: python -m tests.truth.claims [PROGRAMS] [--from SEED]

Exit status 1 where one is false; those are printed with their seed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from pinprof.analyze.opportunities.catalogue import CURES
from tests.support.structures import PARTS, claims


def main() -> int:
    """Count them."""
    parser = argparse.ArgumentParser(description="Claims about random programs of known structure.")
    parser.add_argument("programs", type=int, nargs="?", default=2000)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    asked = parser.parse_args()
    said, false = Counter[str](), 0
    for seed in range(asked.first, asked.first + asked.programs):
        for claim in claims(seed):
            said[claim.cure] += 1
            if claim.false:
                false += 1
                print(f"{seed}: {claim.does or 'no part'}, {claim.turns} turns: {claim.cure}: {claim.title}")
    unsaid = ", ".join(sorted(set(CURES) - set(said)))
    print(f"{asked.programs:,} programs of {len(PARTS)} kinds of parts: {said.total():,} claims, {false} false.")
    print(f"By cure: {', '.join(f'{cure} {count}' for cure, count in said.most_common())}. Never said: {unsaid}.")
    return int(false > 0)


if __name__ == "__main__":
    sys.exit(main())
