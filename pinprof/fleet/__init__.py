"""Many recordings: each becomes a few tables (`mapping`), which a database then answers questions from (`answer`)."""
