"""Saved records (memories, experiences, values) as rows, and what is derived from them."""
