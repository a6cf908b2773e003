"""The types of recorded data, and the tables of names that give recorded events their meaning."""
