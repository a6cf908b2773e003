"""What a program said through NVTX, as the injection library wrote it down."""
