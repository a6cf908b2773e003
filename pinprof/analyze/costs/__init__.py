"""What operations on memory cost on a machine, by the measurements of `pinprof bench`."""
