"""What is forgotten leaves rows, full text, vectors and work, and never comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from harken.storage.conversations import count_all, find_conversation, find_message, tombstones_of
from harken.storage.enrichment.jobs import claim_unembedded, fail, list_failed, owned
from harken.storage.ports import RowScope, Store
from harken.storage.tables import vectors, work
from harken.storage.vectors import EMBED, activate_space, list_spaces
from harken.testing.store_conformance.asking import (
    LONG,
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


class ForgettingTests:
    """Inherited by `StoreConformance`."""

    def test_a_forgotten_message_is_found_by_no_word_and_its_neighbours_become_each_others(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "one", "two", "zebra", "four", "five"))
        apply(store, [talk.forget(talk.messages[2])])
        assert found(store, "zebra") == []
        assert read(store, find_message, talk.messages[2].uid) is None
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
            counts = count_all(tx, None)
            assert find_conversation(tx, talk.uid) is None
            assert find_conversation(tx, other.uid) is not None
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
        assert read(store, count_all, None).conversations == 0

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
        assert read(store, tombstones_of, talk.uid) == [first]

    def test_vectors_go_with_their_entries_in_every_space(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 3))
        ids = entry_ids(store, talk.messages)
        old = space_of(store, "old")
        embed(store, old, ids, unit_vectors(3))
        embed(store, space_of(store, "new"), ids, unit_vectors(3))
        apply(store, [talk.forget(talk.messages[0])])
        left = read(store, lambda tx: tx.connection.scalars(tx.select(vectors.c.entry_id)).all())
        assert sorted(left) == sorted(ids[1:] * 2)

    def test_work_and_failures_go_with_their_entries(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        ids = entry_ids(store, talk.messages)
        space = space_of(store)
        with store.writing() as tx:
            claim_unembedded(tx, space, "me", 10, START, 60)
            for attempt in range(7):
                fail(tx, EMBED, ids[:1], "EndpointError", START + timedelta(minutes=attempt))
            assert len(list_failed(tx)) == 1
        apply(store, [talk.forget()])
        with store.reading() as tx:
            assert list_failed(tx) == []
            assert owned(tx, EMBED, ids, "me") == set()
            assert tx.connection.execute(select(work)).all() == []

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
        assert read(store, count_all, None).entries == 0
        assert text_problems(store) == []

    def test_scrubbing_leaves_everything_else_as_it_was(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "a zebra", LONG), other := talk_of("other", "a giraffe"))
        embed(store, space_of(store), entry_ids(store, talk.messages[1:]), unit_vectors(1))
        apply(store, [talk.forget(talk.messages[0])])
        assert store.scrub() is True
        assert found(store, "giraffe") == [other.messages[0].uid]
        assert found(store, "zebra") == []
        with store.writing() as tx:
            activate_space(tx, list_spaces(tx)[0])
            assert count_all(tx, list_spaces(tx)[0].id).embedded == 1
        assert store.check() == []
        assert text_problems(store) == []
