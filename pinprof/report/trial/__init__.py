"""A trial's result for people and programs: words that all forms share, terminal, Markdown, JSON."""
