"""Bringing the journal's events into the rows: the tail that a dead process left, or everything anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import strftime

from sqlalchemy.exc import DBAPIError

from harken.errors import StoreCorruptError
from harken.journal.journal import Journal, Replayed
from harken.journal.lines import JournalLine, event_time
from harken.log import Log
from harken.model.conversations import (
    CORE_MEMORY,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeStatus,
    Grave,
    Labelled,
    Message,
    SavedRecord,
    Segment,
    Titled,
    Trusted,
)
from harken.model.marks import Rated
from harken.storage.conversations import find_conversation, find_known, tombstones_of
from harken.storage.enrichment.segments import RollingSummary, put_rolling, rolling_summaries
from harken.storage.enrichment.summaries import restore_summaries
from harken.storage.events import EventName, Ingest, delete_conversation_rows, drop_damaged_rows, events_of, name_of
from harken.storage.ports import Store, Transaction
from harken.storage.records.marks import drop_ratings, own_label
from harken.storage.records.rows import SOURCE_OF_FOLDER, drop_kept
from harken.storage.state import (
    drop_core_facts,
    drop_journal_offset,
    journal_offset,
    journal_offsets,
    put_journal_offset,
)
from harken.storage.tables import conversations, exchanges, segments
from harken.storage.vectors import restore_vectors, vectors_of_folder

_log = Log(__name__)

# The journal offset of a file whose forgotten words still have to be taken out; rows are already without them.
FORGETTING = -1

IngestOf = Callable[[Transaction], Ingest]


def replay_tail(store: Store, journal: Journal, ingest: IngestOf) -> Replayed:
    """Bring every event that the rows lack into them; costs one look at each file's size when there is none."""
    done = Replayed(0, 0, [])
    for _ in replay(store, journal, ingest, done):
        pass
    return done


def replay(store: Store, journal: Journal, ingest: IngestOf, done: Replayed) -> Iterator[tuple[int, int]]:
    """The same, a transaction per conversation, yielding (conversations done, conversations in all)."""
    with store.reading() as tx:
        waiting = journal.behind(journal_offsets(tx))
    folders = [folder for folder, _ in groupby(waiting, key=lambda path: path.partition("/")[0])]
    for number, folder in enumerate(folders, start=1):
        with store.writing() as tx:
            replay_conversation(tx, journal, folder, ingest(tx), done)
        done.conversations = number
        yield number, len(folders)


def replay_conversation(
    tx: Transaction, journal: Journal, folder: str, ingest: Ingest, done: Replayed | None = None
) -> None:
    """Apply what the rows lack of one conversation, all its files at once: its head may be in an earlier one."""
    done = done if done is not None else Replayed(0, 0, [])
    events: list[Event] = []
    ends: dict[str, int] = {}
    applied = {path: journal_offset(tx, path) for path, _ in journal.files(folder)}
    if FORGETTING in applied.values():
        _cleanse(tx, journal, folder)
        # The note stood where the offset did, so a dead writer's tail may be among what is left: look at all of it.
        applied.clear()
    for path, size in journal.files(folder):
        start = applied.get(path, 0)
        # A file that is shorter than what was applied has been damaged from outside: read it anew, whole.
        found, ends[path] = _sound_events(journal, path, start if start <= size else 0, done)
        events.extend(found)
    done.messages += ingest.apply(_in_recorded_order(_with_heads(tx, events)))
    for path, end in ends.items():
        put_journal_offset(tx, path, end)


def superseded(tx: Transaction, journal: Journal, folder: str) -> None:
    """Note that files of a folder hold words that others stand in place of now; `replay_conversation` erases them."""
    for path, _ in journal.files(folder):
        put_journal_offset(tx, path, FORGETTING)


