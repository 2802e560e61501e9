from __future__ import annotations

import sqlite3
from datetime import timedelta

import pytest
from sqlalchemy import event

from command_line import files_holding
from harken.errors import NotFoundError, StoreError
from harken.model.conversations import Message, ProjectIdentity, Role, SavedRecord
from harken.model.marks import OWNER, Rated, Verdict
from harken.record.forget import finish_forgetting, forget, plan_conversations, plan_messages, plan_project
from harken.record.labels import Labels
from harken.record.recorder import NewMessage
from harken.storage.conversations import count_all, tombstones_of
from harken.storage.enrichment.jobs import claim_unembedded
from harken.storage.entries import load_entries
from harken.storage.ports import RowScope
from harken.storage.projects import project_identity, project_row
from harken.storage.sqlite import store as sqlite_store
from harken.storage.vectors import ensure_space, put_vectors
from harken.testing import hashed_vectors
from recorded import LONG, RecordedHome

# Begins like no other word: full text keeps words without what they share with the one before.
WORD = "quetzalcoatl"
TRACE = b"quetzalc"


def found(place: RecordedHome, *words: str) -> list[str]:
    with place.store.reading() as tx:
        scored = tx.text.search(tx.connection, words, RowScope(), 50)
        return [entry.text for entry in load_entries(tx, [entry_id for entry_id, _ in scored]).values()]


def embedded(place: RecordedHome) -> None:
    """Give everything that waits for one a vector."""
    with place.store.writing() as tx:
        space = ensure_space(tx, "words", 64, 0.2, {})
        claimed = claim_unembedded(tx, space, "me", 100, place.clock(), 60)
        put_vectors(tx, space, [item.entry_id for item in claimed], hashed_vectors([i.text for i in claimed], 64))


def test_a_project_goes_with_its_subagents_who_were_elsewhere(place: RecordedHome) -> None:
    here, there = ProjectIdentity("name:here", "here"), ProjectIdentity("name:there", "there")
    place.record("a", NewMessage(Role.USER, "one"), project=here)
    for name, parent in (("a/1", "a"), ("a/1/1", "a/1"), ("b", None)):
        place.record(name, NewMessage(Role.USER, name), project=there, parent_external_id=parent)
    with place.store.reading() as tx:
        plan = plan_project(tx, "here", place.clock())
    assert {grave.uid for grave in plan.tombstones} == {place.uid(name) for name in ("a", "a/1", "a/1/1")}


def test_a_project_of_which_nothing_is_left_goes_with_its_names(place: RecordedHome) -> None:
    mine = ProjectIdentity(f"path:/home/ann/{WORD}", WORD, (f"git:example.org/{WORD}",))
    for name in ("a", "b"):
        place.record(name, NewMessage(Role.USER, "one"), project=mine)
    place.forget(conversation="a")
    with place.store.reading() as tx:
        assert project_identity(tx, project_row(tx, WORD)) == mine
    fields = {"content": "one", "category": "fact", "importance": 0.5, "tags": [], "supersedes": []}
    fields |= {"trust": "owner", "created_at": "2023-05-08T12:00:00.000000Z"}
    with place.recorder.saving("memory") as records:
        records.save(SavedRecord("memory", "m1", place.clock(), fields, mine))
    place.forget(conversation="b")
    with place.store.reading() as tx:
        assert project_identity(tx, project_row(tx, WORD)) == mine
    place.recorder.forget("memory", ["m1"])
    assert files_holding(place.home, TRACE) == []


def test_a_project_stays_that_a_conversation_goes_back_to_when_its_label_goes(place: RecordedHome) -> None:
    for name, project in (("a", "mine"), ("b", "mine"), ("c", "other")):
        place.record(name, NewMessage(Role.USER, "one"), project=ProjectIdentity(f"name:{project}", project))
    labels = Labels(place.recorder)
    labels.move(place.uid("a"), "other")
    place.forget(conversation="b")
    labels.move(place.uid("a"), None)
    with place.store.reading() as tx:
        assert [grave.uid for grave in plan_project(tx, "mine", place.clock()).tombstones] == [place.uid("a")]


def test_what_was_said_of_it_meanwhile_is_in_no_file(place: RecordedHome) -> None:
    message, _ = place.talk("c", "one", "two")
    said = Rated("r", place.uid("c"), message.uid, Verdict.WRONG, OWNER, place.clock(), question=f"which {WORD}?")
    place.forget(message)
    assert list(place.recorder.admit([place.uid("c")], lambda _tx, _ingest: [said])) == []
    assert files_holding(place.home, TRACE) == []
    assert place.doctor() == []


def test_a_subagent_of_a_forgotten_conversation_that_comes_to_light_later_stays_out(place: RecordedHome) -> None:
    place.talk("a", "one", "two")
    place.forget(conversation="a")
    recorded = place.record("a/1", NewMessage(Role.USER, WORD, origin="1"), parent_external_id="a")
    assert (recorded.messages, recorded.forgotten) == ((), 1)
    assert files_holding(place.home, TRACE) == []


