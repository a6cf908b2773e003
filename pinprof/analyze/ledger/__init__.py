"""Which memory of CUDA lives when: every pinned, registered, managed, pooled and device allocation."""
