"""Events as lines of the journal, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from harken.model.conversations import (
    EMPTY,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trust,
    Trusted,
)
from harken.model.views import format_moment, parse_moment

# What the values of a line must be; a key that a later Harken adds may be anything.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("id", "conversation", "segment", "exchange", "parent", "channel", "external_id"), str),
    **dict.fromkeys(
        ("title", "text", "author", "call_id", "tool_name", "kind", "error", "section", "key", "value", "source"), str
    ),
    **dict.fromkeys(("project", "metadata", "fields"), dict),
    **dict.fromkeys(("number", "position"), int),
}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def line_from_event(event: Event) -> bytes:
    """One line of JSON with its newline; keys without a value are left out."""
    form = _FORMS[type(event)]
    fields: dict[str, Any] = {"event": form.name}
    for (key, write), value in zip(form.written, form.values(event), strict=True):
        if value or value == 0:
            fields[key] = write(value) if write else value
    return _encode(fields).encode("utf-8", "surrogatepass") + b"\n"


def event_from_line(line: bytes) -> Event | None:
    """The event of a line; None when the line is not a whole event of a kind we know."""
    try:
        return event_from_fields(json.loads(line.decode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError):
        return None


def event_from_fields(fields: Any) -> Event | None:
    """The event of a line's JSON; None when it is not a whole event of a kind we know."""
    try:
        if not all(isinstance(value, _KINDS.get(key, object)) for key, value in fields.items()):
            return None
        form = _BY_NAME[fields["event"]]
        values = {}
        for attribute, key, read in form.read:
            if key in fields:
                values[attribute] = read(fields[key]) if read else fields[key]
            else:
                values[attribute] = _ABSENT[attribute]
        return form.make(**values)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def event_time(event: Event) -> datetime:
    """The moment of an event; it decides the day's file."""
    moment: datetime = _FORMS[type(event)].moment(event)
    return moment


def _write_project(project: ProjectIdentity) -> dict[str, Any]:
    return {"key": project.key, "name": project.name, "aliases": list(project.aliases)}


def _read_project(project: Mapping[str, Any]) -> ProjectIdentity | None:
    return ProjectIdentity(project["key"], project["name"], tuple(project["aliases"])) if project else None


def _make_conversation(created_at: datetime, **values: Any) -> Conversation:
    return Conversation(created_at=created_at, updated_at=created_at, **values)


def _make_exchange(**values: Any) -> Exchange:
    return Exchange(status=ExchangeStatus.IN_PROGRESS, **values)


def _make_saved(source: str, **values: Any) -> SavedRecord:
    # Few events are of saved records, and their tables bring all that searches of entries need.
    from harken.storage.records.rows import KEPT

    saved, table = SavedRecord(source, **values), KEPT[source]
    if saved.fields is not None:
        # Says whether it is whole.
        table.row(saved)
    return saved


_MOMENTS = ("created_at", "started_at", "at")
# What attributes are called in a line, where that is another name.
_KEYS = {"uid": "id", "conversation_uid": "conversation", "segment_uid": "segment", "exchange_uid": "exchange"}
_KEYS |= {"parent_uid": "parent", **dict.fromkeys(_MOMENTS, "at")}
_WRITE: dict[str, Callable[[Any], Any]] = {"project": _write_project, "metadata": dict, "fields": dict}
_WRITE |= dict.fromkeys(_MOMENTS, format_moment)
_READ: dict[str, Callable[[Any], Any]] = {"project": _read_project, "role": Role, "type": MessageType, "trust": Trust}
_READ |= {"status": ExchangeStatus, **dict.fromkeys(_MOMENTS, parse_moment)}
# What attributes are whose key was left out; any other must be there.
_ABSENT: dict[str, Any] = {
    **dict.fromkeys(("external_id", "title", "text"), ""),
    **dict.fromkeys(("project", "parent_uid", "author", "call_id", "tool_name", "error", "value", "fields")),
    "metadata": EMPTY,
    "position": 0,
}


@dataclass(frozen=True, slots=True)
class _LineForm:
    """The form of one kind of event's lines, by attribute in the order of the line's keys."""

    name: str
    make: Callable[..., Event]
    values: attrgetter[tuple[Any, ...]]
    moment: attrgetter[datetime]
    written: tuple[tuple[str, Callable[[Any], Any] | None], ...]
    read: tuple[tuple[str, str, Callable[[Any], Any] | None], ...]


def _form(name: str, make: Callable[..., Event], attributes: str, **keys: str) -> _LineForm:
    names = attributes.split()
    keyed = [(attribute, {**_KEYS, **keys}.get(attribute, attribute)) for attribute in names]
    return _LineForm(
        name,
        make,
        attrgetter(*names),
        attrgetter(next(attribute for attribute in names if attribute in _MOMENTS)),
        tuple((key, _WRITE.get(attribute)) for attribute, key in keyed),
        tuple((attribute, key, _READ.get(attribute)) for attribute, key in keyed),
    )


_MESSAGE = (
    "uid conversation_uid segment_uid exchange_uid role type created_at position author trust call_id tool_name "
    "external_id text metadata"
)
_FORMS: dict[type, _LineForm] = {
    Conversation: _form(
        "conversation",
        _make_conversation,
        "uid channel external_id title created_at project parent_uid metadata",
    ),
    Segment: _form("segment", Segment, "uid conversation_uid number started_at"),
    Exchange: _form("exchange", _make_exchange, "uid conversation_uid segment_uid number started_at"),
    ExchangeEnd: _form("exchange_end", ExchangeEnd, "exchange_uid conversation_uid status at error", exchange_uid="id"),
    Message: _form("message", Message, _MESSAGE),
    Titled: _form("title", Titled, "conversation_uid title at"),
    Trusted: _form("trust", Trusted, "uid conversation_uid trust at"),
    Tombstone: _form("tombstone", Tombstone, "uid conversation_uid kind at"),
    CoreFact: _form("core", CoreFact, "section key value at"),
    SavedRecord: _form("kept", _make_saved, "source uid at project fields"),
}
_BY_NAME = {form.name: form for form in _FORMS.values()}
