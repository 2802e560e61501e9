"""Exports brought into a store that may have a part of them already, or have gone on since.

An export is believed in all that it says where its owner says that it is theirs. Of a stranger's, core memories and
what was forgotten are left out, trust is at most `imported`, and what is here of the owner stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path

from harken.errors import ExportError
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import TranscriptFormat
from harken.journal.derived import Derived, MadeVector, keep_derived
from harken.journal.export import RESERVED, ExportLine, is_export, read_export
from harken.journal.journal import Journal
from harken.journal.replay import last_states, was_titled
from harken.model.arguments import SECTIONS
from harken.model.conversations import (
    CORE_MEMORY,
    EMPTY,
    REDACTED,
    Conversation,
    CoreFact,
    Event,
    Exchange,
    ExchangeEnd,
    Grave,
    Labelled,
    Message,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trust,
    least_trusted,
)
from harken.model.marks import Rated
from harken.record.core_memory import cleaned_fact
from harken.record.forget import ForgetPlan, Forgotten, plan_tombstones
from harken.record.recorder import Recorder, is_reworded
from harken.storage.conversations import (
    find_known,
    find_tombstones,
    own_conversations,
    places_of,
    raised_trust,
    tombstones_of,
)
from harken.storage.enrichment.consent import note_imported
from harken.storage.events import Ingest
from harken.storage.ports import StoredSpace, Transaction, rows_by
from harken.storage.positions import find_places
from harken.storage.records.marks import own_label, untitled
from harken.storage.records.rows import KEPT, TOPIC, find_kept
from harken.storage.state import core_facts
from harken.storage.tables import conversations, exchanges, messages, ratings, segments, tombstones

# One transaction: others wait for the write lock no longer than a fraction of a second.
_BATCH_EVENTS = 300
_OWN = (Trust.OWNER, Trust.AGENT)
_TABLES = (conversations, segments, exchanges, messages, *(source.table for source in KEPT.values()))
_HIGHEST = 2**30  # of a stranger's segments and exchanges: what is said next finds numbers behind it

Forget = Callable[[ForgetPlan], Forgotten]


@dataclass(slots=True)
class Claims:
    """Parts of an export that have power over a memory, where it is taken as one's own.

    Core memories stand in every context, erasures are to be made here too, and trusted records are to be believed as
    the owner's or an agent's own.
    """

    core: int = 0
    erasures: int = 0
    trusted: int = 0

    def __bool__(self) -> bool:
        return bool(self.core or self.erasures or self.trusted)


@dataclass(slots=True)
class Merged:
    """Counts of what was brought in.

    Attributes:
        added: messages that are new in the store.
        known: messages that were there before.
        forgotten: messages that were forgotten earlier, and stay so.
        erased: messages that were here, and that an export says were forgotten.
        told: lines of exports that were read, whatever came of them.
        kept: memories and other records that an export brought, new or in a later state.
        capped: messages and other records that came as `imported` though their file says they are the owner's or an
            agent's own words.
        left_core: core memories that a stranger's export holds; they were not taken.
        left_erasures: records that such an export says were forgotten; nothing was erased.
        summaries: those that an export brought along.
        vectors: likewise.
        left_changes: what such an export would have changed of the owner's records, or added to their conversations;
            these stand as they were.
        conversations: ids of the conversations that the new messages belong to.
    """

    added: int = 0
    known: int = 0
    forgotten: int = 0
    erased: int = 0
    told: int = 0
    kept: int = 0
    capped: int = 0
    left_core: int = 0
    left_erasures: int = 0
    left_changes: int = 0
    summaries: int = 0
    vectors: int = 0
    conversations: set[str] = field(default_factory=set)

    def add(self, more: Merged) -> None:
        """Count what another part has brought as well."""
        for name in (one.name for one in fields(Merged) if one.name != "conversations"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.conversations |= more.conversations


def exports_among(transcripts: TranscriptFormat, paths: Sequence[Path]) -> list[Path]:
    """The exports of Harken among the files that an import of these paths would read."""
    if transcripts.name != Jsonl.name:
        return []
    found: list[Path] = []
    for file in dict.fromkeys(file for path in paths for file in transcripts.files(path)):
        with suppress(OSError):
            found += [file] if is_export(file) else []
    return found


def claims_of(file: Path) -> Claims:
    """Count an export's claims, as far as it can be read; no more than that is ever imported."""
    claims = Claims()
    # The import comes to the same place and says what is wrong there.
    with suppress(ExportError, OSError):
        for event in (one for line in read_export(file) if not isinstance(one := line.event, Derived)):
            claims.core += isinstance(event, CoreFact)
            claims.erasures += _is_grave(event)
            claims.trusted += _trust_of(event) in _OWN
    return claims


