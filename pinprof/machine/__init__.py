"""The machine that pinprof runs on: its C libraries, ELF files, tools, and what memory operations cost."""
