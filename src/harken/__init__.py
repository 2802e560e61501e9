"""Harken: memory for AI agents that comes back by itself."""

__version__ = "0.1.0"
