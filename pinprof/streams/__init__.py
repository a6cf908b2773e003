"""The capture directory and the files in it."""
