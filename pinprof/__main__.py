"""`python -m pinprof`, and the script `pinprof`."""

import gc
import signal

_OBJECTS = 200_000, 20, 100
"""Python looks for garbage when so many more objects live: what is imported and read stays, so looks find none."""


def main() -> None:
    """Run the command line; a Ctrl-C while it is still being imported ends this as it ends any program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*_OBJECTS)
    from pinprof.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
