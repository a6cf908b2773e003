"""How the answer for a launch of ranks is shown: words that outputs share, terminal, JSON, page."""
