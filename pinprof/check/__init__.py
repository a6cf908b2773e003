"""Captures judged by budgets: what may be found in them, and whether it is."""
