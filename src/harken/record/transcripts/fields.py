"""Single values out of foreign JSON, whose types nobody may trust."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

# The largest epoch number read as seconds; above it come milliseconds, microseconds and nanoseconds.
_SECONDS_AT_MOST = 1e11
_LEAP_SECOND = re.compile(r"(:[0-5][0-9]):60")


def string(value: Any) -> str | None:
    """The value if it is a text with something in it, else None."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else []


def known(**facts: Any) -> dict[str, Any]:
    """The facts that are there: those that are neither None nor False."""
    return {name: fact for name, fact in facts.items() if fact is not None and fact is not False}


def spoken(parts: list[str]) -> str:
    """Several texts of one speaker as one: joined by blank lines, the blank ones left out."""
    return "\n\n".join(part for part in parts if part.strip())


def call_text(name: str | None, given: Any) -> str:
    """A tool call as one line that a person can read: the tool's name and what it was given, as JSON."""
    if isinstance(given, str):
        words = given
    else:
        words = "" if given in (None, {}, []) else json.dumps(given, ensure_ascii=False)
    return f"{name or ''} {words}".strip()


def moment(value: Any) -> datetime | None:
    """A point in time from an ISO text or an epoch number, in UTC; None for anything else.

    A text without an offset is taken as UTC, one whose offset is cut off (`…12.5+`) too. Epoch numbers may count
    seconds, milliseconds, microseconds or nanoseconds.
    """
    try:
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, float)):
            return _from_epoch(float(value))
        if isinstance(value, str):
            return _from_text(value.strip())
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _from_epoch(number: float) -> datetime | None:
    while number > _SECONDS_AT_MOST:
        number /= 1000
        if number == float("inf"):
            return None
    return datetime.fromtimestamp(number, UTC) if number > 0 else None


def _from_text(text: str) -> datetime | None:
    if text.replace(".", "", 1).isdecimal() and len(text) > 8:
        return _from_epoch(float(text))
    # A leap second is a time in ISO's eyes, and none in Python's.
    read = datetime.fromisoformat(_LEAP_SECOND.sub(r"\1:59", text.rstrip("+-")))
    return (read.replace(tzinfo=UTC) if read.tzinfo is None else read).astimezone(UTC)
