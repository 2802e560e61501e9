"""Background work: embedding and summaries, found by query, claimed with a lease, paid within a limit."""