@dataclass(slots=True)
class _Course:
    """What the batches before have told the next one.

    Attributes:
        last: the message of each conversation that they ended with.
        graves: ids of all that was forgotten.
        gone: conversations of subagents whose caller's was forgotten here, and topics of what was.
        refused: by its conversation, texts of what was forgotten here.
        space: that of the model that is set here; read once, when there are vectors.
    """

    last: dict[str, str] = field(default_factory=dict)
    graves: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    refused: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    space: StoredSpace | None = None


def merge_export(
    recorder: Recorder,
    file: Path,
    forget: Forget,
    as_mine: bool = False,
    space: Callable[[], StoredSpace | None] = lambda: None,
) -> Iterator[tuple[Merged, int]]:
    """Bring in what the store lacks, a transaction per batch; to be run again after whatever stopped it.

    Secrets that the rules of the other store let pass, or that it kept because redaction was off, are taken out. Ids
    stay; a record that goes back to where it came from is known there, and changes nothing. What was forgotten
    elsewhere and is still here is erased by `forget`, where the owner says that the export is of their own memory.

    Yields:
        What each batch has brought, and how far the file has been read, in bytes.
    Raises:
        ExportError: see `read_export`; also where a record belongs to one that neither the file nor the store has.
        StoreError: the store refuses; what was brought in before stays.
    """
    lines, course = read_export(file), _Course()
    broken: ExportError | None = None
    while broken is None:
        batch: list[ExportLine] = []
        try:
            for line in islice(lines, _BATCH_EVENTS):
                batch.append(line)
        except ExportError as error:
            # What came before the damage is sound.
            broken = error
        if batch:
            made = [line.event for line in batch if isinstance(line.event, Derived)]
            records = [line for line in batch if not isinstance(line.event, Derived)]
            done = _write(recorder, file, records, forget if as_mine else None, course) if records else Merged()
            if made:
                if course.space is None and as_mine and any(isinstance(one, MadeVector) for one in made):
                    course.space = space()
                _keep_made(recorder, made, course, as_mine, done)
            yield done, batch[-1].end
        elif broken is None:
            return
    raise broken


def _keep_made(recorder: Recorder, made: Sequence[Derived], course: _Course, as_mine: bool, done: Merged) -> None:
    """Keep what was made of records, after these."""

    def clean(text: str) -> str:
        return recorder.redactor.redact(text).text

    with recorder.store.writing() as tx:
        done.summaries, done.vectors = keep_derived(tx, made, course.graves, clean, course.space, as_mine)
    if done.summaries or done.vectors:
        recorder.wake()


def _write(
    recorder: Recorder, file: Path, lines: Sequence[ExportLine], forget: Forget | None, course: _Course
) -> Merged:
    """Records first, then what was forgotten: then it does not matter in which order a file has them.

    Without `forget` the file is a stranger's. The course is changed to what these lines have told.
    """
    done, last, superseding = Merged(told=len(lines)), course.last, set[str]()
    told = [line.event for line in lines if not isinstance(line.event, Derived)]
    graves = [event for event in told if isinstance(event, Grave) and _is_grave(event)]
    given = [event for event in told if not _is_grave(event)]
    course.graves.update(grave.uid for grave in graves)
    if forget is None:
        done.left_core = sum(1 for event in given if isinstance(event, CoreFact))
        done.left_erasures = len(graves)
    claiming = {event.uid for event in given if isinstance(event, Message | SavedRecord) and _trust_of(event) in _OWN}
    taken = given if forget else [_capped(event) for event in given if not _is_view(event)]
    events = [_cleaned(recorder, event) for event in taken]

    def lacking(tx: Transaction, ingest: Ingest) -> list[Event]:
        fresh = _admissible(tx, ingest.unknown(events), course)
        out = set() if forget else _of_own(tx, fresh)
        fresh = [event for event in fresh if id(event) not in out]
        _check_heads(tx, fresh, f"{file}, lines {lines[0].number} to {lines[-1].number}")
        _count(tx, [event for event in events if id(event) not in out], fresh, course, done)
        placed, titles = _in_place(tx, events, fresh, last), _retitled(recorder, tx, events)
        changes = [*untitled(_changes(tx, placed, titles, recorder.journal), course.refused)]
        if forget is None:
            left = _changes_of_own(tx, changes, {event.uid for event in fresh if isinstance(event, Exchange)})
            done.left_changes = len(left) + len(out)
            changes = [event for event in changes if id(event) not in left]
            done.capped = len(claiming & {event.uid for event in changes if isinstance(event, Message | SavedRecord)})
        else:
            changes += raised_trust(tx, [event for event in events if isinstance(event, Message)], recorder.now())
        records = [event for event in changes if isinstance(event, SavedRecord)]
        facts, before = [event for event in changes if isinstance(event, CoreFact)], _present(tx, records)
        done.kept = len(records) + sum(fact.value is not None for fact in facts)
        superseding.update(one.conversation_uid for one in records if is_reworded(one, before))
        superseding.update(fact.conversation_uid for fact in facts)
        # Of what is brought in alone: a stranger's file numbers what is left out as it likes.
        numbers = sorted((event.number, event.conversation_uid) for event in changes if isinstance(event, Exchange))
        note_imported(tx, {uid: number for number, uid in numbers})
        return changes

    if events:
        recorder.admit(_conversations(events), lacking, superseding)
    last.update({event.conversation_uid: event.uid for event in events if isinstance(event, Message)})
    if graves and forget:
        done.erased = _apply_tombstones(recorder, graves, forget)
    return done


