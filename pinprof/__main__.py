"""`python -m pinprof`, and the script `pinprof`."""

import signal


def main() -> None:
    """Run the command line; a Ctrl-C while it is still being imported ends this as it ends any program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pinprof.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
