"""Bringing an export into a store that may have a part of it already, or have gone on since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import Table, select

from harken.errors import ExportError
from harken.model import (
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Grave,
    Kept,
    Message,
    Segment,
    Titled,
    Tombstone,
)
from harken.record.cleaning import clean_event
from harken.record.export import ExportLine, read_export
from harken.record.forget import Doomed, Forgotten, doom_forgotten
from harken.record.recorder import Recorder
from harken.storage.batches import rows_in
from harken.storage.consent import note_imported
from harken.storage.core import core_facts
from harken.storage.ingest import Ingest
from harken.storage.kept.rows import kept_times
from harken.storage.known import find_known, find_tombstones
from harken.storage.store import Transaction
from harken.storage.tables import conversations, exchanges, segments, tombstones

# One transaction: others wait for the write lock no longer than a fraction of a second.
_BATCH_EVENTS = 2000

Forget = Callable[[Doomed], Forgotten]


@dataclass(slots=True)
class Merged:
    """What one batch of an export has brought.

    Attributes:
        added: messages that are new here.
        known: messages that were here before.
        forgotten: messages that were forgotten here earlier, and stay so.
        erased: messages that were here, and that the export says were forgotten.
        kept: memories and other records that are new here, or in a later state.
        conversations: ids of the conversations that the new messages belong to.
        offset: how far the file has been read, in bytes.
    """

    added: int = 0
    known: int = 0
    forgotten: int = 0
    erased: int = 0
    kept: int = 0
    conversations: set[str] = field(default_factory=set)
    offset: int = 0


def merge_export(recorder: Recorder, file: Path, forget: Forget) -> Iterator[Merged]:
    """Bring in what the store lacks, a transaction per batch; to be run again after whatever stopped it.

    Secrets that the rules of the other store let pass, or that it kept because redaction was off, are taken out. Ids
    stay; a record that goes back to where it came from is known there, and changes nothing.

    Args:
        recorder: where they go.
        file: an export.
        forget: erases what was forgotten elsewhere and is still here.
    Raises:
        ExportError: see `read_export`; also where a record belongs to one that neither the file nor the store has.
        StoreError: the store refuses; what was brought in before stays.
    """
    lines = read_export(file)
    while True:
        batch, broken = _next_batch(lines)
        if batch:
            yield _write(recorder, file, batch, forget)
        if broken is not None:
            raise broken
        if not batch:
            return


def _next_batch(lines: Iterator[ExportLine]) -> tuple[list[ExportLine], ExportError | None]:
    """The next lines, and the damage behind them if there is any: what came before it is sound."""
    batch: list[ExportLine] = []
    try:
        for line in islice(lines, _BATCH_EVENTS):
            batch.append(line)
    except ExportError as error:
        return batch, error
    return batch, None


def _write(recorder: Recorder, file: Path, lines: Sequence[ExportLine], forget: Forget) -> Merged:
    """Records first, then what was forgotten: then it does not matter in which order a file has them."""
    done = Merged(offset=lines[-1].end)
    events = [clean_event(recorder, line.event) for line in lines if not _is_grave(line.event)]
    graves = [line.event for line in lines if isinstance(line.event, Grave) and _is_grave(line.event)]

    def lacking(tx: Transaction, ingest: Ingest) -> list[Event]:
        fresh = ingest.unknown(events)
        _check_heads(tx, fresh, f"{file}, lines {lines[0].number} to {lines[-1].number}")
        _count(tx, events, fresh, done)
        changes = _changes(tx, fresh, _retitled(tx, events, recorder.now()))
        done.kept = sum(1 for event in changes if isinstance(event, Kept))
        begun = sorted((event for event in fresh if isinstance(event, Exchange)), key=lambda event: event.number)
        note_imported(tx, {event.conversation_uid: event.number for event in begun})
        return changes

    if events:
        recorder.admit(_conversations(events), lacking)
    if graves:
        done.erased = _bury(recorder, graves, forget)
    return done


def _is_grave(event: Event) -> bool:
    return isinstance(event, Tombstone) or (isinstance(event, Kept) and event.fields is None)


def _bury(recorder: Recorder, graves: Sequence[Grave], forget: Forget) -> int:
    """Erase what is here of what was forgotten elsewhere, and remember the rest as forgotten; how many messages."""
    with recorder.store.reading() as tx:
        doomed = doom_forgotten(tx, graves)
    if doomed.tombstones:
        forget(doomed)

    def lacking(tx: Transaction, _ingest: Ingest) -> list[Event]:
        known = find_known(tx, tombstones, [grave.uid for grave in graves])
        return [grave for grave in {grave.uid: grave for grave in graves}.values() if grave.uid not in known]

    recorder.admit(_conversations(graves), lacking)
    return doomed.messages


def _conversations(events: Sequence[Event]) -> list[str]:
    return sorted({event.uid if isinstance(event, Conversation) else event.conversation_uid for event in events})


def _check_heads(tx: Transaction, fresh: Sequence[Event], place: str) -> None:
    """Every record must belong to a conversation, a segment and an exchange that are here, or come with it."""
    present = {event.uid for event in fresh if isinstance(event, Conversation | Segment | Exchange)}
    needed: dict[str, tuple[Table, set[str]]] = {
        "conversation_uid": (conversations, set()),
        "segment_uid": (segments, set()),
        "exchange_uid": (exchanges, set()),
    }
    for event in (event for event in fresh if not isinstance(event, CoreFact | Kept)):
        for name, (_, uids) in needed.items():
            uid = getattr(event, name, None)
            if uid is not None and uid not in present:
                uids.add(uid)
    for table, uids in needed.values():
        lost = uids - find_known(tx, table, list(uids))
        if lost:
            raise ExportError(
                f"{place}, is not whole: {min(lost)} of {table.name} is named, and neither the file nor the store has "
                "it. Export it anew; what was imported stays."
            )


def _count(tx: Transaction, events: Sequence[Event], fresh: Sequence[Event], done: Merged) -> None:
    added = {event.uid: event.conversation_uid for event in fresh if isinstance(event, Message)}
    rest = [event for event in events if isinstance(event, Message) and event.uid not in added]
    gone = find_tombstones(tx, {uid for event in rest for uid in (event.uid, event.conversation_uid)})
    done.added = len(added)
    done.conversations = set(added.values())
    done.forgotten = sum(1 for event in rest if not gone.isdisjoint((event.uid, event.conversation_uid)))
    done.known = len(rest) - done.forgotten


def _changes(tx: Transaction, fresh: Sequence[Event], titles: Sequence[Event]) -> list[Event]:
    """What is to be written: of ends, only those of exchanges that are new or were still in progress here."""
    begun = {event.uid for event in fresh if isinstance(event, Exchange)}
    open_here = _in_progress(tx, {event.exchange_uid for event in fresh if isinstance(event, ExchangeEnd)} - begun)
    wanted = begun | open_here
    kept = [event for event in fresh if not isinstance(event, ExchangeEnd) or event.exchange_uid in wanted]
    known = {fact.uid: fact.at for fact in core_facts(tx)} if any(isinstance(one, CoreFact) for one in kept) else {}
    for source in {event.source for event in kept if isinstance(event, Kept)}:
        known |= kept_times(tx, source, [event.uid for event in kept if isinstance(event, Kept)])
    return [*(event for event in kept if not _is_outlived(event, known)), *titles]


def _is_outlived(event: Event, known: Mapping[str, datetime]) -> bool:
    """Of what both stores have, the one that was set later holds."""
    return isinstance(event, CoreFact | Kept) and event.uid in known and event.at <= known[event.uid]


def _in_progress(tx: Transaction, uids: set[str]) -> set[str]:
    statement = select(exchanges.c.uid).where(
        exchanges.c.tenant == tx.tenant, exchanges.c.status == ExchangeStatus.IN_PROGRESS.value
    )
    return {row.uid for row in rows_in(tx, statement, exchanges.c.uid, uids)}


def _retitled(tx: Transaction, events: Sequence[Event], moment: datetime) -> list[Event]:
    """Titles that conversations of this store have been given elsewhere since."""
    titles = {event.uid: event.title for event in events if isinstance(event, Conversation) and event.title}
    statement = select(conversations.c.uid, conversations.c.title).where(conversations.c.tenant == tx.tenant)
    present = {row.uid: row.title for row in rows_in(tx, statement, conversations.c.uid, titles)}
    return [Titled(uid, titles[uid], moment) for uid, title in present.items() if title != titles[uid]]
