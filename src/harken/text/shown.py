"""Counts, sizes, ages and excerpts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_CLOCKS_DIFFER_SECONDS = 86_400
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 message`, `1,200 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def one_line(text: str, most_chars: int | None = None) -> str:
    """The text on one line, cut with `…` where it is longer."""
    flat = " ".join(text.split())
    return flat if most_chars is None or len(flat) <= most_chars else flat[: most_chars - 1] + "…"


def short_key(project: str) -> str:
    """A project's key as people call it: its last part."""
    return project.rpartition(":")[2].rstrip("/").rpartition("/")[2] or project


def readable_bytes(count: int) -> str:
    """`1.4 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def ago(age: timedelta) -> str:
    """`2 seconds ago`, in the largest whole unit up to days."""
    seconds = max(0, int(age.total_seconds()))
    length, unit = next(((length, unit) for length, unit in _UNITS if seconds >= length), _UNITS[-1])
    return f"{counted(seconds // length, unit)} ago"


def readable_age(moment: datetime) -> str:
    """`3 days ago`, and the moment itself for what is older than a month, or to come."""
    age = datetime.now(UTC) - moment
    if age.total_seconds() < -_CLOCKS_DIFFER_SECONDS or age.days > 31:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    return "just now" if age.total_seconds() < 60 else ago(age)
