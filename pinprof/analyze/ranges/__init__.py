"""What belongs to a range, and where the time of ranges went."""
