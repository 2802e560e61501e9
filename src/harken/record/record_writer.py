"""The keeper: writes records of kept sources as the recorder writes messages, and forgets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from harken.model.conversations import KEPT_FOLDERS, Event, SavedRecord
from harken.record.forget import Forgotten, forget, plan_saved
from harken.record.ids import new_uid
from harken.record.recorder import Recorder
from harken.storage.events import Ingest
from harken.storage.ports import Transaction
from harken.storage.records.rows import kept_times
from harken.text.characters import sound_value

_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class RecordKeeper:
    """Writes what was saved or learned: journal first, rows and entries in one transaction."""

    recorder: Recorder

    def keep(self, source: str, choose: Callable[[Transaction], Sequence[SavedRecord]]) -> list[SavedRecord]:
        """Write records as they are to stand, in one transaction; secrets are taken out first.

        Args:
            source: of all of them.
            choose: gives them under the write lock, so that what it has read there still holds. Each gets the present
                moment, or a later one where the record has been changed since.
        Returns:
            What was written.
        Raises:
            StoreError: nothing of the call was kept; it may be repeated.
        """
        kept: list[SavedRecord] = []

        def changes(tx: Transaction, _ingest: Ingest) -> Sequence[Event]:
            drafts = choose(tx)
            changed = kept_times(tx, source, [draft.uid for draft in drafts])
            kept.extend(self._ready(draft, changed.get(draft.uid)) for draft in drafts)
            return kept

        self.recorder.admit([KEPT_FOLDERS[source]], changes)
        return kept

    def clean(self, value: Any) -> Any:
        """A value as it may be kept: secrets taken out, and characters that no database knows."""
        return self.recorder.redactor.redact_value(sound_value(value))[0]

    def new_uid(self) -> str:
        """An id for a record that comes into being now."""
        return new_uid(self.recorder.now())

    def now(self) -> datetime:
        """The present moment."""
        return self.recorder.now()

    def forget(self, source: str, uids: Sequence[str]) -> Forgotten:
        """Forget records for good: rows, full text, vectors, caches and journal; their ids remain as tombstones."""
        recorder = self.recorder
        with recorder.store.reading() as tx:
            doomed = plan_saved(tx, source, uids, recorder.now())
        return forget(recorder.store, recorder.journal, doomed, recorder.ingest)

    def _ready(self, draft: SavedRecord, changed: datetime | None) -> SavedRecord:
        moment = self.recorder.now()
        # A clock that was set back may not make a change count for older than what it changes.
        return replace(
            draft,
            at=moment if changed is None else max(moment, changed + _TICK),
            fields=None if draft.fields is None else self.clean(draft.fields),
        )
