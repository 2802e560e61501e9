"""Lines of the journal: every event as one line of JSON, with a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

from harken.model.conversations import (
    EMPTY,
    KEPT_FOLDERS,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Labelled,
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
from harken.model.marks import Rated, Verdict
from harken.model.views import format_moment, parse_moment

# What the values of a line must be; a key that a later Harken adds may be anything.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("id", "conversation", "segment", "exchange", "parent", "channel", "external_id"), str),
    **dict.fromkeys(
        ("title", "text", "author", "call_id", "tool_name", "kind", "error", "section", "key", "value", "source"), str
    ),
    **dict.fromkeys(("ref", "verdict", "by", "given_to", "about", "question"), str),
    **dict.fromkeys(("project", "metadata", "fields"), dict),
    **dict.fromkeys(("number", "position"), int),
    "tags": list,
}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring


def line_from_event(event: Event) -> bytes:
    """One line of JSON with its newline; keys that need no value are left out where they have none."""
    return _FORMS[type(event)].write(event).encode("utf-8", "surrogatepass")


# The end of a line with its checksum: CRC-32 of the line without it, which finds any change of up to 32 bits in a row.
_SEAL, _SEALED = b',"crc":"', len(b',"crc":"01234567"}\n')


def sealed(line: bytes) -> bytes:
    """The line with its checksum."""
    return b'%b%b%08x"}\n' % (line[:-2], _SEAL, zlib.crc32(line))


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of the journal.

    Attributes:
        raw: its bytes, the newline included.
        end: the offset after it in its file.
        event: what it tells; None where this Harken cannot read it.
        fields: its JSON, where that is whole and its checksum, if it has one, is right; else nothing.
        is_sealed: it has a checksum, and that is right. Lines of an older Harken have none.
    """

    raw: bytes
    end: int
    event: Event | None
    fields: Mapping[str, Any]
    is_sealed: bool

    @property
    def is_broken(self) -> bool:
        """Whether it is no whole line, of any version: one of a newer Harken stays as it is."""
        name = self.fields.get("event")
        if self.event is not None or not isinstance(name, str):
            return self.event is None
        if self.is_sealed or name not in _BY_NAME:
            return False
        words = ((self.fields.get(key), known) for key, known in _WORDS.items())
        return not any(isinstance(word, str) and word not in known for word, known in words)


def read_line(raw: bytes, end: int) -> JournalLine:
    """What a line says."""
    seal, line = raw[-_SEALED:], raw
    has_seal = seal.startswith(_SEAL)
    if has_seal:
        line = raw[:-_SEALED] + b"}\n"
        if sealed(line) != raw:
            return JournalLine(raw, end, None, EMPTY, is_sealed=False)
    try:
        fields = json.loads(line.decode("utf-8", "surrogatepass")) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return JournalLine(raw, end, None, EMPTY, is_sealed=False)
    return JournalLine(raw, end, event_from_fields(fields), fields, has_seal)


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


def _read_project(project: Mapping[str, Any]) -> ProjectIdentity | None:
    return ProjectIdentity(project["key"], project["name"], tuple(project["aliases"])) if project else None


def _make_conversation(created_at: datetime, **values: Any) -> Conversation:
    return Conversation(created_at=created_at, updated_at=created_at, **values)


def _make_saved(source: str, **values: Any) -> SavedRecord:
    # Few events are of saved records, and their tables bring all that searches of entries need.
    from harken.storage.records.rows import KEPT

    saved, table = SavedRecord(source, **values), KEPT[source]
    if saved.fields is not None:
        # Says whether it is whole.
        table.row(saved), table.entries(saved)
    return saved


def _read_tags(tags: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(tag, str) for tag in tags):
        raise TypeError("a tag is no text")
    return tuple(tags)


_begun = partial(Exchange, status=ExchangeStatus.IN_PROGRESS)
_MOMENTS = ("created_at", "started_at", "at")
# What attributes are called in a line, where that is another name.
_KEYS = {"uid": "id", "conversation_uid": "conversation", "segment_uid": "segment", "exchange_uid": "exchange"}
_KEYS |= {"ref_uid": "ref", "parent_uid": "parent", **dict.fromkeys(_MOMENTS, "at")}
_WRITE: dict[str, Callable[[Any], str]] = {
    "project": lambda project: _encode(asdict(project)),
    **dict.fromkeys(("metadata", "fields"), lambda facts: _encode(dict(facts))),
    "tags": lambda tags: _encode(list(tags)),
    **dict.fromkeys(_MOMENTS, lambda moment: f'"{format_moment(moment)}"'),
    **dict.fromkeys(("number", "position"), str),
}
_READ: dict[str, Callable[[Any], Any]] = {"project": _read_project, "role": Role, "type": MessageType, "trust": Trust}
_READ |= {"tags": _read_tags, "verdict": Verdict, "status": ExchangeStatus, **dict.fromkeys(_MOMENTS, parse_moment)}
# What attributes are whose key was left out; any other must be there.
_ABSENT: dict[str, Any] = {
    **dict.fromkeys(("external_id", "title", "text", "given_to", "about", "question"), ""),
    **dict.fromkeys(("project", "parent_uid", "author", "call_id", "tool_name", "error", "value", "fields")),
    "metadata": EMPTY,
    "position": 0,
    "tags": (),
}


