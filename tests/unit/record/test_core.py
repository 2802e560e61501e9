from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from command_line import files_holding
from harken.errors import NotFoundError, UsageError
from harken.journal.replay import give_back
from harken.model.conversations import CORE_MEMORY, CoreFact
from harken.record.core_memory import CoreMemory
from harken.record.forget import finish_forgetting
from harken.record.recorder import Recorder
from recorded import RecordedHome


@pytest.fixture
def core(place: RecordedHome) -> CoreMemory:
    return CoreMemory(place.recorder)


def facts(place: RecordedHome) -> list[tuple[str, str, str | None]]:
    return [(fact.section, fact.key, fact.value) for fact in CoreMemory(place.recorder).list()]


def journal_text(place: RecordedHome) -> str:
    return "".join(file.read_text("utf-8") for file in (place.home / "conversations" / "core").glob("*.jsonl"))


def test_a_value_is_set_changed_and_read_back(core: CoreMemory) -> None:
    core.update("user", "name", "Maya")
    core.update("user", " name ", "Maya Lin")
    core.update("agent", "tone", "short")
    assert core.get("user", "name") == "Maya Lin"
    assert [fact.uid for fact in core.list()] == ["user/name", "agent/tone"]
    assert [fact.uid for fact in core.list("agent")] == ["agent/tone"]


def test_a_value_that_was_overwritten_is_gone_from_the_journal(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "city", "Zanzibar")
    core.update("user", "name", "Maya")
    core.update("user", "city", "Oslo")
    assert "Zanzibar" not in journal_text(place)
    assert place.doctor() == []
    place.lose_database()
    assert facts(place) == [("user", "city", "Oslo"), ("user", "name", "Maya")]


def test_an_overwriting_that_was_interrupted_is_finished_by_the_next_to_open(
    core: CoreMemory, place: RecordedHome
) -> None:
    core.update("user", "city", "Zanzibar")
    r = place.recorder
    recorder = Interrupted(r.store, r.journal, r.redactor, r.config, r.min_message_tokens, r.wake, r.now)

    def dies() -> None:
        raise KeyboardInterrupt

    recorder.another = dies
    with pytest.raises(KeyboardInterrupt):
        CoreMemory(recorder).update("user", "city", "Oslo")
    assert "Zanzibar" in journal_text(place)
    place.reopen()
    assert "Zanzibar" not in journal_text(place)
    assert facts(place) == [("user", "city", "Oslo")]


def test_a_deleted_value_is_gone_from_rows_and_journal(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "city", "Zanzibar")
    core.update("user", "city", "Zanzibar East")
    core.update("user", "name", "Maya")
    core.delete("user", "city")
    with pytest.raises(NotFoundError, match="no 'city' in user"):
        core.get("user", "city")
    assert "Zanzibar" not in journal_text(place)
    assert "Maya" in journal_text(place)
    place.reindex()
    assert facts(place) == [("user", "name", "Maya")]


def test_a_deleted_value_is_in_no_file_while_the_home_is_open(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "city", "Zanzibar")
    assert files_holding(place.home, b"Zanzibar") != []
    core.delete("user", "city")
    assert files_holding(place.home, b"Zanzibar") == []


def test_it_comes_back_from_the_journal_alone(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "name", "Maya")
    place.clock.go_on(days=1)
    core.update("user", "name", "Maya Lin")
    core.update("agent", "tone", "short")
    core.delete("agent", "tone")
    place.say("talk", "hello")
    before = facts(place)
    place.lose_database()
    assert facts(place) == before == [("user", "name", "Maya Lin")]
    place.reindex()
    assert facts(place) == before
    assert place.doctor() == []


def test_a_process_that_dies_before_its_commit_loses_nothing(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "name", "Maya")
    place.snapshot()
    core.update("user", "name", "Maya Lin")
    core.update("user", "city", "Zanzibar")
    core.delete("user", "city")
    place.die_back()
    assert facts(place) == [("user", "name", "Maya Lin")]
    assert place.doctor() == []


