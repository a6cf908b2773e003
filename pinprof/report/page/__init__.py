"""The page as one self-contained file, several recordings in one, and showing a page over HTTP."""
