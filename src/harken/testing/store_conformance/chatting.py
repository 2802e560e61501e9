"""What a chat's context is built from: segments and their tails, core memory, rolling summaries."""

from __future__ import annotations

from datetime import timedelta

from harken.model.conversations import CoreFact, Message
from harken.storage.conversations import (
    begins_with,
    entries_of,
    messages_of,
    messages_of_segment,
    newest_conversation,
    newest_segment,
)
from harken.storage.enrichment.segments import (
    claim_due,
    count_due,
    covered_by,
    has_left,
    note_left,
    put_summary,
    segment_summary,
)
from harken.storage.entries import entry_facts
from harken.storage.events import Ingest, forget_rows
from harken.storage.ports import Store
from harken.storage.state import core_facts, drop_core_facts
from harken.testing.store_conformance.asking import keep, read, write
from harken.testing.talk import START, Talk, talk_of

_LEASE = 60.0


class ChatTests:
    """Inherited by `StoreConformance`."""

    def test_the_newest_segment_and_its_newest_messages_are_found(self, store: Store) -> None:
        talk = talk_of("garden", "one", "two", "three")
        first = talk.segment
        talk.begin_segment()
        talk.say("four")
        talk.say("five")
        keep(store, talk)
        with store.reading() as tx:
            assert newest_segment(tx, talk.uid) == talk.segment.uid
            assert newest_segment(tx, "nobody") is None
            assert messages_of_segment(tx, talk.uid, talk.segment.uid) == talk.messages[3:]
            assert messages_of_segment(tx, talk.uid, first.uid, newest=2) == talk.messages[1:3]

    def test_conversations_are_found_by_their_names_and_by_being_newest(self, store: Store) -> None:
        old, new = talk_of("old", "one"), talk_of("new", "two", start=START + timedelta(days=1))
        assert read(store, newest_conversation, START) is None
        keep(store, new, old)
        with store.reading() as tx:
            assert newest_conversation(tx, START) == new.uid
            # A day and more before it, the newer one can only have been dated by a wrong clock.
            assert newest_conversation(tx, START - timedelta(hours=1)) == old.uid
            assert newest_conversation(tx, START - timedelta(days=9)) == new.uid
            assert begins_with(tx, "old") == [old.uid]
            assert begins_with(tx, new.uid[:20]) == [new.uid]
            assert begins_with(tx, "nobody") == []

    def test_entries_are_known_by_their_messages_and_exchanges(self, store: Store) -> None:
        talk = talk_of("garden", "one", "two")
        talk.begin_exchange()
        talk.say("three")
        keep(store, talk)
        with store.reading() as tx:
            ids = [entries_of(tx, [message.uid]) for message in talk.messages]
            assert [len(found) for found in ids] == [1, 1, 1]
            facts = entry_facts(tx, [entry_id for found in ids for entry_id in found])
            one, two, three = (facts[entry_id].exchange_id for found in ids for entry_id in found)
            assert one == two != three

    def test_core_memory_is_set_replaced_and_deleted(self, store: Store) -> None:
        facts = [CoreFact("agent", "tone", "short", START), CoreFact("user", "name", "Maya", START)]
        later = CoreFact("user", "name", "Maya Lin", START + timedelta(days=1))
        with store.writing() as tx:
            Ingest(tx, 10, 2000).apply([*facts, later])
            assert core_facts(tx) == [later, facts[0]]
            Ingest(tx, 10, 2000).apply([CoreFact("user", "name", None, START), CoreFact("user", "never", None, START)])
            assert core_facts(tx) == [facts[0]]
            drop_core_facts(tx)
            assert core_facts(tx) == []

    def test_a_summary_takes_in_each_message_that_left_once(self, store: Store) -> None:
        talk = keep(store, talk_of("garden", *(f"message number {number}" for number in range(6))))
        assert _claimed(store) == []
        _leave(store, talk.messages[2])
        assert _claimed(store, "first") == talk.messages[:2]
        _leave(store, talk.messages[1])
        _leave(store, talk.messages[4])
        with store.reading() as tx:
            assert has_left(tx, talk.messages[4].uid)
            assert not has_left(tx, talk.messages[5].uid)
            assert count_due(tx) == 1
        assert _claimed(store, "second") == talk.messages[2:4]
        with store.reading() as tx:
            assert segment_summary(tx, talk.segment.uid) == ("second", START)
            assert covered_by(tx, talk.segment.uid) == {message.uid for message in talk.messages[:4]}
            assert count_due(tx) == 0

    def test_what_one_summarizes_no_other_takes_before_its_lease_ends_nor_both_keep(self, store: Store) -> None:
        _with_two_left(store)
        late = START + timedelta(seconds=_LEASE + 1)
        with store.writing() as tx:
            slow = claim_due(tx, "slow", 10, START, _LEASE)
            assert claim_due(tx, "other", 10, START, _LEASE) is None
            quick = claim_due(tx, "quick", 10, late, _LEASE)
            assert slow is not None
            assert quick is not None
            assert put_summary(tx, quick, "", late)
            assert not put_summary(tx, slow, "", late)

    def test_a_forgotten_message_takes_its_summary_back(self, store: Store) -> None:
        talk = _with_two_left(store)
        _claimed(store, "one and two")
        with store.writing() as tx:
            forget_rows(tx, talk.forget(talk.messages[0]))
            assert segment_summary(tx, talk.segment.uid) is None
        assert _claimed(store, "two") == [talk.messages[1]]

    def test_words_forgotten_while_they_are_summarized_are_not_kept(self, store: Store) -> None:
        talk = _with_two_left(store)
        with store.writing() as tx:
            due = claim_due(tx, "one", 10, START, _LEASE)
            forget_rows(tx, talk.forget(talk.messages[0]))
            assert due is not None
            assert not put_summary(tx, due, "one and two", START)
            assert segment_summary(tx, talk.segment.uid) is None


def _with_two_left(store: Store) -> Talk:
    talk = keep(store, talk_of("garden", "one", "two", "three"))
    _leave(store, talk.messages[2])
    return talk


def _leave(store: Store, first_inside: Message) -> None:
    write(store, note_left, first_inside.uid, START)


def _claimed(store: Store, text: str = "") -> list[Message]:
    """Take what is due, and summarize it so where there is a text; the messages that it was."""
    with store.writing() as tx:
        due = claim_due(tx, "tester", 10, START, _LEASE)
        if due is None:
            return []
        if text:
            assert put_summary(tx, due, text, START)
        texts = [left.text for left in due.left]
        known = {m.text: m for uid in [newest_conversation(tx, START)] if uid for m in messages_of(tx, uid)}
    return [known[said] for said in texts]