@dataclass(frozen=True, slots=True)
class _LineForm:
    """The form of one kind of event's lines, by attribute in the order of the line's keys.

    Attributes:
        write: makes the line of an event.
    """

    name: str
    make: Callable[..., Event]
    write: Callable[[Event], str]
    moment: attrgetter[datetime]
    keys: frozenset[str]
    read: tuple[tuple[str, str, Callable[[Any], Any] | None], ...]


def _form(name: str, make: Callable[..., Event], attributes: str, **keys: str) -> _LineForm:
    names = attributes.split()
    keyed = [(attribute, {**_KEYS, **keys}.get(attribute, attribute)) for attribute in names]
    return _LineForm(
        name,
        make,
        _line_writer(name, keyed),
        attrgetter(next(attribute for attribute in names if attribute in _MOMENTS)),
        frozenset(key for _, key in keyed),
        tuple((attribute, key, _READ.get(attribute)) for attribute, key in keyed),
    )


def _line_writer(name: str, keyed: Sequence[tuple[str, str]]) -> Callable[[Event], str]:
    """Make the function that writes the lines of one kind of event, by attribute and key in the order of the keys.

    Its text is put together, as a dataclass's is: to go through the attributes of each event takes twice as long.
    """
    given: dict[str, Any] = {"begins": f'{{"event":"{name}"', "ends": "}\n", "absent": ""}
    parts = []
    for place, (attribute, key) in enumerate(keyed):
        given[f"key{place}"], given[f"write{place}"] = f',"{key}":', _WRITE.get(attribute, _quoted)
        if attribute in _ABSENT:
            # To compare a mapping takes as long as to write the line's number.
            is_given = f"(value := event.{attribute}){' or value == 0' if attribute == 'position' else ''}"
            parts.append(f"{{key{place} + write{place}(value) if {is_given} else absent}}")
        else:
            parts.append(f"{{key{place}}}{{write{place}(event.{attribute})}}")
    written: Callable[[Event], str] = eval(f"lambda event: f'{{begins}}{''.join(parts)}{{ends}}'", given)  # noqa: S307
    return written


_CONVERSATION = "uid channel external_id title created_at project parent_uid metadata"
_MESSAGE = (
    "uid conversation_uid segment_uid exchange_uid role type created_at position author trust call_id tool_name "
    "external_id text metadata"
)
_FORMS: dict[type, _LineForm] = {
    Conversation: _form("conversation", _make_conversation, _CONVERSATION),
    Segment: _form("segment", Segment, "uid conversation_uid number started_at"),
    Exchange: _form("exchange", _begun, "uid conversation_uid segment_uid number started_at"),
    ExchangeEnd: _form("exchange_end", ExchangeEnd, "exchange_uid conversation_uid status at error", exchange_uid="id"),
    Message: _form("message", Message, _MESSAGE),
    Titled: _form("title", Titled, "conversation_uid title at"),
    Trusted: _form("trust", Trusted, "uid conversation_uid trust at"),
    Labelled: _form("label", Labelled, "conversation_uid title tags project at"),
    Rated: _form("rating", Rated, "uid conversation_uid ref_uid verdict by at given_to about question"),
    Tombstone: _form("tombstone", Tombstone, "uid conversation_uid kind at"),
    CoreFact: _form("core", CoreFact, "section key value at"),
    SavedRecord: _form("kept", _make_saved, "source uid at project fields"),
}
_BY_NAME = {form.name: form for form in _FORMS.values()}
# Where a newer Harken may know other words.
_WORDS = {
    "role": [*Role],
    "type": [*MessageType],
    "trust": [*Trust],
    "status": [*ExchangeStatus],
    "verdict": [*Verdict],
    "source": KEPT_FOLDERS,
}


def changed_line(line: JournalLine, event: Event) -> bytes:
    """The line of an event that stands in place of another, with what a newer Harken has said of the same."""
    plain = line_from_event(event)
    if type(event) is not type(line.event):
        return sealed(plain)
    known = _FORMS[type(event)].keys | {"crc"}
    whole = {**json.loads(plain), **{key: line.fields[key] for key in line.fields.keys() - known}}
    return sealed(_encode(whole).encode("utf-8", "surrogatepass") + b"\n")
