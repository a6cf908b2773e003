"""The one history of what a program allocated by its GPU API: who made what, and how long it lived."""