def _cleanse(tx: Transaction, journal: Journal, folder: str) -> None:
    """Rewrite a folder's files without the words of what was forgotten, or of what stood there before.

    Of what was forgotten the ids remain as tombstones. A title that went with its words goes from all lines; of core
    memories and saved records the last state stays.
    """
    last = last_states(journal, folder) if folder == CORE_MEMORY or folder in SOURCE_OF_FOLDER else {}
    is_there, said = find_conversation(tx, folder) is not None, own_label(tx, folder)
    has_title, is_named = not is_there or bool(said.title), not is_there or bool(said.label and said.label.title)
    graves = {grave.uid: grave for grave in tombstones_of(tx, folder)}
    written: set[str] = set()

    def without_forgotten(event: Event) -> Event | None:
        uid = event.ref_uid if isinstance(event, Rated) else getattr(event, "uid", "")
        named = graves.get(uid) if isinstance(event, Message | Trusted | Rated | Grave) else None
        grave = named or graves.get(folder)
        if grave is None:
            if isinstance(event, CoreFact | SavedRecord) and event != last[event.uid]:
                return None
            if isinstance(event, Labelled) and event.title and not is_named:
                return replace(event, title="")
            if isinstance(event, Conversation) and event.title and not has_title:
                return replace(event, title="")
            return event if has_title or not isinstance(event, Titled) else None
        first = grave.uid not in written
        written.add(grave.uid)
        return grave if first else None

    def is_of_others(line: JournalLine) -> bool:
        named = (value for value in line.fields.values() if isinstance(value, str))
        return folder not in graves and graves.keys().isdisjoint(named)

    for path, size in journal.rewrite(folder, without_forgotten, is_of_others).items():
        if size == 0:
            drop_journal_offset(tx, path)
    sizes = dict(journal.files(folder))
    lost = [grave for uid, grave in graves.items() if uid not in written]
    journal.append(lost, lambda path: sizes.get(path, 0), lambda _path: None)


def last_states(journal: Journal, folder: str) -> dict[str, CoreFact | SavedRecord]:
    """The lines of core memories and saved records that hold, as they are applied, by id."""
    last: dict[str, CoreFact | SavedRecord] = {}
    events = (line.event for path, _ in journal.files(folder) for line in journal.read(path))
    for event in events:
        if isinstance(event, CoreFact) or (
            isinstance(event, SavedRecord) and event.at >= last.get(event.uid, event).at
        ):
            last[event.uid] = event
    return last


def was_titled(journal: Journal, folder: str, title: str) -> bool:
    """True where a conversation has or had a title, by its journal."""
    events = (line.event for path, _ in journal.files(folder) for line in journal.read(path))
    return any(isinstance(event, Conversation | Titled) and event.title == title for event in events)


def _sound_events(journal: Journal, path: str, start: int, done: Replayed) -> tuple[list[Event], int]:
    events: list[Event] = []
    broken: list[tuple[int, int]] = []
    offset = start
    for line in journal.read(path, start):
        begin = line.end - len(line.raw)
        if line.is_broken:
            begin = broken.pop()[0] if broken and broken[-1][1] == begin else begin
            broken.append((begin, line.end))
        elif line.event is not None:
            events.append(line.event)
        offset = line.end
    for begin, end in reversed(broken):
        torn = journal.set_aside(path, begin, end)
        _log.warning("journal_line_set_aside", file=path, offset=torn.offset, length=torn.length)
        done.torn.append(torn)
        offset -= torn.length
    return events, offset


def _in_recorded_order(events: list[Event]) -> list[Event]:
    """The events, with messages that an older Harken wrote without a position in the order in which it recorded them.

    It wrote each day's messages into a file of their own, whatever stood between them; exchanges were counted.
    """
    numbers = {event.uid: event.number for event in events if isinstance(event, Exchange)}
    unplaced = [event for event in events if isinstance(event, Message) and not event.position]
    ordered = iter(sorted(unplaced, key=lambda message: numbers.get(message.exchange_uid, 0)))
    return [next(ordered) if isinstance(event, Message) and not event.position else event for event in events]


def _with_heads(tx: Transaction, events: list[Event]) -> list[Event]:
    """The events, with plain stand-ins for conversations, segments and exchanges whose own lines are lost."""
    placed = [event for event in events if isinstance(event, Segment | Exchange | Message)]
    within = [event for event in placed if isinstance(event, Exchange | Message)]
    spoken = [event for event in within if isinstance(event, Message)]
    known = {event.uid for event in events if isinstance(event, Conversation | Segment | Exchange)}
    known |= find_known(tx, conversations, list({event.conversation_uid for event in placed}))
    known |= find_known(tx, segments, list({event.segment_uid for event in within}))
    known |= find_known(tx, exchanges, list({event.exchange_uid for event in spoken}))
    lost: dict[str, Event] = {}
    for event in placed:
        uid, moment = event.conversation_uid, event_time(event)
        lost.setdefault(uid, Conversation(uid, "unknown", uid, "", moment, moment))
    for event in within:
        lost.setdefault(event.segment_uid, Segment(event.segment_uid, event.conversation_uid, 1, event_time(event)))
    number = max((event.number for event in events if isinstance(event, Exchange)), default=0)
    for event in spoken:
        uid, moment, ended = event.exchange_uid, event.created_at, ExchangeStatus.COMPLETED
        if uid not in known | lost.keys():
            number += 1
            lost[uid] = Exchange(uid, event.conversation_uid, event.segment_uid, number, ended, moment, moment)
    return [*(head for uid, head in lost.items() if uid not in known), *events]


