"""The report in the terminal: its text, and a table for each part that has one."""
