"""Nsight Systems: its reports and exports, every version of their schema, alone and beside perf."""
