"""How long `pinprof try` and `pinprof fix` measure: options of both, and what they mean."""

from __future__ import annotations

import click

from pinprof.base.errors import UsageError

TIME = click.option("--time", "duration", default="5m", show_default=True, metavar="TIME", help="Time limit.")
ERROR = click.option(
    "--error",
    default="2%",
    show_default=True,
    metavar="SHARE",
    help="Repeat rounds until the error of every ratio is at most this.",
)
SEED = click.option("--seed", type=int, default=1, show_default=True, help="Seed for the order of runs.")


def bounds(duration: str, error: str) -> tuple[float, float]:
    """(the time limit in seconds, the error as a share of 1); UsageError where one is 0 or is none."""
    from pinprof.base.units import parse_duration_ns, parse_share

    time_s, share = parse_duration_ns(duration) / 1e9, parse_share(error)
    for value, option, example in ((time_s, "--time", "2min"), (share, "--error", "2%")):
        if not value:
            raise UsageError(f"{option} must be above 0.", f"For example, give {option} {example}.", "duration")
    return time_s, share
