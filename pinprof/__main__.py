"""`python -m pinprof`, and the script `pinprof`."""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

_OBJECTS = 200_000, 20, 100
"""Python looks for garbage when this many more objects live: what is imported and read stays, so looks find none."""
_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads numpy's library for matrices starts: else one a processor, each of which first waits busily."""


def run() -> None:
    """Run the command line; a Ctrl-C while it is still being imported ends this as it ends any program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*_OBJECTS)
    if _MATRIX_THREADS not in os.environ:
        # For this process, and not in `os.environ`: recorded programs get that.
        os.putenv(_MATRIX_THREADS, "1")
    from pinprof.cli import main as command_line

    command_line()


def main() -> NoReturn:
    """The same, and end the process.

    What Python does first when it exits is done here. What follows there takes all modules apart, one by one, which
    the system does at once.
    """
    try:
        run()
    except SystemExit as ended:
        status = ended.code
    else:
        status = 0
    if threading := sys.modules.get("threading"):
        threading._shutdown()
    atexit._run_exitfuncs()
    # All that is ours to say was written before; what cannot be is no news.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


if __name__ == "__main__":
    main()
