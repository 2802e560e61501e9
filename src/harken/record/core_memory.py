"""Core memory: what the agent always knows of its user and of itself."""

from __future__ import annotations

from dataclasses import dataclass

from harken.errors import NotFoundError, UsageError
from harken.journal.replay import replay_conversation
from harken.model.arguments import SECTIONS
from harken.model.conversations import CORE_MEMORY, CoreFact
from harken.record.forget import finish_forgetting, note_scrub
from harken.record.recorder import Recorder
from harken.storage.state import core_facts, drop_journal_offset, put_journal_offset
from harken.text.characters import valid_utf8


@dataclass(slots=True)
class CoreMemory:
    """Small facts by section and key; reached as `Harken.core`."""

    recorder: Recorder

    def list(self, section: str | None = None) -> list[CoreFact]:
        """Every fact: the user's, then the agent's, each in the order of their keys.

        Raises:
            UsageError: there is no such section.
        """
        if section is not None:
            _check(section)
        with self.recorder.store.reading() as tx:
            return [fact for fact in core_facts(tx) if section in (None, fact.section)]

    def get(self, section: str, key: str) -> str:
        """The value.

        Raises:
            UsageError: there is no such section.
            NotFoundError: nothing is kept under the key.
        """
        found = next((fact for fact in self.list(section) if fact.key == _clean(key)), None)
        if found is None or found.value is None:
            raise NotFoundError(f"Core memory has no '{key}' in {section}. See: harken core list")
        return found.value

    def update(self, section: str, key: str, value: str) -> CoreFact:
        """Set a value, in place of the one before; secrets are taken out first.

        Raises:
            UsageError: there is no such section, or key or value are empty.
        """
        _check(section)
        clean, text = self.recorder.clean(_clean(key)), self.recorder.clean(value).strip()
        if not clean or not text:
            raise UsageError("A core memory needs a key and a value.")
        fact = CoreFact(section, clean, text, self.recorder.now())
        self.recorder.admit([CORE_MEMORY], lambda _tx, _ingest: [fact])
        return fact

    def delete(self, section: str, key: str) -> None:
        """Forget a value: it leaves the rows, the journal and the space that it took.

        Raises:
            UsageError: there is no such section.
            NotFoundError: nothing is kept under the key.
        """
        self.get(section, key)
        gone = CoreFact(section, _clean(key), None, self.recorder.now())
        store = self.recorder.store
        with store.writing() as tx:
            note_scrub(tx)
        self.recorder.admit([CORE_MEMORY], lambda _tx, _ingest: [gone])
        self._erase(gone)
        finish_forgetting(store)

    def _erase(self, gone: CoreFact) -> None:
        """Take every earlier value out of the journal; that it was deleted stays written."""
        journal = self.recorder.journal
        if journal is None:
            return
        with self.recorder.store.writing() as tx:
            events = [
                event for path, _ in journal.files(CORE_MEMORY) for line in journal.read(path) if (event := line.event)
            ]
            ours = [isinstance(event, CoreFact) and event.uid == gone.uid for event in events]
            values = [isinstance(event, CoreFact) and event.value is not None for event in events]
            # What another process has set since the last deletion stays.
            last = max((at for at, own in enumerate(ours) if own and not values[at]), default=0)
            stays = iter([not (own and values[at] and at < last) for at, own in enumerate(ours)])
            rewritten = journal.rewrite(CORE_MEMORY, lambda event: event if next(stays) else None)
            # A crash behind this leaves files of another size than the rows know, and they are read again, whole.
            for path, size in rewritten.items():
                if size == 0:
                    drop_journal_offset(tx, path)
                else:
                    put_journal_offset(tx, path, 0)
            # They may hold what a dead writer left, which the rows lack.
            replay_conversation(tx, journal, CORE_MEMORY, self.recorder.ingest(tx))


def _check(section: str) -> None:
    if section not in SECTIONS:
        raise UsageError(f"Core memory has the sections {' and '.join(SECTIONS)}, not '{section}'.")


def _clean(key: str) -> str:
    return " ".join(valid_utf8(key).split())
