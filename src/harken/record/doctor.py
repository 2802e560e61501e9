"""The doctor: does the database hold together, and do journal, rows, full text and vectors say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from harken.errors import StoreError
from harken.journal.compare import Lost, compare, settle
from harken.journal.journal import Journal
from harken.journal.replay import FORGETTING, replay_conversation, replay_tail
from harken.record.forget import finish_forgetting
from harken.record.recorder import Recorder
from harken.storage.enrichment.jobs import stale_leases
from harken.storage.events import known_conversations
from harken.storage.ports import Store, Transaction
from harken.storage.state import journal_offsets, recount, stray_rows, wrong_counts
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
        if damage and not (self.fix and self.store.mend()):
            return damage
        return [
            *(replace(finding, fixed=True) for finding in damage),
            *(Finding("rights", right.problem, right.fixed) for right in self.store.check_rights(self.fix)),
            # Damaged full text could not be changed, and is behind changes of damaged rows.
            *self._full_text(),
            *(journalled := list(self._journal())),
            *(self._full_text() if self.fix and journalled else ()),
            *self._vectors(),
            *self._counts(),
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
            waiting = self.journal.behind(journal_offsets(tx))
            uids = {*known_conversations(tx), *(path.partition("/")[0] for path, _ in self.journal.files())}
        if waiting:
            if self.fix:
                replay_tail(self.store, self.journal, self.recorder.ingest)
            yield Finding("journal", f"{len(waiting)} journal files differ from what the rows have seen.", self.fix)
        # First: rows of no tenant are in the way of those that the journal gives back.
        with self.store.writing() as tx:
            strays = stray_rows(tx, self.fix)
        if strays:
            yield Finding("rows", f"{strays} rows belong to nothing.", self.fix)
        lost, differing = Lost(), []
        for uid in sorted(uids):
            with self.store.writing() as tx:
                self._finish_rewriting(tx, self.journal, journal_offsets(tx, uid))
                found = compare(tx, self.journal, uid)
                differing += [uid] if any(found.problems()) else []
                lost.add(self.journal, found)
        for uid in differing:
            with self.store.writing() as tx:
                found = compare(tx, self.journal, uid, lost)
                if self.fix:
                    settle(tx, self.journal, found, self.recorder.ingest)
            for problem in found.problems():
                yield Finding("journal", problem, self.fix)

    def _finish_rewriting(self, tx: Transaction, journal: Journal, offsets: Mapping[str, int]) -> None:
        """Take forgotten words out of the journal for whoever is about to, or died over it: that is no disagreement."""
        for folder in sorted({path.partition("/")[0] for path, applied in offsets.items() if applied == FORGETTING}):
            replay_conversation(tx, journal, folder, self.recorder.ingest(tx))

    def _full_text(self) -> Iterator[Finding]:
        try:
            with self.store.writing() as tx:
                problems = tx.text.problems(tx.connection)
                if problems and self.fix:
                    tx.text.rebuild(tx.connection)
        except StoreError:
            # An entry that cannot be read; it is made anew, and the full text after it.
            problems = []
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

    def _counts(self) -> Iterator[Finding]:
        with self.store.writing() as tx:
            wrong = wrong_counts(tx)
            if wrong and self.fix:
                recount(tx)
        if wrong:
            yield Finding("counts", f"{wrong} counts of rows, which status shows, differ from the rows.", self.fix)

    def _freed_space(self) -> Iterator[Finding]:
        if not finish_forgetting(self.store):
            why = "another process has the database open"
            if self.journal is None:
                why = "the team's worker has yet to come to it, or a machine of the cluster does not answer"
            yield Finding("freed_space", f"What was forgotten may still be in freed space, for {why}.")

    def _leases(self) -> Iterator[Finding]:
        with self.store.writing() as tx:
            stale = stale_leases(tx, self.now, self.fix)
        if stale:
            yield Finding("leases", f"{stale} pieces of work were left by a process that is gone.", self.fix)
