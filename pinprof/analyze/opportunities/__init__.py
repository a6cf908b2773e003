"""What to change, where, and what it saves."""
