"""The doctor: does the database hold together, and do journal, rows, full text and vectors say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from harken.journal.journal import Journal
from harken.journal.replay import FORGETTING, replay_conversation, replay_tail
from harken.model.conversations import Message, SavedRecord, Tombstone
from harken.record.forget import finish_forgetting
from harken.record.recorder import Recorder
from harken.storage.enrichment.jobs import stale_leases
from harken.storage.events import EventName, events_of, known_conversations, name_of, names_held
from harken.storage.ports import Store, Transaction
from harken.storage.records.rows import SOURCE_OF_FOLDER
from harken.storage.state import journal_offset, journal_offsets, put_journal_offset
from harken.storage.vectors import misplaced_vectors


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not agree: the check's constant name, a sentence, and whether it agrees now."""

    check: str
    problem: str
    fixed: bool = False


@dataclass(slots=True)
class Doctor:
    """Looks at everything; with `fix` it repairs what can be repaired from the rest, else it only reports."""

    store: Store
    journal: Journal | None
    recorder: Recorder
    now: datetime
    fix: bool = False

    def examine(self) -> list[Finding]:
        """Return each disagreement, in the order of the checks; an empty list when all agrees."""
        damage = [Finding("database", problem) for problem in self.store.check()]
        if damage:
            return damage
        return [
            *(Finding("rights", right.problem, right.fixed) for right in self.store.check_rights(self.fix)),
            *self._journal(),
            *self._full_text(),
            *self._vectors(),
            *self._leases(),
            *self._freed_space(),
        ]

    def _journal(self) -> Iterator[Finding]:
        """Journal and rows must hold the same, and neither what was forgotten."""
        if self.journal is None:
            return
        # Under the write lock nobody is between writing a line and committing its row.
        with self.store.writing() as tx:
            self._finish_rewriting(tx, self.journal, journal_offsets(tx))
            offsets = journal_offsets(tx)
            waiting = [path for path, size in self.journal.files() if offsets.get(path, 0) != size]
            uids = {*known_conversations(tx), *(path.partition("/")[0] for path, _ in self.journal.files())}
        if waiting:
            if self.fix:
                replay_tail(self.store, self.journal, self.recorder.ingest)
            yield Finding("journal", f"{len(waiting)} journal files differ from what the rows have seen.", self.fix)
        for uid in sorted(uids):
            with self.store.writing() as tx:
                of_uid = {path: journal_offset(tx, path) for path, _ in self.journal.files(uid)}
                self._finish_rewriting(tx, self.journal, of_uid)
                found = _compare(tx, self.journal, uid)
                if self.fix:
                    self._settle(tx, self.journal, uid, found)
            for problem in found.problems(uid):
                yield Finding("journal", problem, self.fix)

    def _finish_rewriting(self, tx: Transaction, journal: Journal, offsets: Mapping[str, int]) -> None:
        """Take forgotten words out of the journal for whoever is about to, or died over it: that is no disagreement."""
        for folder in sorted({path.partition("/")[0] for path, applied in offsets.items() if applied == FORGETTING}):
            replay_conversation(tx, journal, folder, self.recorder.ingest(tx))

    def _settle(self, tx: Transaction, journal: Journal, uid: str, found: _Compared) -> None:
        if found.unforgotten or found.lacking or found.unburied:
            for path, _ in journal.files(uid):
                put_journal_offset(tx, path, FORGETTING if found.unforgotten else 0)
            replay_conversation(tx, journal, uid, self.recorder.ingest(tx))
        if found.missing:
            self.recorder.journal_again(tx, [event for event in events_of(tx, uid) if name_of(event) in found.missing])

    def _full_text(self) -> Iterator[Finding]:
        with self.store.writing() as tx:
            problems = tx.text.problems(tx.connection)
            if problems and self.fix:
                tx.text.rebuild(tx.connection)
        for problem in problems:
            yield Finding("full_text", problem, self.fix)

    def _vectors(self) -> Iterator[Finding]:
        with self.store.writing() as tx:
            stray, empty = misplaced_vectors(tx, self.fix)
            problems = self.store.nearest.problems(tx.connection)
        if stray:
            yield Finding("vectors", f"{stray} vectors belong to no entry.", self.fix)
        if empty:
            yield Finding("vectors", f"{empty} entries are marked as embedded and have no vector.", self.fix)
        if problems and self.fix:
            self.store.nearest.discard()
        for problem in problems:
            yield Finding("vector_cache", problem, self.fix)

    def _freed_space(self) -> Iterator[Finding]:
        if not finish_forgetting(self.store):
            problem = "What was forgotten may still be in freed space, for another process has the database open."
            yield Finding("freed_space", problem)

    def _leases(self) -> Iterator[Finding]:
        with self.store.writing() as tx:
            stale = stale_leases(tx, self.now, self.fix)
        if stale:
            yield Finding("leases", f"{stale} pieces of work were left by a process that is gone.", self.fix)


_SPOKEN_OR_KEPT = (Message.__name__, SavedRecord.__name__)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Differences of one conversation: names missing from the journal, records lacking in the rows, and forgotten ones.

    `unburied` is forgotten in the journal alone, `unforgotten` in the rows alone.
    """

    missing: set[EventName]
    lacking: int
    unburied: int
    unforgotten: int

    def problems(self, uid: str) -> Iterator[str]:
        """One sentence for each kind of difference."""
        place, what = (uid, "records") if uid in SOURCE_OF_FOLDER else (f"conversation {uid}", "messages")
        if self.missing:
            count = sum(1 for kind, _ in self.missing if kind in _SPOKEN_OR_KEPT)
            others = len(self.missing) - count
            yield f"The journal of {place} lacks {count} {what} and {others} other events of the rows."
        if self.lacking:
            yield f"The rows lack {self.lacking} {what} of the journal of {place}."
        if self.unburied:
            yield f"The rows do not know that {self.unburied} records of {place} were forgotten."
        if self.unforgotten:
            yield f"The journal still has {self.unforgotten} forgotten {what} of {place}."


def _compare(tx: Transaction, journal: Journal, uid: str) -> _Compared:
    """By names alone: a conversation may have a hundred thousand messages."""
    written = {name_of(event) for path, _ in journal.files(uid) for event, _ in journal.read(path) if event is not None}
    held = names_held(tx, uid)
    journalled, kept = _of_kind(written, *_SPOKEN_OR_KEPT), _of_kind(held, *_SPOKEN_OR_KEPT)
    graves = _of_kind(held, Tombstone.__name__)
    forgotten = journalled if uid in graves else journalled & graves
    buried = _of_kind(written, Tombstone.__name__)
    unburied = buried - graves | (kept if uid in buried else kept & buried)
    return _Compared(held - written, len(journalled - kept - forgotten), len(unburied), len(forgotten))


def _of_kind(names: set[EventName], *kinds: str) -> set[str]:
    return {uid for name, uid in names if name in kinds}
