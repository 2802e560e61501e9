"""Summarizers: sentences chosen from the text itself, or written by a language model."""
