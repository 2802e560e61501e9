"""Memories saved on purpose."""
