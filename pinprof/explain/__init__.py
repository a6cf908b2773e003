"""What `pinprof explain NAME` knows: every name that messages, reports and pages use, explained by the documents."""
