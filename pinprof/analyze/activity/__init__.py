"""CUDA calls, copies, kernels and managed memory."""
