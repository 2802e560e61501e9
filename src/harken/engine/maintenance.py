"""Keeping a store in order: status, doctor, forgetting, rebuilding, backups, exports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from harken.errors import MissingExtraError, ProviderError, StoreError, UsageError
from harken.journal.journal import DATABASE_NAME, Journal, Replayed
from harken.journal.staging import new_file, remove_staged
from harken.model.arguments import several
from harken.model.lookups import Activity, ConversationFilter, ListedConversation
from harken.model.views import StatusView, view_of
from harken.storage.conversations import Counts, count_all, list_projects, messages_holding
from harken.storage.enrichment import jobs, spend
from harken.storage.enrichment.jobs import FailedWork
from harken.storage.enrichment.spend import Spent
from harken.storage.migrations import Migrated
from harken.storage.open import migrate_store
from harken.storage.overview import list_conversations, read_activity, read_titles
from harken.storage.ports import Store, Transaction
from harken.storage.state import applied_bytes, count_rows, read_counters
from harken.storage.vectors import FOREIGN, count_vectors, embeddable_texts, second_spaces, spaces_by_state

if TYPE_CHECKING:
    from harken.config.settings import Settings
    from harken.jobs.spaces import OpenSpace, Spaces
    from harken.journal.export import Exported
    from harken.record.doctor import Finding
    from harken.record.forget import ForgetPlan, Forgotten
    from harken.record.recorder import Recorder


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The size and the state of a store.

    Attributes:
        queue: entries that wait for a vector.
        redactions: secrets taken out, by kind.
        space: the embedding space that answers; `filling` is the one that is to take over.
        languages_space: that of the model for other languages; `languages_queue` counts what waits for a vector there.
        spent_today: by the day of UTC.
        sizes: bytes on disk by part.
        torn: files with broken journal lines that were set aside.
    """

    counts: Counts
    queue: int
    redactions: dict[str, int]
    space: str | None
    filling: str | None
    languages_space: str | None
    languages_queue: int
    spent: Spent
    spent_today: Spent
    sizes: dict[str, int]
    stale_leases: int
    torn: int
    home: Path
    store: str

    def view(self) -> StatusView:
        """The status as JSON."""
        return view_of(
            StatusView,
            self.counts,
            self,
            project_count=self.counts.projects,
            redactions=sum(self.redactions.values()),
            redactions_by_kind=self.redactions,
            spend_usd=float(self.spent.usd),
            spend_today_usd=float(self.spent_today.usd),
            spend_unsettled_usd=float(self.spent.unsettled_usd),
            spend_unpriced_calls=self.spent.unpriced,
            filling_space=self.filling,
            bytes=self.sizes,
            torn_lines=self.torn,
            home=str(self.home),
        )


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The effect of embedding again.

    Attributes:
        deleted: vectors that go.
        texts: how many texts are embedded again, by what they are of.
        tokens: of all of them, about.
        model: as its space is named.
        price_usd: about; 0 for a model on this machine, None where no price is known.
    """

    deleted: int
    texts: dict[str, int]
    tokens: int
    model: str
    price_usd: Decimal | None


def migrate(
    settings: Settings, language: str | None = None, role: str | None = None, distribute: bool = False
) -> Migrated:
    """Make or upgrade the schema of the store that the settings name; see `migrate_store`."""
    place = settings.store or f"sqlite:///{settings.home / DATABASE_NAME}"
    return migrate_store(place, settings.tenant, settings.home / "cache", language, role, distribute)


@dataclass(eq=False, repr=False)
class Maintenance:
    """Status, doctor, forgetting, rebuilding, backup and export; opens the recorder for what needs it.

    Attributes:
        removed: what killed backups, exports and restores had left when the store was opened.
    """

    store: Store
    journal: Journal | None
    recorder: Callable[[], Recorder]
    spaces: Spaces
    home: Path
    now: Callable[[], datetime]
    removed: list[str] = field(default_factory=list)

    def status(self) -> StoreStatus:
        """The size and the state of the store; opens no model."""
        with suppress(StoreError):
            self.store.count_ahead()
        with self.store.reading() as tx:
            spaces = spaces_by_state(tx)
            active, filling = spaces.get("active"), spaces.get("filling")
            rows, is_second_off = count_rows(tx), self.spaces.multilingual is False or not self.spaces.is_configured
            second = {} if is_second_off else second_spaces(tx)
            # By what the rows have applied of each file, which is all of it: to look at them takes ten times as long.
            journal = {"journal": applied_bytes(tx)} if self.journal is not None else {}
            return StoreStatus(
                counts=count_all(tx, active.id if active else None, rows),
                queue=jobs.count_embedding(tx, filling or active, rows)[1],
                redactions=read_counters(tx, "redacted:"),
                space=active.name if active else None,
                filling=filling.name if filling else None,
                languages_space=second[FOREIGN].name.removesuffix(f"/{FOREIGN}") if second else None,
                languages_queue=jobs.count_second(tx, tuple(second.values()), rows) if second else 0,
                spent=spend.spent_in_all(tx),
                spent_today=spend.spent_on_day(tx, spend.day_of(self.now())),
                sizes={"database": self.store.size_bytes(), **journal, "cache": _bytes_under(self.home / "cache")},
                stale_leases=jobs.stale_leases(tx, self.now()),
                torn=len(self.journal.torn()) if self.journal else 0,
                home=self.home,
                store=self.store.url,
            )

    def projects(self) -> list[tuple[str, str, int]]:
        """(key, name, conversations) of every project, the busiest first."""
        with self.store.reading() as tx:
            return list_projects(tx)

    def conversations(self, wanted: ConversationFilter) -> tuple[list[ListedConversation], int]:
        """Those conversations first in which something was said last, and how many there are in all.

        Raises:
            NotFoundError: there is no such project, or nothing of the agent.
        """
        with self.store.reading() as tx:
            return list_conversations(tx, wanted)

    def activity(self) -> list[Activity]:
        """What was said, what came back and what models cost, a line for each conversation and month."""
        with self.store.reading() as tx:
            return read_activity(tx)

    def titles(self, conversation_uids: Sequence[str], space: str = "") -> dict[str, str]:
        """A line for people per conversation: its title, else its first words; in a team, in the space named."""
        with self.store.reading() as tx:
            return read_titles(tx, conversation_uids)

    def failures(self, limit: int = 100) -> list[FailedWork]:
        """Work that was given up, newest first."""
        with self.store.reading() as tx:
            return jobs.list_failed(tx, limit)

    def retry_failed(self) -> int:
        """Let everything that was given up be tried again; how many items that is."""
        with self.store.writing() as tx:
            count = jobs.retry_failed(tx)
        self.recorder().wake()
        return count

    def doctor(self, fix: bool = False) -> list[Finding]:
        """Everything that does not agree; empty when all does."""
        from harken.record.doctor import Doctor, Finding

        found = Doctor(self.store, self.journal, self.recorder(), self.now(), fix).examine()
        self.removed += remove_staged(self.home)
        try:
            self.spaces.second_embedder()
        except (MissingExtraError, ProviderError) as error:
            found.append(Finding("languages", str(error)))
        left = (f"{place} was left by a backup, an export or a restore that was killed." for place in self.removed)
        return [*(Finding("left", problem, fixed=True) for problem in left), *found]

    def reindex_from_journal(self) -> Iterator[tuple[int, int]]:
        """Make the rows anew from the journal, yielding (conversations done, in all).

        Raises:
            UsageError: this store keeps no journal.
        """
        if self.journal is None:
            raise UsageError("This store keeps no journal: its database is the truth.")
        from harken.journal.replay import reindex

        yield from reindex(self.store, self.journal, self.recorder().ingest, Replayed(0, 0, []))

    def plan_embedding(self, sources: Sequence[str] = ()) -> EmbeddingPlan:
        """Count what `embed_again` would do.

        Raises:
            UsageError: the settings name no embedding model.
            ProviderError: the model cannot be opened.
        """
        from harken.text import tokens

        filled = self._filled()
        with self.store.reading() as tx:
            counts = count_vectors(tx, filled.space)
            count = sum(map(tokens.estimate, embeddable_texts(tx, sources)))
        mine = {source: found for source, found in counts.items() if not sources or source in sources}
        deleted = sum(found.embedded for found in mine.values())
        texts = {source: found.embedded + found.waiting for source, found in mine.items()}
        return EmbeddingPlan(deleted, texts, count, filled.space.name, self.spaces.price(count))

    def embed_again(self, progress: Callable[[int], None] = lambda _done: None, sources: Sequence[str] = ()) -> int:
        """Let entries of all sources, or of some, wait for a new vector; until then words find them.

        `progress` is called with the number of entries looked at. `Harken.embed` or a worker makes the vectors.

        Returns:
            How many wait.
        Raises:
            UsageError: the settings name no embedding model.
            ProviderError: the model cannot be opened; nothing was changed.
        """
        from harken.storage.entries import wait_again

        self._filled()
        recorder = self.recorder()
        with self.store.writing() as tx:
            waiting = wait_again(tx, recorder.min_message_tokens, progress, sources)
        self.store.nearest.discard()
        recorder.wake()
        return waiting

    def plan_forget(
        self,
        *,
        messages: Sequence[str] = (),
        conversations: Sequence[str] = (),
        project: str | None = None,
        query: str | None = None,
        saved: tuple[str, Sequence[str]] = ("", ()),
    ) -> ForgetPlan:
        """Find what is to be forgotten: messages by id; conversations by how it begins, or by name; those of a project.

        A conversation goes with its subagents'. A query stands for every message that holds all of its words, in any
        case. What is `saved` is named by its kind, `memory`, `experience` or `value`; a memory goes with those before.

        Raises:
            NotFoundError: an id or a name names nothing.
            UsageError: nothing, or more than one thing, was named.
        """
        from harken.record.forget import plan_conversations, plan_messages, plan_project, plan_saved, with_subagents
        from harken.sources.memories.memories import whole_uids

        if sum(map(bool, (messages, conversations, project, query, saved[1]))) != 1:
            raise UsageError("Name one of: ids of messages, conversations, a project, a query.")
        with self.store.reading() as tx:
            if saved[1]:
                return plan_saved(tx, saved[0], whole_uids(tx, *saved), self.now())
            if query:
                messages = _holding_all(tx, query)
            if conversations:
                return plan_conversations(tx, with_subagents(tx, several(conversations)), self.now())
            if project:
                return plan_project(tx, project, self.now())
            return plan_messages(tx, several(messages), self.now())

    def forget(self, doomed: ForgetPlan, progress: Callable[[int, int], None] = lambda _done, _all: None) -> Forgotten:
        """Forget for good what was named: rows, full text, vectors, caches, journal. Only ids remain.

        A damaged database that was set aside before goes whole, and so does the history of what was typed in chats:
        both may hold the words as well.
        """
        from harken.record.forget import erase_copies

        done = self.recorder().forget_planned(doomed, progress)
        if self.journal is None:
            erase_copies(self.home)
        return done

    def backup(self, target: str | Path) -> int:
        """Write one file with everything, while others use the store; its size in bytes.

        Raises:
            UsageError: the target exists.
            StoreError: it cannot be written.
        """
        from harken.journal.backup import backup

        return backup(self.store, self.home, Path(target), journalled=self.journal is not None)

    def export(
        self,
        target: str | Path | BinaryIO,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        with_vectors: bool = False,
    ) -> Exported:
        """Write everything that was recorded, and its summaries, as `jsonl` for any store: to a new file, or a stream.

        `progress` is called with (messages done, in all) now and then. Vectors are of use where the model is the same.

        Raises:
            UsageError: the target exists.
            StoreError: it cannot be written.
        """
        from harken.journal.export import export

        if isinstance(target, str | Path):
            # It appears under its name only when it is whole.
            with new_file(Path(target).expanduser(), self.home) as part, part.open("wb") as stream:
                return self.export(stream, progress, with_vectors)
        return export(self.store, target, progress, with_vectors, self.journal)

    def _filled(self) -> OpenSpace:
        filled = self.spaces.filled()
        if filled is None:
            raise UsageError("The settings name no embedding model. Set one: harken config set embedder onnx")
        return filled


def _bytes_under(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # Others may take any of them away meanwhile.
            with suppress(FileNotFoundError):
                total += Path(place, name).lstat().st_size
    return total


def _holding_all(tx: Transaction, query: str) -> list[str]:
    """By the messages themselves, not by search: that ranks, has limits, and sees of a tool's result the head."""
    from harken.search.query import whole_words

    patterns = whole_words(query)
    found = messages_holding(tx, list(patterns)) if patterns else ()
    return [uid for uid, text in found if all(pattern.search(text) for pattern in patterns.values())]
