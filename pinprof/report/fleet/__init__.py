"""The answer of a fleet: in the terminal, as JSON, and as a page."""
