"""Events become rows, once; what is forgotten leaves rows, full text, vectors and work, and never comes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harken.model.conversations import (
    REDACTED,
    Conversation,
    Event,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    Titled,
    Trust,
)
from harken.storage import conversations, overview, tables, vectors
from harken.storage.enrichment import jobs
from harken.storage.ports import RowScope, Store
from harken.storage.state import read_counters
from harken.storage.tables import exchanges, messages, work
from harken.storage.vectors import EMBED
from harken.testing.store_conformance.asking import (
    LONG,
    TOOL_CHARS,
    apply,
    embed,
    entry_ids,
    found,
    keep,
    read,
    space_of,
    spoken_at_length,
    text_problems,
    unit_vectors,
)
from harken.testing.talk import START, Talk, talk_of


class RecordingTests:
    """Inherited by `StoreConformance`."""

    def test_a_message_comes_back_as_it_was(self, store: Store) -> None:
        talk = Talk("whole")
        message = Message(
            uid="0190a000-0000-7000-8000-000000000001",
            conversation_uid=talk.uid,
            segment_uid=talk.segment.uid,
            exchange_uid=talk.exchange.uid,
            role=Role.TOOL,
            type=MessageType.TOOL_RESULT,
            text="naïve 東京 \U0001f600 \n\ttabs 'quotes' \"more\" \\ %_",
            created_at=datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
            author="Мария",
            trust=Trust.TOOL,
            call_id="call-1",
            tool_name="grep",
            external_id="ext-1",
            metadata={"model": "m", "nested": {"list": [1, None, "ü"]}},
            position=7,
        )
        apply(store, [*talk.events, message])
        assert read(store, conversations.find_message, message.uid) == message

    def test_a_conversation_comes_back_with_its_project(self, store: Store) -> None:
        project = ProjectIdentity("git:example.org/owner/name", "name")
        head = Conversation("c-1", "chat", "ext", "A title", START, START, project, "c-0", {"branch": "main"})
        apply(store, [head])
        with store.reading() as tx:
            assert conversations.find_conversation(tx, "c-1") == head
            assert conversations.find_conversation(tx, "c-2") is None

    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_any_moment_is_kept_to_the_microsecond(self, store: Store, year: int) -> None:
        talk = Talk("moments")
        message = talk.say("then", at=datetime(year, 6, 1, 1, 2, 3, 4, tzinfo=UTC))
        keep(store, talk)
        assert read(store, conversations.find_message, message.uid) == message

    def test_applying_events_again_changes_nothing(self, store: Store) -> None:
        talk = talk_of("twice", "a zebra", "a giraffe")
        talk.end_exchange()
        assert apply(store, talk.events) == 2
        assert apply(store, talk.events) == 0
        counts = read(store, conversations.count_all, None)
        assert (counts.conversations, counts.exchanges, counts.messages, counts.entries) == (1, 1, 2, 2)
        assert text_problems(store) == []

    def test_of_events_that_are_partly_known_only_the_others_are_added(self, store: Store) -> None:
        talk = talk_of("partly", "a zebra", "a giraffe")
        apply(store, talk.events)
        talk.say("an antelope")
        assert apply(store, talk.events) == 1
        texts = [message.text for message in read(store, conversations.messages_of, talk.uid)]
        assert texts == ["a zebra", "a giraffe", "an antelope"]

    def test_an_event_that_comes_twice_in_one_call_is_added_once(self, store: Store) -> None:
        talk = talk_of("doubled", "a zebra")
        assert apply(store, [*talk.events, *talk.events]) == 1

    def test_an_exchange_keeps_how_it_ended(self, store: Store) -> None:
        talk = talk_of("ended", "a question", "an answer")
        end = talk.end_exchange(ExchangeStatus.FAILED, "out of paper")
        keep(store, talk)
        with store.reading() as tx:
            row = tx.connection.execute(tx.select(exchanges).where(exchanges.c.uid == talk.exchange.uid)).one()
        assert (row.status, row.completed_at, row.error) == ("failed", end.at, "out of paper")

    def test_a_title_that_comes_later_replaces_the_first(self, store: Store) -> None:
        talk = keep(store, talk_of("titled", "a zebra"))
        apply(store, [Titled(talk.uid, "Of zebras", START)])
        assert read(store, overview.read_titles, [talk.uid]) == {talk.uid: "Of zebras"}

    def test_a_conversation_is_as_new_as_its_newest_message(self, store: Store) -> None:
        talk = talk_of("dated", "first")
        late = talk.say("last", at=START + timedelta(days=3))
        keep(store, talk)
        apply(store, [talk.say("an old one turns up", at=START + timedelta(days=1))])
        conversation = read(store, conversations.find_conversation, talk.uid)
        assert conversation is not None
        assert (conversation.created_at, conversation.updated_at) == (START, late.created_at)

    def test_secrets_taken_out_are_counted_by_kind(self, store: Store) -> None:
        talk = Talk("redacted")
        talk.say("one", metadata={REDACTED: {"aws": 2, "jwt": 1}})
        talk.say("two", metadata={REDACTED: {"aws": 1}, "model": "m"})
        talk.say("three", metadata={REDACTED: "a word of somebody else's"})
        keep(store, talk)
        apply(store, talk.events)
        assert read(store, read_counters, "redacted:") == {"aws": 3, "jwt": 1}

    def test_a_tool_result_is_kept_whole_and_searched_by_its_head(self, store: Store) -> None:
        talk = Talk("tools")
        message = talk.say("zebra " + "x " * TOOL_CHARS + "giraffe", Role.TOOL, type=MessageType.TOOL_RESULT)
        keep(store, talk)
        assert found(store, "zebra") == [message.uid]
        assert found(store, "giraffe") == []
        assert read(store, conversations.find_message, message.uid) == message

    def test_what_nobody_said_is_kept_and_not_searched(self, store: Store) -> None:
        talk = Talk("quiet")
        talk.say("a zebra", Role.SYSTEM, type=MessageType.MARKER)
        talk.say("another zebra", Role.SYSTEM)
        talk.say(" \n ")
        keep(store, talk)
        assert found(store, "zebra") == []
        counts = read(store, conversations.count_all, None)
        assert (counts.messages, counts.entries) == (3, 0)

    def test_only_words_of_people_and_agents_at_some_length_wait_for_a_vector(self, store: Store) -> None:
        talk = Talk("lengths")
        talk.say(LONG)
        talk.say(LONG, Role.ASSISTANT)
        talk.say("ok")
        talk.say(LONG, Role.ASSISTANT, type=MessageType.TOOL_CALL)
        talk.say(LONG, Role.TOOL, type=MessageType.TOOL_RESULT)
        keep(store, talk)
        assert read(store, vectors.count_embeddable) == 2

    def test_a_project_is_the_same_under_each_of_its_names(self, store: Store) -> None:
        keep(store, talk_of("old", "one", project=ProjectIdentity("path:/src/name", "name")))
        moved = ProjectIdentity("git:example.org/o/name", "name", ("path:/src/name",))
        keep(store, talk_of("new", "two", project=moved), talk_of("newer", "three", project=replace(moved, aliases=())))
        keep(store, talk_of("other", "four", project=ProjectIdentity("path:/src/other", "other")))
        projects = read(store, conversations.list_projects)
        assert [(name, count) for _, name, count in projects] == [("name", 3), ("other", 1)]

    def test_any_number_of_ids_can_be_asked_for_at_once(self, store: Store) -> None:
        talk = keep(store, talk_of("many", "a zebra"))
        uids = [talk.messages[0].uid, *(f"no-{number}" for number in range(70_000))]
        with store.reading() as tx:
            assert conversations.find_known(tx, messages, uids) == {talk.messages[0].uid}
            assert conversations.find_tombstones(tx, uids) == set()

    def test_events_of_several_conversations_may_be_mixed(self, store: Store) -> None:
        one, two = talk_of("one", "a zebra", "a giraffe"), talk_of("two", "an ant", "a bee")
        mixed: list[Event] = [event for pair in zip(one.events, two.events, strict=True) for event in pair]
        assert apply(store, mixed) == 4
        assert set(found(store, "giraffe")) == {message.uid for message in one.messages}
        assert text_problems(store) == []

    def test_a_forgotten_message_is_found_by_no_word_and_its_neighbours_become_each_others(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "one", "two", "zebra", "four", "five"))
        apply(store, [talk.forget(talk.messages[2])])
        assert found(store, "zebra") == []
        assert read(store, conversations.find_message, talk.messages[2].uid) is None
        assert text_problems(store) == []
        assert set(found(store, "four")) == {talk.messages[index].uid for index in (0, 1, 3, 4)}

    @pytest.mark.parametrize("place", range(8))
    def test_messages_of_the_same_moment_are_forgotten_like_others(self, store: Store, place: int) -> None:
        talk = Talk("moment")
        for number in range(8):
            talk.say("zebra" if number == place else f"word{number}", at=START)
        keep(store, talk)
        apply(store, [talk.forget(talk.messages[place])])
        assert found(store, "zebra") == []
        assert text_problems(store) == []

    def test_several_forgotten_at_once_leave_the_others_intact(self, store: Store) -> None:
        talk = keep(store, talk_of("row", *(f"word{number}" for number in range(20))))
        gone = {0, 3, 4, 9, 10, 11, 12, 19}
        apply(store, [talk.forget(talk.messages[number]) for number in sorted(gone)])
        for number in range(20):
            assert (talk.messages[number].uid in found(store, f"word{number}")) is (number not in gone)
            assert bool(found(store, f"word{number}")) is (number not in gone)
        assert text_problems(store) == []

    def test_a_forgotten_conversation_leaves_no_record(self, store: Store) -> None:
        talk, other = talk_of("gone", "a zebra", "a giraffe"), talk_of("kept", "an ant")
        keep(store, talk, other)
        apply(store, [talk.forget()])
        assert found(store, "zebra", "giraffe") == []
        with store.reading() as tx:
            counts = conversations.count_all(tx, None)
            assert conversations.find_conversation(tx, talk.uid) is None
            assert conversations.find_conversation(tx, other.uid) is not None
        assert (counts.conversations, counts.messages, counts.entries, counts.forgotten) == (1, 1, 1, 1)

    def test_a_forgotten_message_is_not_added_again(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "a zebra", "a giraffe"))
        apply(store, [talk.forget(talk.messages[0])])
        assert apply(store, talk.events) == 0
        assert len(found(store, "zebra")) == 0

    def test_a_forgotten_conversation_is_not_added_again_nor_added_to(self, store: Store) -> None:
        talk = keep(store, talk_of("gone", "a zebra"))
        apply(store, [talk.forget()])
        talk.say("another zebra")
        talk.end_exchange()
        assert apply(store, talk.events) == 0
        assert read(store, conversations.count_all, None).conversations == 0

    def test_what_is_forgotten_before_it_comes_never_comes(self, store: Store) -> None:
        talk = talk_of("row", "a zebra", "a giraffe")
        apply(store, [talk.forget(talk.messages[0])])
        assert apply(store, talk.events) == 1

    def test_a_tombstone_stays_as_it_was_first_set(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "a zebra"))
        first = talk.forget(talk.messages[0])
        talk.say("later")
        apply(store, [first])
        apply(store, [talk.forget(talk.messages[0])])
        assert read(store, conversations.tombstones_of, talk.uid) == [first]

    def test_vectors_go_with_their_entries_in_every_space(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 3))
        ids = entry_ids(store, talk.messages)
        old = space_of(store, "old")
        embed(store, old, ids, unit_vectors(3))
        embed(store, space_of(store, "new"), ids, unit_vectors(3))
        apply(store, [talk.forget(talk.messages[0])])
        left = read(store, lambda tx: tx.connection.scalars(tx.select(tables.vectors.c.entry_id)).all())
        assert sorted(left) == sorted(ids[1:] * 2)

    def test_work_and_failures_go_with_their_entries(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        ids = entry_ids(store, talk.messages)
        space = space_of(store)
        with store.writing() as tx:
            jobs.claim_unembedded(tx, space, "me", 10, START, 60)
            for attempt in range(7):
                jobs.fail(tx, EMBED, ids[:1], "EndpointError", START + timedelta(minutes=attempt))
            assert len(jobs.list_failed(tx)) == 1
        apply(store, [talk.forget()])
        with store.reading() as tx:
            assert jobs.list_failed(tx) == []
            assert jobs.owned(tx, EMBED, ids, "me") == set()
            assert tx.connection.execute(tx.select(work)).all() == []

    def test_the_index_of_vectors_forgets_too(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 20))
        ids, matrix, space = entry_ids(store, talk.messages), unit_vectors(20), space_of(store)
        embed(store, space, ids, matrix)
        assert ids[4] in read(store, store.nearest.nearest, space, matrix[4], RowScope(), 20)
        apply(store, [talk.forget(talk.messages[4])])
        near = read(store, store.nearest.nearest, space, matrix[4], RowScope(), 20)
        assert sorted(near) == sorted(set(ids) - {ids[4]})

    def test_a_conversation_of_thousands_is_forgotten_whole(self, store: Store) -> None:
        talk = keep(store, talk_of("long", *(f"word{number} zebra" for number in range(3_000))))
        apply(store, [talk.forget()])
        assert found(store, "zebra") == []
        assert read(store, conversations.count_all, None).entries == 0
        assert text_problems(store) == []

    def test_scrubbing_leaves_everything_else_as_it_was(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "a zebra", LONG), other := talk_of("other", "a giraffe"))
        embed(store, space_of(store), entry_ids(store, talk.messages[1:]), unit_vectors(1))
        apply(store, [talk.forget(talk.messages[0])])
        assert store.scrub() is True
        assert found(store, "giraffe") == [other.messages[0].uid]
        assert found(store, "zebra") == []
        with store.writing() as tx:
            vectors.activate_space(tx, vectors.list_spaces(tx)[0])
            assert conversations.count_all(tx, vectors.list_spaces(tx)[0].id).embedded == 1
        assert store.check() == []
        assert text_problems(store) == []
