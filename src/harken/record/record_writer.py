"""Writes records of kept sources as the recorder writes messages, and forgets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from harken.journal.journal import Appended
from harken.model.conversations import KEPT_FOLDERS, SavedRecord
from harken.record.forget import Forgotten, forget, plan_saved
from harken.record.ids import new_uid
from harken.record.recorder import Recorder
from harken.storage.ports import Transaction
from harken.storage.records.rows import kept_times
from harken.text.characters import sound_value

_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class RecordWriter:
    """Writes what was saved or learned: journal first, rows and entries in one transaction."""

    recorder: Recorder

    @contextmanager
    def saving(self, source: str) -> Iterator[RecordTransaction]:
        """A transaction on the records of a source; what is read in it still holds when they are saved.

        Raises:
            StoreError: nothing of it was kept; it may be repeated.
        """
        with self.recorder._writing([KEPT_FOLDERS[source]]) as (tx, appended):
            records = RecordTransaction(self, source, tx, appended)
            yield records
        if records.saved:
            self.recorder.wake()

    def clean(self, value: Any) -> Any:
        """A value as it may be kept: secrets taken out, and characters that no database knows."""
        return self.recorder.redactor.redact_value(sound_value(value))[0]

    def new_uid(self) -> str:
        """An id for a record that comes into being now."""
        return new_uid(self.now())

    def now(self) -> datetime:
        """The present moment."""
        return self.recorder.now()

    def forget(self, source: str, uids: Sequence[str]) -> Forgotten:
        """Forget records for good: rows, full text, vectors, caches and journal; their ids remain as tombstones."""
        recorder = self.recorder
        with recorder.store.reading() as tx:
            plan = plan_saved(tx, source, uids, recorder.now())
        return forget(recorder.store, recorder.journal, plan, recorder.ingest)


@dataclass(slots=True)
class RecordTransaction:
    """A write transaction in which records of one source are saved."""

    writer: RecordWriter
    source: str
    tx: Transaction
    appended: list[Appended]
    saved: list[SavedRecord] = field(default_factory=list)

    def save(self, *drafts: SavedRecord) -> SavedRecord:
        """Write records as they are to stand, secrets taken out; the first of them, as it was written.

        Each gets the present moment, or a later one where it has been changed since: a clock that was set back may not
        make a change count for older than what it changes.
        """
        changed = kept_times(self.tx, self.source, [draft.uid for draft in drafts])
        written = []
        for draft in drafts:
            moment = self.writer.now()
            if draft.uid in changed:
                moment = max(moment, changed[draft.uid] + _TICK)
            fields = None if draft.fields is None else self.writer.clean(draft.fields)
            written.append(replace(draft, at=moment, fields=fields))
        recorder = self.writer.recorder
        # `Ingest` looks through them once more: appending may first bring in a dead writer's tail with the same ids.
        self.appended += recorder._write(self.tx, written, recorder.ingest(self.tx), checked=False)
        self.saved += written
        return written[0]
