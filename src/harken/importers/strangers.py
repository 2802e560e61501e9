"""Files of strangers: whose words a file holds, what it claims, and what of it is taken without an owner's yes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harken.errors import ExportError
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import TranscriptFormat
from harken.journal.export import is_export, read_export
from harken.model.conversations import (
    CoreFact,
    Event,
    ExchangeEnd,
    Message,
    SavedRecord,
    Titled,
    Tombstone,
    Trust,
    least_trusted,
)
from harken.storage.conversations import own_conversations
from harken.storage.ports import Transaction
from harken.storage.records.rows import find_kept

# Agents on this machine wrote these themselves; any other format has only somebody's word for it.
OWN_FORMATS = ("claude-code", "codex")
_OWN = (Trust.OWNER, Trust.AGENT)


@dataclass(slots=True)
class Claims:
    """What an export holds that has power over a memory, where it is taken as one's own.

    Attributes:
        core: core memories, which stand in every context.
        erasures: records that were forgotten, and are to be erased here too.
        trusted: messages and other records that are to be believed as the owner's or an agent's own.
    """

    core: int = 0
    erasures: int = 0
    trusted: int = 0

    def __bool__(self) -> bool:
        return bool(self.core or self.erasures or self.trusted)


def exports_among(transcripts: TranscriptFormat, paths: Sequence[Path]) -> list[Path]:
    """The exports of Harken among the files that an import of these paths would read."""
    if transcripts.name != Jsonl.name:
        return []
    return [file for file in dict.fromkeys(file for path in paths for file in transcripts.files(path)) if _is_one(file)]


def claims_of(file: Path) -> Claims:
    """What an export claims, as far as it can be read; no more than that is ever imported."""
    claims = Claims()
    try:
        for line in read_export(file):
            claims.core += isinstance(line.event, CoreFact)
            claims.erasures += is_grave(line.event)
            claims.trusted += _trust_of(line.event) in _OWN
    except (ExportError, OSError):
        # The import comes to the same place and says what is wrong there.
        return claims
    return claims


def is_grave(event: Event) -> bool:
    """Whether the event says that something was forgotten."""
    return isinstance(event, Tombstone) or (isinstance(event, SavedRecord) and event.fields is None)


def is_own(transcripts: TranscriptFormat, file: Path) -> bool:
    """Whether a transcript lies, all links followed, where its agent keeps what it writes itself."""
    if transcripts.name not in OWN_FORMATS:
        return False
    real = file.resolve()
    return any(real.is_relative_to(place.resolve()) for place in transcripts.discover())


def capped(event: Event) -> Event:
    """The event with no more trust than a stranger's words get."""
    if isinstance(event, Message):
        return replace(event, trust=least_trusted((event.trust, Trust.IMPORTED)))
    trust = _trust_of(event)
    if isinstance(event, SavedRecord) and event.fields is not None and trust is not None:
        return replace(event, fields={**event.fields, "trust": least_trusted((trust, Trust.IMPORTED)).value})
    return event


def claims_trust(event: Event) -> bool:
    """Whether the event says that it is the owner's or an agent's own words."""
    return _trust_of(event) in _OWN


def changes_of_own(tx: Transaction, events: Sequence[Event], begun: Iterable[str]) -> list[Event]:
    """Those of the events that would change what is here and not a stranger's: titles, ends and records.

    Args:
        tx: the transaction.
        events: which are about to be written.
        begun: ids of the exchanges that come with the file.
    """
    new = set(begun)
    theirs = [one for one in events if isinstance(one, Titled | ExchangeEnd)]
    own = own_conversations(tx, {one.conversation_uid for one in theirs})
    found: list[Event] = [one for one in theirs if one.conversation_uid in own and not _ends_any(one, new)]
    records = [one for one in events if isinstance(one, SavedRecord)]
    present = present_kept(tx, records)
    return found + [one for one in records if one.uid in present and _trust_of(present[one.uid]) != Trust.IMPORTED]


def present_kept(tx: Transaction, records: Sequence[SavedRecord]) -> Mapping[str, SavedRecord]:
    """Those of the records that are here, as they are here."""
    present: dict[str, SavedRecord] = {}
    for source in {record.source for record in records}:
        present |= find_kept(tx, source, [record.uid for record in records if record.source == source])
    return present


def _ends_any(event: Event, uids: set[str]) -> bool:
    return isinstance(event, ExchangeEnd) and event.exchange_uid in uids


def _is_one(file: Path) -> bool:
    try:
        return is_export(file)
    except OSError:
        return False


def _trust_of(event: Event) -> Trust | None:
    if isinstance(event, SavedRecord) and event.fields is not None:
        return Trust(event.fields["trust"])
    return event.trust if isinstance(event, Message) else None
