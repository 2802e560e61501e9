"""The engine: `Harken`, its parts and the upkeep of its store."""

from harken.engine.engine import Harken

__all__ = ["Harken"]
