"""Background work: what recorded messages are given so that they can be found by meaning."""
