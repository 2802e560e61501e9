"""Events as lines of the journal, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any

from harken.model.conversations import (
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
from harken.storage.records.rows import KEPT

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
    fields = {key: value for key, value in _WRITERS[type(event)](event).items() if value or value == 0}
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
        known = all(isinstance(value, _KINDS.get(key, object)) for key, value in fields.items())
        return _READERS[fields["event"]](fields) if known else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def event_time(event: Event) -> datetime:
    """When the event happened; it decides the day's file."""
    return _MOMENTS[type(event)](event)


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and `Z`."""
    return format_moment(moment)


def parse_time(text: str) -> datetime:
    """The moment of `format_time`, timezone-aware."""
    return parse_moment(text)


def _write_project(project: ProjectIdentity | None) -> dict[str, Any] | None:
    if project is None:
        return None
    return {"key": project.key, "name": project.name, "aliases": list(project.aliases)}


def _read_project(project: Mapping[str, Any] | None) -> ProjectIdentity | None:
    return ProjectIdentity(project["key"], project["name"], tuple(project["aliases"])) if project else None


def _write_conversation(event: Any) -> dict[str, Any]:
    return {
        "event": "conversation",
        "id": event.uid,
        "channel": event.channel,
        "external_id": event.external_id,
        "title": event.title,
        "at": format_time(event.created_at),
        "project": _write_project(event.project),
        "parent": event.parent_uid,
        "metadata": dict(event.metadata),
    }


def _read_conversation(fields: Mapping[str, Any]) -> Conversation:
    return Conversation(
        uid=fields["id"],
        channel=fields["channel"],
        external_id=fields.get("external_id", ""),
        title=fields.get("title", ""),
        created_at=parse_time(fields["at"]),
        updated_at=parse_time(fields["at"]),
        project=_read_project(fields.get("project")),
        parent_uid=fields.get("parent"),
        metadata=fields.get("metadata", {}),
    )


def _write_segment(event: Any) -> dict[str, Any]:
    return {
        "event": "segment",
        "id": event.uid,
        "conversation": event.conversation_uid,
        "number": event.number,
        "at": format_time(event.started_at),
    }


def _read_segment(fields: Mapping[str, Any]) -> Segment:
    return Segment(fields["id"], fields["conversation"], fields["number"], parse_time(fields["at"]))


def _write_exchange(event: Any) -> dict[str, Any]:
    return {
        "event": "exchange",
        "id": event.uid,
        "conversation": event.conversation_uid,
        "segment": event.segment_uid,
        "number": event.number,
        "at": format_time(event.started_at),
    }


def _read_exchange(fields: Mapping[str, Any]) -> Exchange:
    return Exchange(
        uid=fields["id"],
        conversation_uid=fields["conversation"],
        segment_uid=fields["segment"],
        number=fields["number"],
        status=ExchangeStatus.IN_PROGRESS,
        started_at=parse_time(fields["at"]),
    )


def _write_exchange_end(event: Any) -> dict[str, Any]:
    return {
        "event": "exchange_end",
        "id": event.exchange_uid,
        "conversation": event.conversation_uid,
        "status": event.status.value,
        "at": format_time(event.at),
        "error": event.error,
    }


def _read_exchange_end(fields: Mapping[str, Any]) -> ExchangeEnd:
    status = ExchangeStatus(fields["status"])
    return ExchangeEnd(fields["id"], fields["conversation"], status, parse_time(fields["at"]), fields.get("error"))


def _write_message(event: Any) -> dict[str, Any]:
    return {
        "event": "message",
        "id": event.uid,
        "conversation": event.conversation_uid,
        "segment": event.segment_uid,
        "exchange": event.exchange_uid,
        "role": event.role.value,
        "type": event.type.value,
        "at": format_time(event.created_at),
        "position": event.position,
        "author": event.author,
        "trust": event.trust.value,
        "call_id": event.call_id,
        "tool_name": event.tool_name,
        "external_id": event.external_id,
        "text": event.text,
        "metadata": dict(event.metadata) if event.metadata else None,
    }


def _read_message(fields: Mapping[str, Any]) -> Message:
    return Message(
        uid=fields["id"],
        conversation_uid=fields["conversation"],
        segment_uid=fields["segment"],
        exchange_uid=fields["exchange"],
        role=Role(fields["role"]),
        type=MessageType(fields["type"]),
        text=fields.get("text", ""),
        created_at=parse_time(fields["at"]),
        author=fields.get("author"),
        trust=Trust(fields["trust"]),
        call_id=fields.get("call_id"),
        tool_name=fields.get("tool_name"),
        external_id=fields.get("external_id", ""),
        metadata=fields.get("metadata", {}),
        position=fields.get("position", 0),
    )


def _write_title(event: Any) -> dict[str, Any]:
    return {
        "event": "title",
        "conversation": event.conversation_uid,
        "title": event.title,
        "at": format_time(event.at),
    }


def _read_title(fields: Mapping[str, Any]) -> Titled:
    return Titled(fields["conversation"], fields.get("title", ""), parse_time(fields["at"]))


def _write_trusted(event: Any) -> dict[str, Any]:
    return {
        "event": "trust",
        "id": event.uid,
        "conversation": event.conversation_uid,
        "trust": event.trust.value,
        "at": format_time(event.at),
    }


def _read_trusted(fields: Mapping[str, Any]) -> Trusted:
    return Trusted(fields["id"], fields["conversation"], Trust(fields["trust"]), parse_time(fields["at"]))


def _write_tombstone(event: Any) -> dict[str, Any]:
    return {
        "event": "tombstone",
        "id": event.uid,
        "conversation": event.conversation_uid,
        "kind": event.kind,
        "at": format_time(event.at),
    }


def _read_tombstone(fields: Mapping[str, Any]) -> Tombstone:
    return Tombstone(fields["id"], fields["conversation"], fields["kind"], parse_time(fields["at"]))


def _write_core_fact(event: Any) -> dict[str, Any]:
    return {
        "event": "core",
        "section": event.section,
        "key": event.key,
        "value": event.value,
        "at": format_time(event.at),
    }


def _read_core_fact(fields: Mapping[str, Any]) -> CoreFact:
    return CoreFact(fields["section"], fields["key"], fields.get("value"), parse_time(fields["at"]))


def _write_kept(event: Any) -> dict[str, Any]:
    return {
        "event": "kept",
        "source": event.source,
        "id": event.uid,
        "at": format_time(event.at),
        "project": _write_project(event.project),
        "fields": None if event.fields is None else dict(event.fields),
    }


def _read_kept(fields: Mapping[str, Any]) -> SavedRecord:
    project = _read_project(fields.get("project"))
    kept = SavedRecord(fields["source"], fields["id"], parse_time(fields["at"]), fields.get("fields"), project)
    known = KEPT[kept.source]
    if kept.fields is not None:
        # Says whether it is whole.
        known.row(kept)
    return kept


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Conversation: _write_conversation,
    Segment: _write_segment,
    Exchange: _write_exchange,
    ExchangeEnd: _write_exchange_end,
    Message: _write_message,
    Titled: _write_title,
    Trusted: _write_trusted,
    Tombstone: _write_tombstone,
    CoreFact: _write_core_fact,
    SavedRecord: _write_kept,
}
_MOMENTS: dict[type, Callable[[Any], datetime]] = {
    Conversation: attrgetter("created_at"),
    Segment: attrgetter("started_at"),
    Exchange: attrgetter("started_at"),
    ExchangeEnd: attrgetter("at"),
    Message: attrgetter("created_at"),
    Titled: attrgetter("at"),
    Trusted: attrgetter("at"),
    Tombstone: attrgetter("at"),
    CoreFact: attrgetter("at"),
    SavedRecord: attrgetter("at"),
}
_READERS: dict[str, Callable[[Mapping[str, Any]], Event]] = {
    "conversation": _read_conversation,
    "segment": _read_segment,
    "exchange": _read_exchange,
    "exchange_end": _read_exchange_end,
    "message": _read_message,
    "title": _read_title,
    "trust": _read_trusted,
    "tombstone": _read_tombstone,
    "core": _read_core_fact,
    "kept": _read_kept,
}