def _cleaned(recorder: Recorder, event: Event) -> Event:
    """The event without secrets and private passages, under the same ids; itself where it holds none."""
    redact, clean, names = recorder.redactor.redact, recorder.redactor.redact_value, recorder.preparer.names
    if isinstance(event, Message):
        # How much was taken out before is no secret, whatever the kinds are called.
        before = event.metadata.get(REDACTED, EMPTY)
        facts = {key: value for key, value in event.metadata.items() if key != REDACTED}
        return replace(
            event,
            **recorder.preparer.cleaned(event, event.text, facts, before if isinstance(before, Mapping) else EMPTY),
        )
    if isinstance(event, Conversation):
        return replace(
            event,
            channel=names.text(event.channel),
            external_id=names.text(event.external_id),
            title=redact(event.title).text,
            project=names.project(event.project),
            metadata=clean(event.metadata)[0],
        )
    if isinstance(event, SavedRecord) and event.fields is not None:
        return replace(event, fields=clean(event.fields)[0], project=names.project(event.project))
    if isinstance(event, Labelled):
        tags = tuple(redact(tag).text for tag in event.tags)
        return replace(event, title=redact(event.title).text, tags=tags, project=names.project(event.project))
    if isinstance(event, Rated):
        return replace(event, question=redact(event.question).text)
    if isinstance(event, CoreFact) and event.value is not None and event.section in SECTIONS:
        return CoreFact(event.section, *cleaned_fact(recorder, event.key, event.value), event.at)
    if isinstance(event, ExchangeEnd) and event.error is not None:
        return replace(event, error=redact(event.error).text)
    return event


def _capped(event: Event) -> Event:
    """The event with no more trust than a stranger's words get."""
    if (trust := _trust_of(event)) is None:
        return event
    least = least_trusted((trust, Trust.IMPORTED))
    if isinstance(event, SavedRecord):
        return replace(event, fields={**(event.fields or {}), "trust": least.value})
    return replace(event, trust=least) if isinstance(event, Message) else event


def _is_view(event: Event) -> bool:
    """True for what others say of a record, which would change what comes back, or is listed, of one's own."""
    return isinstance(event, CoreFact | Labelled | Rated) or (isinstance(event, SavedRecord) and event.source == TOPIC)


def _trust_of(event: Event) -> Trust | None:
    if isinstance(event, SavedRecord) and event.fields is not None:
        return Trust(event.fields["trust"])
    return event.trust if isinstance(event, Message) else None


def _is_grave(event: Event) -> bool:
    """True for an event that says that something was forgotten."""
    return isinstance(event, Tombstone) or (isinstance(event, SavedRecord) and event.fields is None)


def _conversations(events: Sequence[Event]) -> list[str]:
    return sorted({event.uid if isinstance(event, Conversation) else event.conversation_uid for event in events})


def _apply_tombstones(recorder: Recorder, graves: Sequence[Grave], forget: Forget) -> int:
    """Erase what is here of what was forgotten elsewhere, and remember the rest as forgotten; how many messages."""
    with recorder.store.reading() as tx:
        plan = plan_tombstones(tx, graves)
    if plan.tombstones:
        forget(plan)

    def lacking(tx: Transaction, _ingest: Ingest) -> list[Grave]:
        known = find_known(tx, tombstones, [grave.uid for grave in graves])
        return [grave for grave in {grave.uid: grave for grave in graves}.values() if grave.uid not in known]

    recorder.admit(_conversations(graves), lacking)
    return plan.messages