def test_a_row_that_the_journal_does_not_know_is_gone_after_a_rebuild(core: CoreMemory, place: RecordedHome) -> None:
    core.update("user", "name", "Maya")
    core.update("user", "city", "Zanzibar")
    [file] = (place.home / "conversations" / "core").glob("*.jsonl")
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    place.reindex()
    assert facts(place) == [("user", "name", "Maya")]


def test_secrets_are_taken_out_first(core: CoreMemory, place: RecordedHome) -> None:
    kept = core.update("user", "key", "my key is AKIAIOSFODNN7EXAMPLE, <private>and my pin 1234</private>")
    assert kept.value is not None
    assert "AKIAIOSFODNN7EXAMPLE" not in kept.value + journal_text(place)
    assert "1234" not in kept.value + journal_text(place)
    assert core.update("user", "wifi password", "Tr0ub4dorX9").value == "[redacted:password]"
    assert "Tr0ub4dorX9" not in journal_text(place)
    assert core.update("user", "password manager", "Bitwarden: the vault").value == "Bitwarden: the vault"


@pytest.mark.parametrize(("section", "key", "value"), [("team", "a", "b"), ("user", " ", "b"), ("user", "a", " ")])
def test_what_names_nothing_is_refused(core: CoreMemory, section: str, key: str, value: str) -> None:
    with pytest.raises(UsageError):
        core.update(section, key, value)
    with pytest.raises((UsageError, NotFoundError)):
        core.delete(section, key)


@dataclass
class Interrupted(Recorder):
    """Another process is quicker, between the two steps of a deletion."""

    another: Callable[[], object] = lambda: None

    def _erase_superseded(self, folder: str) -> None:
        self.another()
        super()._erase_superseded(folder)


def test_what_another_process_sets_while_the_old_value_is_deleted_is_kept(
    core: CoreMemory, place: RecordedHome
) -> None:
    core.update("user", "city", "Zanzibar")
    r = place.recorder
    recorder = Interrupted(r.store, r.journal, r.redactor, r.config, r.min_message_tokens, r.wake, r.now)
    recorder.another = lambda: core.update("user", "city", "Oslo")
    CoreMemory(recorder).delete("user", "city")
    assert core.get("user", "city") == "Oslo"
    assert "Zanzibar" not in journal_text(place)
    place.reindex()
    assert facts(place) == [("user", "city", "Oslo")]


class Overtaken(Recorder):
    """Another process opens the home, and does what is left to do there, before each writing."""

    def admit(self, *given: Any, **named: Any) -> Any:
        finish_forgetting(self.store)
        return super().admit(*given, **named)


def test_the_space_of_a_deleted_value_is_overwritten_once_it_is_free(
    core: CoreMemory, place: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.update("user", "city", "Zanzibar")
    scrub, kept = place.store.scrub, list[list[CoreFact]]()
    monkeypatch.setattr(place.store, "scrub", lambda: (kept.append(core.list()), scrub())[1])
    r = place.recorder
    CoreMemory(Overtaken(r.store, r.journal, r.redactor, r.config, r.min_message_tokens, r.wake, r.now)).delete(
        "user", "city"
    )
    assert kept == [[]]


def test_a_value_that_a_dead_process_left_in_the_journal_outlives_the_deletion_of_another(
    core: CoreMemory, place: RecordedHome
) -> None:
    core.update("user", "city", "Zanzibar")
    r = place.recorder
    recorder = Interrupted(r.store, r.journal, r.redactor, r.config, r.min_message_tokens, r.wake, r.now)

    def dies_before_its_commit() -> None:
        with place.store.writing() as tx:
            give_back(tx, place.journal, CORE_MEMORY, [CoreFact("user", "name", "Maya", place.clock())])
            tx.connection.rollback()

    recorder.another = dies_before_its_commit
    CoreMemory(recorder).delete("user", "city")
    assert facts(place) == [("user", "name", "Maya")]
    place.reindex()
    assert facts(place) == [("user", "name", "Maya")]
