"""Putting the right words into a model's context, within its budget."""
