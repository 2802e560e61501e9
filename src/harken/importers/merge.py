"""Bringing an export into a store that may have a part of it already, or have gone on since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import Table, select

from harken.errors import ExportError
from harken.importers.strangers import capped, changes_of_own, claims_trust, is_grave, present_kept
from harken.journal.export import ExportLine, read_export
from harken.model.conversations import (
    EMPTY,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Grave,
    Message,
    SavedRecord,
    Segment,
    Titled,
)
from harken.record.forget import ForgetPlan, Forgotten, plan_tombstones
from harken.record.recorder import Recorder
from harken.storage.conversations import find_known, find_tombstones, raised_trust
from harken.storage.enrichment.consent import note_imported
from harken.storage.events import Ingest
from harken.storage.ports import Transaction, rows_in
from harken.storage.positions import find_places
from harken.storage.state import REDACTED, core_facts
from harken.storage.tables import conversations, exchanges, segments, tombstones


def clean_event(recorder: Recorder, event: Event) -> Event:
    """The event without secrets and private passages, under the same ids; itself where it holds none."""
    redact, names = recorder.redactor.redact, recorder.names
    if isinstance(event, Message):
        # How much was taken out before is no secret, whatever the kinds are called.
        before = event.metadata.get(REDACTED, EMPTY)
        facts = {key: value for key, value in event.metadata.items() if key != REDACTED}
        counts = before if isinstance(before, Mapping) else EMPTY
        return replace(event, **recorder.cleaned(event, event.text, facts, counts))
    if isinstance(event, Conversation):
        return replace(
            event,
            channel=names.text(event.channel),
            external_id=names.text(event.external_id),
            title=redact(event.title).text,
            project=names.project(event.project),
            metadata=recorder.redactor.redact_value(event.metadata)[0],
        )
    if isinstance(event, SavedRecord) and event.fields is not None:
        cleaned = recorder.redactor.redact_value(event.fields)[0]
        return replace(event, fields=cleaned, project=names.project(event.project))
    if isinstance(event, CoreFact) and event.value is not None:
        return replace(event, value=redact(event.value).text)
    if isinstance(event, ExchangeEnd) and event.error is not None:
        return replace(event, error=redact(event.error).text)
    return event


# One transaction: others wait for the write lock no longer than a fraction of a second.
_BATCH_EVENTS = 2000

Forget = Callable[[ForgetPlan], Forgotten]


@dataclass(slots=True)
class Merged:
    """What one batch of an export has brought.

    Attributes:
        added: messages that are new here.
        known: messages that were here before.
        forgotten: messages that were forgotten here earlier, and stay so.
        erased: messages that were here, and that the export says were forgotten.
        kept: memories and other records that are new here, or in a later state.
        capped: messages and other records that are new here as `imported`, and claim more.
        left_core: core memories of a stranger's file, which are not taken.
        left_erasures: what such a file says was forgotten.
        left_changes: what such a file would have changed of records that are not a stranger's.
        conversations: ids of the conversations that the new messages belong to.
        offset: how far the file has been read, in bytes.
    """

    added: int = 0
    known: int = 0
    forgotten: int = 0
    erased: int = 0
    kept: int = 0
    capped: int = 0
    left_core: int = 0
    left_erasures: int = 0
    left_changes: int = 0
    conversations: set[str] = field(default_factory=set)
    offset: int = 0


def merge_export(recorder: Recorder, file: Path, forget: Forget, as_mine: bool = False) -> Iterator[Merged]:
    """Bring in what the store lacks, a transaction per batch; to be run again after whatever stopped it.

    Secrets that the rules of the other store let pass, or that it kept because redaction was off, are taken out. Ids
    stay; a record that goes back to where it came from is known there, and changes nothing. Of a file that is not its
    owner's own, core memories and what was forgotten are left out, trust is at most `imported`, and what is here of the
    owner stays as it is.

    Args:
        recorder: where they go.
        file: an export.
        forget: erases what was forgotten elsewhere and is still here.
        as_mine: its owner says that the file is of their own memory.
    Raises:
        ExportError: see `read_export`; also where a record belongs to one that neither the file nor the store has.
        StoreError: the store refuses; what was brought in before stays.
    """
    lines = read_export(file)
    last: dict[str, str] = {}
    while True:
        batch, broken = _next_batch(lines)
        if batch:
            yield _write(recorder, file, batch, forget if as_mine else None, last)
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


def _write(
    recorder: Recorder, file: Path, lines: Sequence[ExportLine], forget: Forget | None, last: dict[str, str]
) -> Merged:
    """Records first, then what was forgotten: then it does not matter in which order a file has them.

    Args:
        recorder: where they go.
        file: an export.
        lines: some of its lines.
        forget: erases what was forgotten elsewhere; None where the file is a stranger's.
        last: the message of each conversation that the lines before these ended with; changed to that of these.
    """
    done = Merged(offset=lines[-1].end)
    graves = [line.event for line in lines if isinstance(line.event, Grave) and is_grave(line.event)]
    given = [line.event for line in lines if not is_grave(line.event)]
    if forget is None:
        done.left_core = sum(1 for event in given if isinstance(event, CoreFact))
        done.left_erasures = len(graves)
    claiming = {event.uid for event in given if claims_trust(event) and isinstance(event, Message | SavedRecord)}
    taken = given if forget else [capped(event) for event in given if not isinstance(event, CoreFact)]
    events = [clean_event(recorder, event) for event in taken]

    def lacking(tx: Transaction, ingest: Ingest) -> list[Event]:
        fresh = ingest.unknown(events)
        _check_heads(tx, fresh, f"{file}, lines {lines[0].number} to {lines[-1].number}")
        _count(tx, events, fresh, done)
        changes = _changes(tx, _in_place(tx, events, fresh, last), _retitled(tx, events, recorder.now()))
        if forget is None:
            begun = [event.uid for event in fresh if isinstance(event, Exchange)]
            left = {id(event) for event in changes_of_own(tx, changes, begun)}
            done.left_changes = len(left)
            changes = [event for event in changes if id(event) not in left]
            done.capped = sum(
                1 for event in changes if isinstance(event, Message | SavedRecord) and event.uid in claiming
            )
        else:
            changes += raised_trust(tx, [event for event in events if isinstance(event, Message)], recorder.now())
        done.kept = sum(1 for event in changes if isinstance(event, SavedRecord))
        # Of what is brought in alone: a stranger's file numbers what is left out as it likes.
        numbers = sorted((event.number, event.conversation_uid) for event in changes if isinstance(event, Exchange))
        note_imported(tx, {uid: number for number, uid in numbers})
        return changes

    if events:
        recorder.admit(_conversations(events), lacking)
    last |= {event.conversation_uid: event.uid for event in events if isinstance(event, Message)}
    if graves and forget:
        done.erased = _apply_tombstones(recorder, graves, forget)
    return done


def _in_place(tx: Transaction, events: Sequence[Event], fresh: Sequence[Event], last: Mapping[str, str]) -> list[Event]:
    """What is new, each message behind the one that it follows in the export, in a conversation that went on here."""
    lacking = {event.uid for event in fresh if isinstance(event, Message)}
    spoken: dict[str, list[Message]] = {}
    for event in events:
        if isinstance(event, Message):
            spoken.setdefault(event.conversation_uid, []).append(event)
    positions = {
        uid: place.position
        for conversation, said in spoken.items()
        for uid, place in find_places(tx, conversation, said, lacking, last.get(conversation, "")).items()
    }
    return [replace(event, position=positions[event.uid]) if isinstance(event, Message) else event for event in fresh]


def _apply_tombstones(recorder: Recorder, graves: Sequence[Grave], forget: Forget) -> int:
    """Erase what is here of what was forgotten elsewhere, and remember the rest as forgotten; how many messages."""
    with recorder.store.reading() as tx:
        doomed = plan_tombstones(tx, graves)
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
    for event in (event for event in fresh if not isinstance(event, CoreFact | SavedRecord)):
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
    facts = core_facts(tx) if any(isinstance(one, CoreFact) for one in kept) else []
    known: dict[str, CoreFact | SavedRecord] = {fact.uid: fact for fact in facts}
    known |= present_kept(tx, [event for event in kept if isinstance(event, SavedRecord)])
    return [*(event for event in kept if not _is_outlived(event, known)), *titles]


def _is_outlived(event: Event, known: Mapping[str, CoreFact | SavedRecord]) -> bool:
    """Of what both stores have, the one that was set later holds; of equals, the owner's own over an `imported` one."""
    present = known.get(event.uid) if isinstance(event, CoreFact | SavedRecord) else None
    if present is None or not isinstance(event, CoreFact | SavedRecord):
        return False
    return event.at < present.at or (event.at == present.at and not (claims_trust(event) and not claims_trust(present)))


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