def _check_heads(tx: Transaction, fresh: Sequence[Event], place: str) -> None:
    """Every record must belong to a conversation, a segment and an exchange that are here, or come with it."""
    present = {event.uid for event in fresh if isinstance(event, Conversation | Segment | Exchange)}
    placed = [event for event in fresh if getattr(event, "conversation_uid", "") not in RESERVED]
    for name, table in (("conversation_uid", conversations), ("segment_uid", segments), ("exchange_uid", exchanges)):
        named: set[str] = {uid for event in placed if (uid := getattr(event, name, None)) is not None}
        needed = named - present
        lost = needed - find_known(tx, table, list(needed))
        if lost:
            raise ExportError(
                f"{place}, is not whole: {min(lost)} of {table.name} is named, and neither the file nor the store has "
                "it. Export it anew; what was imported stays."
            )


def _admissible(tx: Transaction, fresh: Sequence[Event], course: _Course) -> list[Event]:
    """The events without what a forgotten conversation went on to ask of subagents, and topics that may name it."""
    asked = {one.uid: one.parent_uid for one in fresh if isinstance(one, Conversation) and one.parent_uid}
    forgotten = find_tombstones(tx, asked.values())
    course.gone.update(uid for uid, parent in asked.items() if parent in forgotten)
    for topic in (one for one in fresh if isinstance(one, SavedRecord) and one.source == TOPIC and one.fields):
        graves = (grave for each in (topic.fields or EMPTY)["members"] for grave in tombstones_of(tx, each[0]))
        course.gone.update(topic.uid for grave in graves if grave.uid not in course.graves)
    return [one for one in fresh if course.gone.isdisjoint({getattr(one, "uid", ""), *_conversations([one])})]


def _count(tx: Transaction, events: Sequence[Event], fresh: Sequence[Event], course: _Course, done: Merged) -> None:
    added = {event.uid: event.conversation_uid for event in fresh if isinstance(event, Message)}
    rest = [event for event in events if isinstance(event, Message) and event.uid not in added]
    gone = find_tombstones(tx, {uid for event in rest for uid in (event.uid, event.conversation_uid)})
    done.added, done.conversations = len(added), set(added.values())
    refused = [event for event in rest if not (gone | course.gone).isdisjoint((event.uid, event.conversation_uid))]
    for event in refused:
        course.refused[event.conversation_uid].append(event.text)
    done.forgotten = len(refused)
    done.known = len(rest) - done.forgotten


def _in_place(tx: Transaction, events: Sequence[Event], fresh: Sequence[Event], last: Mapping[str, str]) -> list[Event]:
    """The new events, each message behind the one that it follows in the export, where a conversation went on here."""
    lacking = {event.uid for event in fresh if isinstance(event, Message)}
    messages: dict[str, list[Message]] = {}
    for event in events:
        if isinstance(event, Message):
            messages.setdefault(event.conversation_uid, []).append(event)
    positions = {
        uid: place.position
        for conversation, sequence in messages.items()
        for uid, place in find_places(tx, conversation, sequence, lacking, last.get(conversation, "")).items()
    }
    return [replace(event, position=positions[event.uid]) if isinstance(event, Message) else event for event in fresh]


def _changes(tx: Transaction, fresh: Sequence[Event], titles: Sequence[Event], journal: Journal | None) -> list[Event]:
    """The events to write: of ends, only those of exchanges that are new, in progress here, or went on there since."""
    begun = {event.uid for event in fresh if isinstance(event, Exchange)}
    ended = {event.exchange_uid: event.at for event in fresh if isinstance(event, ExchangeEnd)}
    present_ends = rows_by(tx, exchanges.c.uid, ended.keys() - begun, exchanges.c.uid, exchanges.c.completed_at)
    wanted = begun | {uid for uid, at in present_ends if at is None or at < ended[uid]}
    kept = [event for event in fresh if not isinstance(event, ExchangeEnd) or event.exchange_uid in wanted]
    present: dict[str, CoreFact | SavedRecord] = {}
    if any(isinstance(one, CoreFact) for one in kept):
        # The journal alone knows when one was deleted.
        present |= last_states(journal, CORE_MEMORY) if journal is not None else {}
        present |= {fact.uid: fact for fact in core_facts(tx)}
    present |= _present(tx, [event for event in kept if isinstance(event, SavedRecord)])
    rated = find_known(tx, ratings, [event.uid for event in kept if isinstance(event, Rated)])
    labels = [own_label(tx, event.conversation_uid).label for event in kept if isinstance(event, Labelled)]
    said = {label.conversation_uid: label.at for label in labels if label}

    def is_known(event: Event) -> bool:
        if isinstance(event, Labelled):
            return event.conversation_uid in said and event.at <= said[event.conversation_uid]
        return isinstance(event, Rated) and event.uid in rated

    return [*(event for event in kept if not _is_stale(event, present) and not is_known(event)), *titles]


