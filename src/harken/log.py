"""The log: events with facts, written by structlog, which is imported when something is written for the first time.

It brings rich's tracebacks along and takes a fifth of what a command takes to start, and most commands log nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_setting_up: Callable[[], None] | None = None
_lock = threading.Lock()


def set_up_log(configure: Callable[[], None]) -> None:
    """Have structlog configured by this before the next event is written."""
    global _setting_up
    _setting_up = configure


class Log:
    """Writes constant event names with facts as key-values, never a message's text."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **facts: Any) -> None:
        """Write an event for whoever looks for a mistake."""
        self._write("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Write an event that is worth knowing."""
        self._write("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Write that something was left out or is tried again."""
        self._write("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Write that a request failed."""
        self._write("error", event, facts)

    def _write(self, level: str, event: str, facts: dict[str, Any]) -> None:
        import structlog

        global _setting_up
        with _lock:
            configure, _setting_up = _setting_up, None
            if configure is not None:
                configure()
        getattr(structlog.get_logger(self._name), level)(event, **facts)
