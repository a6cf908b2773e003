"""What `pinprof bench` measured: its page, its plots, its tables in the terminal."""
