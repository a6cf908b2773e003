"""Rules that turn figures into findings."""
