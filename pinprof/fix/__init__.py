"""`pinprof fix`: changes of code that carry out cures, each measured in a copy of the work tree."""
