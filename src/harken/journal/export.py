"""Exports: everything that was recorded as one file of journal lines, to move between stores of any engine.

The first line says that it is an export and of which version; the last says how many lines stand between, so that a
file that was cut short is known as such. The same records always give the same bytes. Summaries stand behind what they
are of; vectors as well where they are wanted. Full text is made from the records.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harken.errors import ExportError
from harken.journal.derived import Derived, MadeSummary, MadeVector, derived_from_fields, derived_of, fields_of
from harken.journal.journal import Journal
from harken.journal.lines import event_from_fields, line_from_event
from harken.journal.replay import last_states
from harken.model.arguments import SECTIONS
from harken.model.conversations import (
    CORE_MEMORY,
    KEPT_FOLDERS,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trusted,
)
from harken.model.lookups import RuleState
from harken.model.marks import Rated
from harken.storage.conversations import count_all
from harken.storage.enrichment.segments import RollingSummary
from harken.storage.events import events_of, known_conversations
from harken.storage.ports import Store
from harken.storage.records.rules import RULES
from harken.storage.vectors import answering_space
from harken.text.characters import sound_value

# A line of a kind, or in a form, that the Harken before refuses takes another version.
FORMAT, VERSION = "harken-export", 3
# An id names a folder of the journal, so an export may not bring one that leads out of it.
_ID = re.compile(r"\w[\w.-]{0,127}")
_ID_FIELDS = ("uid", "conversation_uid", "segment_uid", "exchange_uid", "parent_uid")
# Who forgets a conversation of such a name would forget all memories with it.
RESERVED = frozenset({CORE_MEMORY, *KEPT_FOLDERS.values()})
_HEADER_BYTES = 1000
_DECIDED = frozenset(RuleState)
_MOST = 2**31 - 1
# What is said afterwards finds room behind it.
_LAST_POSITION = 2**52
_PROGRESS_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Exported:
    """The sizes of an export: of what was forgotten, only the ids; `kept` counts memories and other saved records."""

    conversations: int
    messages: int
    forgotten: int
    bytes: int
    kept: int = 0
    summaries: int = 0
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class ExportLine:
    """One event of an export or what was made of some, the number of its line, from 1, and the byte offset after it."""

    event: Event | Derived
    number: int
    end: int


def export(
    store: Store,
    stream: BinaryIO,
    progress: Callable[[int, int], None],
    with_vectors: bool = False,
    journal: Journal | None = None,
) -> Exported:
    """Write everything, as it stands at one moment, while others go on using the store.

    `progress` is called with (messages done, in all) now and then. Vectors are those of the space that answers. The
    journal, where there is one, alone knows which core memories were deleted.
    """
    counts: Counter[type] = Counter()
    forgotten = 0
    size = stream.write(_line({"format": FORMAT, "version": VERSION}))
    with store.reading() as tx:
        total = count_all(tx, None).messages
        space = answering_space(tx) if with_vectors else None
        for fact in last_states(journal, CORE_MEMORY).values() if journal is not None else ():
            if isinstance(fact, CoreFact) and fact.value is None:
                size += stream.write(line_from_event(fact))
                counts[CoreFact] += 1
        for uid in known_conversations(tx):
            for event in events_of(tx, uid):
                size += stream.write(line_from_event(event))
                counts[type(event)] += 1
                forgotten += isinstance(event, Tombstone) or (isinstance(event, SavedRecord) and event.fields is None)
                if isinstance(event, Message) and counts[Message] % _PROGRESS_EVERY == 0:
                    progress(counts[Message], total)
            for made in derived_of(tx, uid, space):
                size += stream.write(_line(fields_of(made)))
                counts[type(made)] += 1
    size += stream.write(_line({"end": FORMAT, "lines": counts.total()}))
    stream.flush()
    progress(counts[Message], total)
    kept = counts[SavedRecord] + counts[Tombstone] - forgotten
    made_in_all = counts[MadeSummary] + counts[RollingSummary], counts[MadeVector]
    return Exported(counts[Conversation], counts[Message], forgotten, size, kept, *made_in_all)


def is_export(path: Path) -> bool:
    """True for a file that begins as an export does, of whatever version.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return _fields(stream.readline(_HEADER_BYTES)).get("format") == FORMAT


def read_export(path: Path) -> Iterator[ExportLine]:
    """The events of an export, in order.

    Raises:
        ExportError: a newer Harken made it, or a line of it is damaged, or it was cut short; what came before the
            damage has been yielded.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        header = stream.readline(_HEADER_BYTES)
        version, offset = _fields(header).get("version"), len(header)
        if _fields(header).get("format") != FORMAT or not isinstance(version, int):
            raise ExportError(f"{path} is not an export of Harken.")
        if version > VERSION:
            raise ExportError(
                f"{path} was exported by a newer Harken (version {version} of the format; this one reads {VERSION}). "
                "Nothing was imported. Upgrade: pip install --upgrade harken"
            )
        number = 1
        for line in stream:
            number, offset = number + 1, offset + len(line)
            fields = _fields(line) if line.endswith(b"\n") else {}
            if fields.get("end") == FORMAT:
                # Neither the first line nor the last one counts.
                if fields.get("lines") != number - 2:
                    raise ExportError(
                        f"{path} has {number - 2} lines where its end says {fields.get('lines')}. {_REST}"
                    )
                return
            sound = sound_value(fields)
            event = derived_from_fields(sound) or event_from_fields(sound)
            if event is None or (not isinstance(event, Derived) and (fault := _fault(event))):
                reason = f": {fault}" if event is not None else " of an export"
                raise ExportError(f"{path}, line {number} is no whole line{reason}. {_REST}")
            yield ExportLine(event, number, offset)
    raise ExportError(f"{path} was cut short: it ends at line {number}, without the line that ends an export. {_REST}")


_REST = "What came before it was imported. Copy or export it anew, and import that: only what is missing is added."


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _fields(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _fault(event: Event) -> str:
    """Name what an export may not bring, though a line can say it; empty where all is well."""
    if isinstance(event, CoreFact):
        is_known = event.section in SECTIONS or (event.section == RULES and event.value in (None, *_DECIDED))
        return "" if is_known and event.key and event.value != "" else "a core memory that is none"
    ids = [value for name in _ID_FIELDS if (value := getattr(event, name, None)) is not None]
    if not all(_ID.fullmatch(value) for value in ids):
        return "an id is none"
    if not isinstance(event, SavedRecord | Rated) and not RESERVED.isdisjoint(ids):
        return "an id is the name of a folder of the journal"
    if fault := _out_of_range(event):
        return fault
    if isinstance(event, ExchangeEnd) and event.status is ExchangeStatus.IN_PROGRESS:
        return "an end that is none"
    if isinstance(event, Titled | Trusted):
        return "a title stands with its conversation, a trust with its message"
    if isinstance(event, Tombstone):
        whole = event.kind == "conversation"
        return "" if event.kind == "message" or (whole and event.uid == event.conversation_uid) else "of no known kind"
    if isinstance(event, Conversation | SavedRecord) and event.project is not None:
        names = (event.project.key, event.project.name, *event.project.aliases)
        return "" if all(isinstance(name, str) for name in names) else "a project's name is none"
    return ""


def _out_of_range(event: Event) -> str:
    if isinstance(event, SavedRecord) and not 0 <= (event.fields or {}).get("importance", 0) <= 1:
        return "an importance is out of range"
    if isinstance(event, Segment | Exchange) and not 0 < event.number <= _MOST:
        return "a number is out of range"
    if isinstance(event, Message) and not 0 <= event.position <= _LAST_POSITION:
        return "a position is out of range"
    return ""
