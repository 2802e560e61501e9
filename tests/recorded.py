"""A home with its store, journal and recorder, and a clock that the test moves."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row

from harken.config.sections import RecordConfig
from harken.journal.journal import Journal, Replayed
from harken.journal.replay import reindex, replay_tail
from harken.model.conversations import Message, Role
from harken.record.doctor import Doctor, Finding
from harken.record.forget import Forgotten, forget, plan_conversations, plan_messages
from harken.record.recorder import Batch, NewConversation, NewMessage, Recorded, Recorder
from harken.redact.redactor import Redactor
from harken.storage.conversations import count_all, messages_of
from harken.storage.open import open_store
from harken.storage.ports import Store
from harken.storage.tables import metadata

NOON = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
LONG = "words that are many enough to be given a vector of their own by whoever embeds them later on"
# Made of the moment of making, so the same records made twice differ in these alone.
_OF_THE_DATABASE = ("journal_files", "settings", "import_state")
_ROW_IDS = ("id", "conversation_id", "segment_id", "exchange_id", "project_id", "entry_id", "space_id", "item_id")


@dataclass
class Clock:
    """Stands still until it is told to go on."""

    moment: datetime = NOON

    def __call__(self) -> datetime:
        return self.moment

    def go_on(self, **by: float) -> None:
        """Move, by `seconds=`, `minutes=`, `days=`…"""
        self.moment += timedelta(**by)


@dataclass
class RecordedHome:
    """What the recording stage needs, on a folder of its own."""

    home: Path
    empty_database: Path
    clock: Clock = field(default_factory=Clock)
    woken: int = 0
    replayed: Replayed = field(default_factory=lambda: Replayed(0, 0, []))

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        shutil.copy(self.empty_database, self.home / "harken.db")
        self.open()

    def open(self, replaying: bool = True) -> Replayed:
        """Open what is in the home, as a new process would; what was replayed on the way."""
        self.store: Store = open_store(self.home / "harken.db", self.home / "cache")
        self.journal = Journal(self.home / "conversations", self.home / "torn")
        self.recorder = Recorder(self.store, self.journal, Redactor(), RecordConfig(), 10, self._wake, self.clock)
        if replaying:
            self.replayed = replay_tail(self.store, self.journal, self.recorder.ingest)
        return self.replayed

    def snapshot(self) -> None:
        """Remember the database as it stands, for `die_back`."""
        self.store.backup(self.home.parent / "snapshot.db")

    def die_back(self, replaying: bool = True) -> Replayed:
        """Open again with the database of the snapshot, as if the process had died before its commits."""
        self.close()
        (self.home.parent / "snapshot.db").replace(self.home / "harken.db")
        return self.open(replaying)

    def reopen(self) -> Replayed:
        """Close everything and open it again."""
        self.close()
        return self.open()

    def close(self) -> None:
        """Give the store back."""
        self.store.close()

    def lose_database(self) -> None:
        """Delete the database file and open an empty one in its place."""
        self.close()
        for file in self.home.glob("harken.db*"):
            file.unlink()
        shutil.copy(self.empty_database, self.home / "harken.db")
        self.open()

    def say(self, name: str, text: str, role: Role = Role.USER, **more: Any) -> Message:
        """Record one message of the conversation of that name, a second after the one before."""
        self.clock.go_on(seconds=1)
        recorded = self.record(name, NewMessage(role, text, **more))
        return recorded.messages[0]

    def talk(self, name: str, *texts: str) -> list[Message]:
        """Record messages of user and assistant in turn."""
        return [self.say(name, text, Role.ASSISTANT if i % 2 else Role.USER) for i, text in enumerate(texts)]

    def record(self, name: str, *messages: NewMessage, finish: bool = False, **head: Any) -> Recorded:
        """Record messages of one conversation in one batch."""
        return self.recorder.record([Batch(NewConversation("test", name, **head), messages, finish)])

    def uid(self, name: str) -> str:
        """The id of the conversation of that name."""
        return NewConversation("test", name).uid

    def texts(self, name: str) -> list[str]:
        """What the rows have of a conversation, oldest first."""
        with self.store.reading() as tx:
            return [message.text for message in messages_of(tx, self.uid(name))]

    def journal_files(self, name: str) -> list[Path]:
        """The conversation's files, oldest first."""
        return [self.home / "conversations" / path for path, _ in self.journal.files(self.uid(name))]

    def lines(self, name: str) -> list[bytes]:
        """Every line of the conversation's journal."""
        return [line for file in self.journal_files(name) for line in file.read_bytes().splitlines(keepends=True)]

    def forget(self, *messages: Message, conversation: str | None = None) -> Forgotten:
        """Forget messages, or a conversation by its name."""
        with self.store.reading() as tx:
            if conversation is None:
                doomed = plan_messages(tx, [message.uid for message in messages], self.clock())
            else:
                doomed = plan_conversations(tx, [self.uid(conversation)], self.clock())
        return forget(self.store, self.journal, doomed, self.recorder.ingest)

    def reindex(self) -> None:
        """Make the rows anew from the journal."""
        for _ in reindex(self.store, self.journal, self.recorder.ingest, Replayed(0, 0, [])):
            pass

    def doctor(self, fix: bool = False) -> list[Finding]:
        """What does not agree."""
        return Doctor(self.store, self.journal, self.recorder, self.clock(), fix).examine()

    def count(self) -> int:
        """How many messages the rows have."""
        with self.store.reading() as tx:
            return count_all(tx, None).messages

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table of records, without the ids that only the database knows, and what an import did."""
        with self.store.reading() as tx:
            return {
                name: sorted(filter(None, map(_plain, tx.connection.execute(table.select()).all())), key=repr)
                for name, table in metadata.tables.items()
                if name not in _OF_THE_DATABASE
            }

    def _wake(self) -> None:
        self.woken += 1


def _plain(row: Row[Any]) -> dict[str, Any]:
    is_of_import = str(row._mapping.get("name", "")).startswith("imported:")
    return {} if is_of_import else {key: value for key, value in row._asdict().items() if key not in _ROW_IDS}


def in_small_steps(monkeypatch: pytest.MonkeyPatch, messages: int) -> None:
    """Have imports write about so many short messages in a transaction."""
    monkeypatch.setattr("harken.importers.transcript._PORTION_WEIGHT", messages * 260)
    monkeypatch.setattr("harken.importers.importer._MOST_ROOM", 1.0)
