"""Core memory: what the agent always knows of its user and of itself."""

from __future__ import annotations

from dataclasses import dataclass

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import SECTIONS
from harken.model.conversations import CORE_MEMORY, CoreFact
from harken.record.forget import erase_copies, finish_forgetting, note_scrub
from harken.record.recorder import TICK, Recorder
from harken.storage.events import Ingest
from harken.storage.ports import Transaction
from harken.storage.state import core_facts
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
            return [fact for fact in core_facts(tx, *SECTIONS) if section in (None, fact.section)]

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
        clean, text = cleaned_fact(self.recorder, key, value)
        if value is None or not clean or not text:
            raise UsageError("A core memory needs a key and a value.")
        return self.put(section, clean, text)

    def delete(self, section: str, key: str) -> None:
        """Forget a value: it leaves the rows, the journal and the space that it took.

        Raises:
            UsageError: there is no such section.
            NotFoundError: nothing is kept under the key.
        """
        self.get(section, key)
        self.put(section, _clean(key), None)
        if self.recorder.journal is not None:
            erase_copies(self.recorder.journal.home)
        finish_forgetting(self.recorder.store)

    def put(self, section: str, key: str, value: str | None) -> CoreFact:
        """Write a value as it is, or its deletion; what stood there before leaves the journal."""
        moment = self.recorder.now()

        def later(tx: Transaction, _ingest: Ingest) -> list[CoreFact]:
            if value is None:
                # With the rows: whoever found it before they go would overwrite the space that is not free yet.
                note_scrub(tx)
            earlier = (fact.at for fact in core_facts(tx) if (fact.section, fact.key) == (section, key))
            return [CoreFact(section, key, value, max([moment, *(at + TICK for at in earlier)]))]

        return self.recorder.admit([CORE_MEMORY], later, superseding=[CORE_MEMORY])[0]


def cleaned_fact(recorder: Recorder, key: str, value: str) -> tuple[str, str]:
    """Key and value without secrets; the key may be what says that the value is one."""
    clean = recorder.clean(_clean(key))
    told: str = recorder.clean(f"{clean}: {recorder.clean(value)}")
    return clean, told.removeprefix(f"{clean}: ").strip()


def _check(section: str) -> None:
    if section not in SECTIONS:
        raise UsageError(f"Core memory has the sections {' and '.join(SECTIONS)}, not '{section}'.")


def _clean(key: str) -> str:
    return " ".join(valid_utf8(key).split())
