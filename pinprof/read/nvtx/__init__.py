"""What a program said through NVTX, as the agent wrote it down."""
