"""What `pinprof fix` found, for people and programs."""
