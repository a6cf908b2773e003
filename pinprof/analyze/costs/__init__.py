"""What operations cost on a machine, and what another kind of memory would have cost."""
