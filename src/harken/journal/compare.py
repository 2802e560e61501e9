"""Journal and rows compared by what they say, folder by folder, and brought to say the same.

A line with its checksum is right, whatever the rows say. Of a line without one, which an older Harken wrote, the rows
are right where a message and the entry that search has of it are two that say the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from harken.errors import StoreCorruptError
from harken.journal.journal import Journal
from harken.journal.lines import line_from_event
from harken.journal.replay import FORGETTING, IngestOf, give_back, remake, replay_conversation
from harken.model.conversations import (
    Conversation,
    CoreFact,
    Event,
    Exchange,
    Labelled,
    Message,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trust,
    Trusted,
)
from harken.model.marks import Rated
from harken.storage.entries import MessageEntry, is_searchable, message_entries, record_entries
from harken.storage.events import EventName, events_of, name_of
from harken.storage.ports import Transaction
from harken.storage.records.rows import KEPT, SOURCE_OF_FOLDER
from harken.storage.state import put_journal_offset

_SPOKEN_OR_KEPT = (Message.__name__, SavedRecord.__name__)
_HEADS = tuple(kind.__name__ for kind in (Conversation, Segment, Exchange, CoreFact, Labelled, Rated))
_IDS = ("uid", "conversation_uid", "segment_uid", "exchange_uid")


@dataclass(frozen=True, slots=True)
class _Statement:
    """What one side says under a name.

    Attributes:
        content: all that never changes: a checksum, of a saved record its row.
        position: a message's; 0 in lines from before there were positions.
        changing: a conversation's title, a message's trust.
        at: when a saved record or a label changed.
    """

    content: object
    position: int = 0
    changing: str = ""
    at: datetime | None = None
    is_sealed: bool = False

    def agrees(self, row: _Statement) -> bool:
        return (self.content, self.at) == (row.content, row.at) and self.position in (0, row.position)


@dataclass(slots=True)
class _Told:
    """What the journal says of a folder: under each name in one way or more, for a record that changes has several."""

    statements: dict[EventName, list[_Statement]] = field(default_factory=dict)
    changed: dict[EventName, set[str]] = field(default_factory=dict)
    broken: int = 0
    strange: set[str] = field(default_factory=set)

    def lacks(self, name: EventName, row: _Statement) -> bool:
        """Whether the row's state came after all that is told; one with a mere other moment is a damaged row."""
        told = self.statements.get(name, ())
        return all(one.at and row.at and one.at < row.at and one.content != row.content for one in told)

    def agrees(self, name: EventName, row: _Statement) -> bool:
        later = self.changed.get(name, ())
        return any(one.agrees(row) and row.changing in (one.changing, *later) for one in self.statements[name])


@dataclass(slots=True)
class Comparison:
    """The differences of one folder.

    Attributes:
        missing: what the rows hold and the journal has lost.
        lacking: what the journal tells and the rows lack.
        unburied: how much was forgotten in the journal alone; likewise `unforgotten` in the rows alone.
        broken: damaged lines of the journal.
        wrong_rows: what the rows say otherwise than the journal, which is right.
        wrong_lines: what the journal says otherwise than the rows, which are right.
        strange: ids of what the rows know, in lines without checksum that look like a newer Harken's: damaged ones.
        wrong_entries: entries that search sees and that are not what their messages are.
        is_unreadable: the rows hold what nobody can read.
    """

    uid: str
    missing: set[EventName] = field(default_factory=set)
    lacking: set[EventName] = field(default_factory=set)
    unburied: int = 0
    unforgotten: int = 0
    broken: int = 0
    wrong_rows: set[EventName] = field(default_factory=set)
    wrong_lines: set[EventName] = field(default_factory=set)
    strange: set[str] = field(default_factory=set)
    wrong_entries: int = 0
    is_unreadable: bool = False

    def problems(self) -> Iterator[str]:
        """One sentence for each kind of difference."""
        saved = self.uid in SOURCE_OF_FOLDER
        place, what = (self.uid, "records") if saved else (f"conversation {self.uid}", "messages")
        broken = self.broken + len(self.strange)
        missed, lacked = (len(_of_kind(names, *_SPOKEN_OR_KEPT)) for names in (self.missing, self.lacking))
        more = len(self.missing) - missed
        others = f"{lacked} {what}" if lacked else f"{len(self.lacking)} events"
        counted = (
            (broken, f"{broken} lines of the journal of {place} are damaged."),
            (self.is_unreadable, f"Rows of {place} cannot be read; the journal is right."),
            (self.missing, f"The journal of {place} lacks {missed} {what} and {more} other events of the rows."),
            (self.lacking, f"The rows lack {others} of the journal of {place}."),
            (self.wrong_rows, f"{len(self.wrong_rows)} rows of {place} differ from the journal, which is right."),
            (self.wrong_lines, f"{len(self.wrong_lines)} lines of {place} differ from the rows, which are right."),
            (self.wrong_entries, f"Search sees {self.wrong_entries} {what} of {place} otherwise than they are."),
            (self.unburied, f"The rows do not know that {self.unburied} records of {place} were forgotten."),
            (self.unforgotten, f"The journal still has {self.unforgotten} forgotten {what} of {place}."),
        )
        yield from (problem for found, problem in counted if found)


