"""Errors, units, files, terminal, columns and statistics: nothing here knows what pinprof is for."""
