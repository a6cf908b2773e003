"""Texts that `pinprof fix` inserts into programs, below the marker of each file."""
