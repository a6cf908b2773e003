"""Addresses to function names: sealed symbols, kallsyms, ELF files, perf maps, the vdso; demangling."""
