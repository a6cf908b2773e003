"""`python -m pinprof`."""

from pinprof.cli import main

if __name__ == "__main__":
    main()
