"""How a difference is shown: figures and words that terminal, Markdown and page share, JSON, folded stacks."""