def _is_stale(event: Event, known: Mapping[str, CoreFact | SavedRecord]) -> bool:
    """Of what both stores have, the one that was set later holds; of equals, the owner's own over an `imported` one."""
    if not isinstance(event, CoreFact | SavedRecord) or (present := known.get(event.uid)) is None:
        return False
    return event.at < present.at or (
        event.at == present.at and (_trust_of(event) not in _OWN or _trust_of(present) in _OWN)
    )


def _present(tx: Transaction, records: Sequence[SavedRecord]) -> dict[str, SavedRecord]:
    """Those of the records that are here, as they are here."""
    sources = {record.source for record in records}
    found = (find_kept(tx, source, [one.uid for one in records if one.source == source]) for source in sources)
    return {uid: kept for each in found for uid, kept in each.items()}


def _of_own(tx: Transaction, fresh: Sequence[Event]) -> set[int]:
    """Those of a stranger's events, by `id()`, that would stand in the owner's conversations or reach into another."""
    placed = [one for one in fresh if isinstance(one, Segment | Exchange | ExchangeEnd | Message)]
    named = [[uid for name in ("segment_uid", "exchange_uid") if (uid := getattr(one, name, ""))] for one in placed]
    place = places_of(tx, [uid for uids in named for uid in uids])
    own = own_conversations(tx, {one.conversation_uid for one in placed})
    saved = {one.uid: KEPT[one.source].table for one in fresh if isinstance(one, SavedRecord)}
    # A record with the id of one of another kind would take that along when it is forgotten.
    ids = {id(one): uid for one in fresh if (uid := getattr(one, "uid", ""))}
    doubled = {uid for kind in _TABLES for uid in find_known(tx, kind, [*ids.values()]) if saved.get(uid) is not kind}
    return {one for one, uid in ids.items() if uid in doubled} | {
        id(one)
        for one, uids in zip(placed, named, strict=True)
        if (one.conversation_uid in own and not (isinstance(one, ExchangeEnd) and one.exchange_uid in place))
        or getattr(one, "number", 0) > _HIGHEST
        or any(place.get(uid, one.conversation_uid) != one.conversation_uid for uid in uids)
    }


def _changes_of_own(tx: Transaction, events: Sequence[Event], begun: set[str]) -> set[int]:
    """Those of the events, by `id()`, that would change what is here and not a stranger's: titles, ends and records."""
    theirs = [one for one in events if isinstance(one, Titled | ExchangeEnd)]
    own = own_conversations(tx, {one.conversation_uid for one in theirs})
    records = [one for one in events if isinstance(one, SavedRecord)]
    present = _present(tx, records)
    left = {id(one) for one in records if one.uid in present and _trust_of(present[one.uid]) != Trust.IMPORTED}
    changing = [one for one in theirs if not (isinstance(one, ExchangeEnd) and one.exchange_uid in begun)]
    return left | {id(one) for one in changing if one.conversation_uid in own}


def _retitled(recorder: Recorder, tx: Transaction, events: Sequence[Event]) -> list[Event]:
    """Titles that conversations of this store have been given elsewhere since."""
    titles = {event.uid: event.title for event in events if isinstance(event, Conversation) and event.title}
    columns = conversations.c.uid, conversations.c.title, conversations.c.label
    rows = rows_by(tx, conversations.c.uid, titles, *columns)
    present = {row.uid: row.label["own_title"] if row.label else row.title for row in rows}
    # One that has none any more lost it with what was forgotten; one that was called so before has been renamed here.
    return [
        Titled(uid, titles[uid], recorder.now())
        for uid, title in present.items()
        if title != titles[uid]
        and (title or not tombstones_of(tx, uid))
        and not (recorder.journal and was_titled(recorder.journal, uid, titles[uid]))
    ]