@dataclass(slots=True)
class Lost:
    """What rows lack anywhere: a row of the same name or the same content elsewhere is a damaged copy, not more."""

    names: set[EventName] = field(default_factory=set)
    twins: set[tuple[str, object]] = field(default_factory=set)

    def add(self, journal: Journal, found: Comparison) -> None:
        """Note what a folder's rows lack."""
        if found.lacking:
            self.names |= found.lacking
            self.twins |= {_twin(event) for event in _told_under(journal, found.uid, found.lacking)}

    def has(self, event: Event) -> bool:
        """Whether it is one of those, whatever its ids say."""
        return name_of(event) in self.names or _twin(event) in self.twins


def compare(tx: Transaction, journal: Journal, uid: str, lost: Lost | None = None) -> Comparison:
    """Compare a folder's rows with its journal; what is `lost` elsewhere is not missing here."""
    told, found = _tell(journal, uid), Comparison(uid)
    held: dict[EventName, _Statement] = {}
    doubtful: dict[EventName, bool] = {}
    unsure: dict[EventName, object] = {}
    try:
        entries = message_entries(tx, uid)
        seen = record_entries(tx, SOURCE_OF_FOLDER[uid]) if uid in SOURCE_OF_FOLDER else set()
        for event in events_of(tx, uid):
            name = name_of(event)
            held[name] = row = _statement(event)
            entry = entries.pop(event.uid, None) if isinstance(event, Message) else None
            is_shown = not isinstance(event, Message) or _is_shown(event, entry)
            found.wrong_entries += not is_shown
            if isinstance(event, SavedRecord) and event.fields is not None:
                made = (new for new in KEPT[event.source].entries(event) if new.text.strip())
                seen ^= {(event.uid, new.part, new.text, event.fields["trust"]) for new in made}
            if told.lacks(name, row):
                doubtful[name] = entry is not None and is_shown
            elif not told.agrees(name, row):
                if any(one.is_sealed for one in told.statements[name]) or entry is None or not is_shown:
                    found.wrong_rows.add(name)
                else:
                    unsure[name] = _witnessed(event)
    except (StoreCorruptError, DBAPIError, ValueError, TypeError, AttributeError):
        return Comparison(uid, broken=told.broken, is_unreadable=True)
    # Where only ids differ of what a message belongs to, its entry is no witness.
    unwitnessed = {name_of(one) for one in _told_under(journal, uid, unsure) if unsure[name_of(one)] == _witnessed(one)}
    found.wrong_rows |= unwitnessed
    found.wrong_lines |= unsure.keys() - unwitnessed
    found.wrong_entries += len(entries) + len({uid for uid, *_ in seen})
    found.broken, found.strange = told.broken, told.strange & {uid for _, uid in held}
    _bury(found, set(told.statements), set(held))
    _sort_out(tx, journal, found, told, doubtful, lost or Lost())
    return found


def _is_shown(message: Message, entry: MessageEntry | None) -> bool:
    return not is_searchable(message) if entry is None else entry.is_of(message)


def _bury(found: Comparison, written: set[EventName], held: set[EventName]) -> None:
    """Find what one side has forgotten alone, and what the rows lack without it."""
    journalled, kept = _of_kind(written, *_SPOKEN_OR_KEPT), _of_kind(held, *_SPOKEN_OR_KEPT)
    graves, buried = _of_kind(held, Tombstone.__name__), _of_kind(written, Tombstone.__name__)
    is_forgotten = found.uid in graves
    forgotten = journalled if is_forgotten else journalled & graves
    unburied = buried - graves | (kept if found.uid in buried else kept & buried)
    found.unforgotten, found.unburied = len(forgotten), len(unburied)
    wanted = {name for name in written - held if name[0] in (*_SPOKEN_OR_KEPT, *_HEADS)}
    if not is_forgotten and found.uid not in buried:
        found.lacking = {name for name in wanted if name[1] not in graves | buried}


