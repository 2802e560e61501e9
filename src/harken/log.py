"""The log: events with facts, written by structlog, which is imported when something is written for the first time.

It brings rich's tracebacks along and takes a fifth of what a command takes to start, and most commands log nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partialmethod
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

    def _write(self, level: str, event: str, /, **facts: Any) -> None:
        import logging

        import structlog

        global _setting_up
        with _lock:
            configure, _setting_up = _setting_up, None
            if configure is not None:
                configure()
        if structlog.is_configured():
            getattr(structlog.get_logger(self._name), level)(event, **facts)
            return
        # In a program that has Harken as a library: unconfigured, structlog writes all of it to the program's stdout.
        logger, said = logging.getLogger(self._name), [event, *(f"{name}={value!r}" for name, value in facts.items())]
        getattr(logger, level)(" ".join(said))

    # For whoever looks for a mistake; worth knowing; something was left out or is tried again; a request failed.
    debug, info = partialmethod(_write, "debug"), partialmethod(_write, "info")
    warning, error = partialmethod(_write, "warning"), partialmethod(_write, "error")
