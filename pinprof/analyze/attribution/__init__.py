"""Which cause a sample has: the taxonomy as rows, the tables made of them, and the pass that applies them."""
