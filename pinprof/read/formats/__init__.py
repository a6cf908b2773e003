"""Formats of other tools: Chrome traces, folded stacks, speedscope, pprof."""
