"""What was learned as the journal has it: JSON objects, read back whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from harken.learned.records import Attempt, Experience, Lesson, Note, Outcome, RootCause, Status, Value
from harken.model import Kept, ProjectIdentity, Trust

EXPERIENCE = "experience"
VALUE = "value"
# Of the event itself.
_ELSEWHERE = ("uid", "project", "updated_at")


def kept_experience(one: Experience, project: ProjectIdentity | None) -> Kept:
    """The experience as the journal has it.

    Args:
        one: the experience.
        project: the one whose key it has; None where it has none.
    """
    written = {**_plain(one), "trust": Trust.AGENT.value, "status": one.status.value}
    return Kept(EXPERIENCE, one.uid, one.updated_at, written, project)


def kept_value(one: Value, project: ProjectIdentity | None) -> Kept:
    """The value as the journal has it."""
    return Kept(VALUE, one.uid, one.created_at, {**_plain(one), "trust": Trust.AGENT.value}, project)


def read_experience(kept: Kept) -> Experience:
    """The experience that was written so.

    Raises:
        KeyError, TypeError, ValueError: the fields are not those of an experience.
    """
    given = {name: value for name, value in (kept.fields or {}).items() if name not in ("trust", "status")}
    for name in ("created_at", "attempted_at"):
        given[name] = _moment(given[name])
    outcome, cause, lesson = given.get("outcome"), given.get("root_cause"), given.get("lesson")
    given["history"] = tuple(Attempt(**{**each, "at": _moment(each["at"])}) for each in given["history"])
    given["notes"] = tuple(Note(_moment(each["at"]), each["text"]) for each in given["notes"])
    given["outcome"] = _read_outcome(outcome) if outcome else None
    given["root_cause"] = RootCause(**cause) if cause else None
    given["lesson"] = Lesson(**lesson) if lesson else None
    return Experience(uid=kept.uid, project=_key(kept), updated_at=kept.at, **given)


def read_value(kept: Kept) -> Value:
    """The value that was written so.

    Raises:
        KeyError, TypeError, ValueError: the fields are not those of a value.
    """
    given = {name: value for name, value in (kept.fields or {}).items() if name != "trust"}
    for name in ("members", "domains", "strategies"):
        given[name] = tuple(given[name])
    return Value(uid=kept.uid, project=_key(kept), **{**given, "created_at": _moment(given["created_at"])})


def _read_outcome(written: Mapping[str, Any]) -> Outcome:
    moment, status = _moment(written["captured_at"]), Status(written["status"])
    return Outcome(**{**written, "status": status, "captured_at": moment})


def _key(kept: Kept) -> str:
    return kept.project.key if kept.project else ""


def _plain(record: Any) -> dict[str, Any]:
    """A record's fields as JSON; what it has no value for is left out."""
    found = {field.name: _json(getattr(record, field.name)) for field in fields(record) if field.name not in _ELSEWHERE}
    return {name: value for name, value in found.items() if value is not None}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, Status):
        return value.value
    if isinstance(value, Attempt | Note | Outcome | RootCause | Lesson):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(each) for each in value]
    return value


def _moment(written: str) -> datetime:
    return datetime.fromisoformat(written)
