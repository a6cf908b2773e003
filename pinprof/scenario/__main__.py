"""`python -m pinprof.scenario NAME …`: a scenario as a process of its own, which is what gets recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pinprof.base.errors import PinprofError
from pinprof.base.terminal import open_closed_streams, reader_gone, say
from pinprof.base.units import parse_bytes
from pinprof.scenario.context import BACKENDS, Options
from pinprof.scenario.session import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one scenario, print its result, and return the exit status; errors are one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m pinprof.scenario", description="Run one scenario, unrecorded.")
    parser.add_argument("name")
    parser.add_argument("--size-bytes", default=str(Options.size_bytes), metavar="SIZE", help="256MiB, or bytes")
    parser.add_argument("--iterations", type=int, default=Options.iterations)
    parser.add_argument("--warmup", type=int, default=Options.warmup)
    parser.add_argument("--backend", choices=BACKENDS, default=Options.backend)
    parser.add_argument("--device", type=int, default=Options.device)
    parser.add_argument("--variant")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args(arguments)
    open_closed_streams()
    try:
        size_bytes = parse_bytes(given.size_bytes)
        options = Options(
            size_bytes, given.iterations, given.warmup, given.backend, given.device, given.variant, given.threads
        )
        say(run(given.name, options).to_text())
    except PinprofError as error:
        say(f"pinprof: error: {error} [{error.slug}]", error=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 141 if reader_gone() else 0


if __name__ == "__main__":
    sys.exit(main())
