"""What `pinprof dump` shows."""