def reindex(store: Store, journal: Journal, ingest: IngestOf, done: Replayed) -> Iterator[tuple[int, int]]:
    """Make every conversation's rows anew from the journal, yielding (conversations done, in all).

    What a damaged line told and the rows still hold goes back to the journal first.
    """
    folders = sorted({path.partition("/")[0] for path, _ in journal.files()})
    for number, folder in enumerate(folders, start=1):
        with store.writing() as tx:
            torn = len(done.torn)
            found = [_sound_events(journal, path, 0, done)[0] for path, _ in journal.files(folder)]
            if len(done.torn) > torn:
                told = {name_of(event) for events in found for event in events}
                give_back(tx, journal, folder, [event for event in events_of(tx, folder) if name_of(event) not in told])
            del found
            remake(tx, journal, folder, ingest(tx), done)
        done.conversations = number
        yield number, len(folders)
    store.nearest.discard()


def give_back(tx: Transaction, journal: Journal, folder: str, events: list[Event]) -> None:
    """Give the journal back what it has lost of a folder and the rows still hold."""
    sizes = dict(journal.files(folder))
    for part in journal.append(events, lambda path: sizes.get(path, 0), lambda _path: None):
        if journal_offset(tx, part.path) == part.start:
            put_journal_offset(tx, part.path, part.end)


def remake(
    tx: Transaction,
    journal: Journal,
    folder: str,
    ingest: Ingest,
    done: Replayed | None = None,
    damaged: Collection[EventName] = (),
) -> None:
    """Make a folder's rows anew from the journal; where they are damaged, those of all these names wherever they are.

    Ids, texts, segments and tombstones come back as they were; vectors are kept where their entry comes back, with the
    rules that they tell of, and summaries, which the journal has not, where what they summarize does.
    """
    kept, rolling = vectors_of_folder(tx, folder, SOURCE_OF_FOLDER.get(folder)), list[RollingSummary]()
    with suppress(StoreCorruptError, DBAPIError):
        rolling += rolling_summaries(tx, folder)
    if damaged:
        drop_damaged_rows(tx, folder, damaged)
    delete_conversation_rows(tx, folder)
    if folder == CORE_MEMORY:
        drop_core_facts(tx)
    if folder in SOURCE_OF_FOLDER:
        drop_kept(tx, SOURCE_OF_FOLDER[folder])
        drop_ratings(tx, folder=folder)
    for path, _ in journal.files(folder):
        if journal_offset(tx, path) != FORGETTING:
            put_journal_offset(tx, path, 0)
    # Webhooks were told of it when it came.
    ingest.now = None
    replay_conversation(tx, journal, folder, ingest, done)
    restore_summaries(tx, folder)
    for summary in rolling:
        put_rolling(tx, summary)
    # Takes longer to import than all else that recording needs.
    from harken.storage.records.rules import note_rules

    for found in restore_vectors(tx, kept):
        note_rules(tx, *found)


def set_database_aside(database: Path) -> list[Path]:
    """Move a damaged database out of the way, and give its new names; the next opening makes a new one."""
    suffix = strftime("damaged-%Y%m%d-%H%M%S")
    moved = []
    for name in (database.name, f"{database.name}-wal", f"{database.name}-shm"):
        file = database.with_name(name)
        if file.exists():
            moved.append(file.rename(database.with_name(f"{name}.{suffix}")))
    return moved


def drop_set_aside(database: Path) -> int:
    """Remove what `set_database_aside` moved: it still holds what has been forgotten since; how many files."""
    found = list(database.parent.glob(f"{database.name}*.damaged-*"))
    for file in found:
        file.unlink(missing_ok=True)
    return len(found)
