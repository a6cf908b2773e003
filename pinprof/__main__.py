"""`python -m pinprof`, and the script `pinprof`."""

import gc
import os
import signal
import sys

_OBJECTS = 200_000, 20, 100
"""Python looks for garbage when this many more objects live: what is imported and read stays, so looks find none."""
_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads numpy's library for matrices starts: else one a processor, each of which first waits busily."""


def main() -> None:
    """Run the command line; a Ctrl-C while it is still being imported ends this as it ends any program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*_OBJECTS)
    if _MATRIX_THREADS not in os.environ:
        # For this process, and not in `os.environ`: recorded programs get that.
        os.putenv(_MATRIX_THREADS, "1")
    from pinprof.cli import main as command_line

    try:
        command_line()
    finally:
        # Python looks for garbage once more when it exits, and everything goes then anyway.
        gc.freeze()
        if "duckdb" in sys.modules:
            # Its binding lists its own types as leaks where an error ends Python. All that is ours to say is said.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


if __name__ == "__main__":
    main()