def _sort_out(
    tx: Transaction, journal: Journal, found: Comparison, told: _Told, doubtful: dict[EventName, bool], lost: Lost
) -> None:
    """Say of rows that the journal does not name whether it has lost them, or they are damaged copies of others."""
    if not doubtful:
        return
    lost.add(journal, found)
    if not lost.names:
        found.missing = set(doubtful)
        return
    lines = {_twin(event): name_of(event) for event in _told_under(journal, found.uid, found.lacking)}
    for event in events_of(tx, found.uid):
        name = name_of(event)
        if name not in doubtful:
            continue
        line = lines.get(_twin(event))
        if line is not None and doubtful[name] and not any(one.is_sealed for one in told.statements[line]):
            # Message and entry agree on their id, and the line has nothing to hold against it.
            found.wrong_lines.add(line)
            found.lacking.discard(line)
            found.missing.add(name)
        else:
            (found.wrong_rows if lost.has(event) else found.missing).add(name)


def settle(tx: Transaction, journal: Journal, found: Comparison, ingest: IngestOf) -> None:
    """Bring both sides to say the same: what is right stays, and what one has lost it gets from the other."""
    uid = found.uid
    rewritten: dict[str, int] = {}
    if found.wrong_lines or found.strange:
        right = {name_of(event): event for event in events_of(tx, uid) if name_of(event) in found.wrong_lines}
        rewritten = journal.rewrite(
            uid,
            lambda event: right.get(name_of(event)) if name_of(event) in found.wrong_lines else event,
            keep=lambda line: line.fields.get("id") not in found.strange,
        )
    if found.unforgotten or found.unburied or found.broken or rewritten:
        for path in {*rewritten, *(path for path, _ in journal.files(uid))}:
            put_journal_offset(tx, path, FORGETTING if found.unforgotten else 0)
        replay_conversation(tx, journal, uid, ingest(tx))
    if found.missing:
        give_back(tx, journal, uid, [event for event in events_of(tx, uid) if name_of(event) in found.missing])
    if found.lacking or found.wrong_rows or found.wrong_entries or found.is_unreadable:
        remake(tx, journal, uid, ingest(tx), damaged=_tell(journal, uid).statements)


def _tell(journal: Journal, uid: str) -> _Told:
    told = _Told()
    for path, _ in journal.files(uid):
        for line in journal.read(path):
            told.broken += line.is_broken
            event = line.event
            if isinstance(event, Titled):
                told.changed.setdefault((Conversation.__name__, event.conversation_uid), set()).add(event.title)
            elif isinstance(event, Trusted):
                told.changed.setdefault((Message.__name__, event.uid), set()).add(event.trust.value)
            elif event is not None:
                _note(told, event, line.is_sealed)
            elif not line.is_sealed:
                told.strange.add(str(line.fields.get("id")))
    return told


def _note(told: _Told, event: Event, is_sealed: bool) -> None:
    name, said = name_of(event), replace(_statement(event), is_sealed=is_sealed)
    if isinstance(event, CoreFact) and event.value is None:
        told.statements.pop(name, None)
        return
    before = told.statements.setdefault(name, [])
    # Of a saved record, and of a label, the latest state counts.
    if said.at is not None and before and before[0].at is not None:
        if before[0].at > said.at:
            return
        if before[0].at < said.at:
            before.clear()
    before.append(said)


def _told_under(journal: Journal, uid: str, names: Collection[EventName]) -> Iterator[Event]:
    events = (line.event for path, _ in journal.files(uid) for line in journal.read(path))
    return (event for event in events if event is not None and name_of(event) in names)


def _statement(event: Event) -> _Statement:
    if isinstance(event, Message):
        plain = replace(event, position=0, trust=Trust.OWNER)
        return _Statement(_checksum(plain), event.position, event.trust.value)
    if isinstance(event, Conversation):
        # Its project may have got another name, and its last message tells how new it is.
        return _Statement(_checksum(replace(event, title="", project=None)), changing=event.title)
    if isinstance(event, SavedRecord):
        # What is empty is nothing in some columns.
        row = {} if event.fields is None else KEPT[event.source].row(event)
        return _Statement({name: value or None for name, value in row.items()}, at=event.at)
    if isinstance(event, Tombstone):
        return _Statement(None)
    if isinstance(event, Labelled):
        return _Statement((event.title, event.tags, event.project), at=event.at)
    return _Statement(_checksum(event))


def _checksum(event: Event) -> int:
    return zlib.crc32(line_from_event(event))


def _twin(event: Event) -> tuple[str, object]:
    """What an event says but for its ids."""
    bare: Any = event
    bare = replace(bare, **dict.fromkeys((name for name in _IDS if name in bare.__dataclass_fields__), ""))
    content = _statement(bare).content
    return type(event).__name__, content if isinstance(content, int) else repr(content)


def _witnessed(event: Event) -> object:
    return _twin(event), event.position if isinstance(event, Message) else 0


def _of_kind(names: Iterable[EventName], *kinds: str) -> set[str]:
    return {uid for name, uid in names if name in kinds}
