"""CUDA calls as the agent inside the program saw them (pinprof/inside/): one file for each process."""