class TestMessages:
    def test_the_words_are_in_no_file_under_the_home(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        message = place.say("c", f"My {WORD} is {LONG}")
        place.talk("c", "four", "five")
        embedded(place)
        assert files_holding(place.home, TRACE) != []
        done = place.forget(message)
        assert (done.messages, done.conversations, done.scrubbed) == (1, 0, True)
        assert files_holding(place.home, TRACE) == []
        assert found(place, WORD) == []
        assert len(found(place, "four")) == 4

    def test_while_another_has_the_home_open_the_words_go_all_the_same(self, place: RecordedHome) -> None:
        message = place.say("c", WORD)
        other = RecordedHome.__new__(RecordedHome)
        other.home, other.clock = place.home, place.clock
        other.open()
        assert other.texts("c") == [WORD]
        assert place.forget(message).scrubbed
        assert files_holding(place.home, TRACE) == []
        assert other.texts("c") == []
        other.close()

    def test_while_another_reads_the_files_keep_traces_until_the_doctor_comes(
        self, place: RecordedHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_SECONDS", 0.1)
        place.reopen()
        message = place.say("c", WORD)
        reader = sqlite3.connect(place.home / "harken.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchone()
        assert place.forget(message).scrubbed is False
        reader.close()
        place.doctor(fix=True)
        assert files_holding(place.home, TRACE) == []

    def test_the_others_keep_their_place_and_their_exchange(self, place: RecordedHome) -> None:
        said = place.talk("c", "one", "two", "three", "four")
        place.forget(said[1])
        assert place.texts("c") == ["one", "three", "four"]
        assert len(place.rows()["exchanges"]) == 2

    def test_they_stay_gone_when_the_database_is_made_anew(self, place: RecordedHome) -> None:
        said = place.talk("c", "one", WORD, "three")
        place.clock.go_on(days=3)
        place.forget(said[1])
        before = place.rows()
        assert place.clock() - said[1].created_at >= timedelta(days=3)
        place.lose_database()
        assert place.texts("c") == ["one", "three"]
        assert place.rows() == before

    def test_what_was_set_aside_of_the_conversation_goes_too(self, place: RecordedHome) -> None:
        message = place.say("c", "one")
        (file,) = place.journal_files("c")
        file.write_bytes(file.read_bytes() + f'{{"event":"message","text":"{WORD}'.encode())
        place.reopen()
        assert files_holding(place.home / "torn", TRACE) != []
        place.forget(message)
        assert files_holding(place.home, TRACE) == []

    def test_a_message_that_is_not_in_the_journal_leaves_its_id_there(self, place: RecordedHome) -> None:
        said = place.talk("c", "one", WORD)
        (file,) = place.journal_files("c")
        file.write_bytes(b"".join(line for line in place.lines("c") if TRACE not in line))
        place.reopen()
        place.forget(said[1])
        place.lose_database()
        with place.store.reading() as tx:
            assert [grave.uid for grave in tombstones_of(tx, place.uid("c"))] == [said[1].uid]

    def test_hundreds_at_once_are_forgotten(self, place: RecordedHome) -> None:
        batch = [NewMessage(Role.USER, f"{WORD} {number}" if number % 2 else f"kept {number}") for number in range(300)]
        said = place.record("c", *batch).messages
        seen: list[tuple[int, int]] = []
        asked: list[object] = []

        def note(*about: object) -> None:
            asked.append(about[2])

        with place.store.reading() as tx:
            doomed = plan_messages(tx, [m.uid for m in said if WORD in m.text], place.clock())
            engine = tx.connection.engine
        event.listen(engine, "before_cursor_execute", note)
        try:
            forget(place.store, place.journal, doomed, place.recorder.ingest, lambda *at: seen.append(at))
        finally:
            event.remove(engine, "before_cursor_execute", note)
        assert seen == [(100, 150), (150, 150)]
        # Together: one by one, each takes some twenty.
        assert len(asked) < 150
        assert len(place.texts("c")) == 150
        assert files_holding(place.home, TRACE) == []
        assert place.doctor() == []

    def test_a_failure_before_the_rows_are_gone_leaves_everything(self, place: RecordedHome) -> None:
        message = place.say("c", WORD)

        def fails(_done: int, _all: int) -> None:
            raise RuntimeError("stop")

        with place.store.reading() as tx:
            doomed = plan_messages(tx, [message.uid], place.clock())
        with pytest.raises(RuntimeError, match="stop"):
            forget(place.store, place.journal, doomed, place.recorder.ingest, fails)
        assert place.texts("c") == [WORD]
        assert place.doctor() == []

    def test_without_a_journal_the_rows_are_all_there_is_to_clean(self, place: RecordedHome) -> None:
        place.recorder.journal = None
        message = place.say("c", WORD)
        with place.store.reading() as tx:
            doomed = plan_messages(tx, [message.uid], place.clock())
        assert forget(place.store, None, doomed, place.recorder.ingest).messages == 1
        assert files_holding(place.home, TRACE) == []


class TestConversations:
    def test_nothing_but_its_id_remains(self, place: RecordedHome) -> None:
        place.record("c", NewMessage(Role.USER, f"{WORD} one"), title=f"Of {WORD}", metadata={"branch": WORD})
        place.talk("c", f"{WORD} two", f"{WORD} three")
        kept = place.say("d", "kept")
        done = place.forget(conversation="c")
        assert (done.messages, done.conversations) == (3, 1)
        assert files_holding(place.home, TRACE) == []
        assert place.texts("d") == [kept.text]
        with place.store.reading() as tx:
            assert count_all(tx, None).conversations == 1
        assert len(place.lines("c")) == 1

    def test_it_stays_gone_when_the_database_is_made_anew(self, place: RecordedHome) -> None:
        said = place.talk("c", "one", "two", "three")
        place.forget(said[0])
        place.clock.go_on(days=1)
        place.say("c", "four")
        place.forget(conversation="c")
        before = place.rows()
        place.lose_database()
        assert place.texts("c") == []
        assert place.rows() == before
        assert place.record("c", NewMessage(Role.USER, "again")).forgotten == 1

    def test_one_whose_head_line_is_lost_stays_gone_as_well(self, place: RecordedHome) -> None:
        place.talk("c", "one", "two")
        (file,) = place.journal_files("c")
        file.write_bytes(b"".join(place.lines("c")[1:]))
        place.reopen()
        place.forget(conversation="c")
        place.lose_database()
        assert place.record("c", NewMessage(Role.USER, "again")).forgotten == 1


class TestNaming:
    def test_messages_are_named_by_id(self, place: RecordedHome) -> None:
        said = place.talk("c", "one", "two")
        with place.store.reading() as tx:
            doomed = plan_messages(tx, [said[0].uid], place.clock())
        (tombstone,) = doomed.tombstones
        assert (tombstone.uid, tombstone.conversation_uid, tombstone.kind) == (said[0].uid, place.uid("c"), "message")
        assert (tombstone.at, doomed.messages) == (place.clock(), 1)

    def test_a_project_is_all_its_conversations(self, place: RecordedHome) -> None:
        house = ProjectIdentity("git:example.org/o/house", "house")
        for name, project in (("a", house), ("b", house), ("c", None)):
            place.record(name, NewMessage(Role.USER, "hi"), NewMessage(Role.ASSISTANT, "hi"), project=project)
        with place.store.reading() as tx:
            doomed = plan_project(tx, "house", place.clock())
        assert {tombstone.uid for tombstone in doomed.tombstones} == {place.uid("a"), place.uid("b")}
        assert doomed.messages == 4

    def test_a_conversation_without_messages_can_be_named(self, place: RecordedHome) -> None:
        place.forget(place.say("c", "one"))
        with place.store.reading() as tx:
            assert plan_conversations(tx, [place.uid("c")], place.clock()).messages == 0

    def test_what_is_not_there_cannot_be_named(self, place: RecordedHome) -> None:
        message = place.say("c", "one")
        with place.store.reading() as tx:
            with pytest.raises(NotFoundError, match="no message nothing"):
                plan_messages(tx, [message.uid, "nothing"], place.clock())
            with pytest.raises(NotFoundError, match="no conversation nothing"):
                plan_conversations(tx, ["nothing"], place.clock())
            with pytest.raises(NotFoundError, match="no project nothing"):
                plan_project(tx, "nothing", place.clock())


def test_a_home_whose_journal_cannot_be_rewritten_finishes_later(
    place: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    message: Message = place.say("c", WORD)

    def refused(*_: object) -> None:
        raise StoreError("no")

    monkeypatch.setattr(place.journal, "rewrite", refused)
    with pytest.raises(StoreError):
        place.forget(message)
    assert place.texts("c") == []
    place.reopen()
    assert not any(TRACE in line for line in place.lines("c"))


def test_what_another_forgets_while_this_one_scrubs_is_still_to_be_scrubbed(
    place: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, other_message = place.say("c", "one"), place.say("d", WORD)
    other = RecordedHome.__new__(RecordedHome)
    other.home, other.clock = place.home, place.clock
    other.open()
    scrub = place.store.scrub

    def dies(*_: object) -> None:
        raise StoreError("killed")

    def scrub_while_another_forgets() -> bool:
        done = scrub()
        monkeypatch.setattr(place.store, "scrub", scrub)
        monkeypatch.setattr(other.journal, "rewrite", dies)
        with pytest.raises(StoreError):
            other.forget(other_message)
        other.close()
        return done

    monkeypatch.setattr(place.store, "scrub", scrub_while_another_forgets)
    place.forget(message)
    place.reopen()
    assert finish_forgetting(place.store)
    assert files_holding(place.home, TRACE) == []
