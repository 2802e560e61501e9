"""Summaries: found when they are missing or stale, claimed by one at a time, seen by search, gone when forgotten."""

from __future__ import annotations

from datetime import timedelta

from harken.model.conversations import Message, SearchScope, Tombstone
from harken.storage.conversations import count_all, messages_of, newest_conversation
from harken.storage.enrichment import jobs, segments, summaries
from harken.storage.enrichment.consent import Consent, SummaryBacklog, note_imported
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, SUMMARIZE, DueSummary, StoredSummary
from harken.storage.entries import row_scope
from harken.storage.events import forget_rows
from harken.storage.ports import RowScope, Store
from harken.testing.store_conformance.asking import found, keep, read, spoken_at_length, write
from harken.testing.talk import START, Talk, talk_of

REST, LEASE = 600.0, 60.0
LATER = START + timedelta(days=30)


def _claim(store: Store, kind: str, owner: str = "me", after: float = 0.0, limit: int = 10) -> list[DueSummary]:
    now = LATER + timedelta(seconds=after)
    found = read(store, summaries.find_due, kind, limit, now, REST)
    return write(store, summaries.claim_due, kind, found, owner, now, LEASE, REST)


def _put(store: Store, talk: Talk, kind: str, due: DueSummary, text: str = "A short summary") -> StoredSummary:
    found = StoredSummary(kind, due.uid, text, "A title", "extractive", due.ended_at, LATER)
    with store.writing() as tx:
        summaries.put_summary(tx, found, talk.conversation.uid)
        jobs.complete(tx, SUMMARIZE[kind], [due.item_id])
    return found


def _with_two_left(store: Store) -> Talk:
    talk = keep(store, talk_of("garden", "one", "two", "three"))
    _leave(store, talk.messages[2])
    return talk


def _leave(store: Store, first_inside: Message) -> None:
    write(store, segments.note_left, first_inside.uid, START)


def _claimed(store: Store, text: str = "") -> list[Message]:
    """Take what is due, and summarize it so where there is a text; the messages that it was."""
    with store.writing() as tx:
        due = segments.claim_due(tx, "tester", 10, START, LEASE)
        if due is None:
            return []
        if text:
            assert segments.put_summary(tx, due, text, START)
        texts = [left.text for left in due.left]
        known = {m.text: m for uid in [newest_conversation(tx, START)] if uid for m in messages_of(tx, uid)}
    return [known[said] for said in texts]


class SummaryTests:
    """Inherited by `StoreConformance`."""

    def test_what_has_no_summary_is_due_once_it_rests(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 4))
        last = talk.messages[-1].created_at
        with store.reading() as tx:
            assert summaries.count_due(tx, CONVERSATION, last + timedelta(seconds=REST - 1), REST) == 0
            assert summaries.count_due(tx, CONVERSATION, last + timedelta(seconds=REST), REST) == 1
        (due,) = _claim(store, CONVERSATION)
        assert (due.uid, due.ended_at) == (talk.conversation.uid, last)

    def test_what_a_wrong_clock_dates_into_the_future_rests(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 4))
        last = talk.messages[-1].created_at
        with store.reading() as tx:
            assert summaries.count_due(tx, CONVERSATION, last - timedelta(hours=23), REST) == 0
            assert summaries.count_due(tx, CONVERSATION, last - timedelta(days=2), REST) == 1

    def test_a_model_gets_what_was_said_since_and_not_imported_and_the_rest_is_its_backlog(self, store: Store) -> None:
        live, imported = spoken_at_length("live", 2), spoken_at_length("imported", 2)
        keep(store, live, imported)
        write(store, note_imported, {imported.conversation.uid: 9})
        early, late = START - timedelta(days=1), START + timedelta(days=1)
        for kind in (EXCHANGE, CONVERSATION):
            for since, news, older in ((early, 1, 1), (late, 0, 2), (None, 0, 2)):
                consent, paused = Consent(since, frozenset({"another"})), Consent(since, is_paused=True)
                with store.writing() as tx:
                    found = summaries.find_due(tx, kind, 10, LATER, REST, consent)
                    mine = summaries.claim_due(tx, kind, found, "me", LATER, LEASE, REST, consent)
                    jobs.release(tx, SUMMARIZE[kind], "me")
                    assert sum(due.is_new for due in mine) == news
                    assert len(summaries.find_due(tx, kind, 10, LATER, REST, paused)) == older
                    backlog = SummaryBacklog(since)
                    assert len(summaries.list_backlog(tx, kind, LATER, REST, backlog)) == older
                    assert summaries.count_backlog(tx, kind, LATER, REST, backlog) == older
                    assert summaries.list_backlog(tx, kind, LATER, REST, SummaryBacklog(since, since=late)) == []

    def test_only_one_worker_gets_it_until_the_lease_ends(self, store: Store) -> None:
        keep(store, spoken_at_length("row", 2))
        for kind in (EXCHANGE, CONVERSATION):
            first = _claim(store, kind)
            assert first
            assert _claim(store, kind, "you") == []
            assert _claim(store, kind, "you", after=LEASE + 1) == first

    def test_a_segment_is_searched_without_its_summaries_where_messages_are_asked_for(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        (due,) = _claim(store, EXCHANGE)
        _put(store, talk, EXCHANGE, due, f"zebra {talk.messages[0].text}")
        with store.reading() as tx:
            both = row_scope(tx, SearchScope(segment=talk.segment.uid))
            said = row_scope(tx, SearchScope(segment=talk.segment.uid, sources=("message",)))
            of_both, of_said = (tx.text.holders(tx.connection, ["zebra"], scope) for scope in (both, said))
        assert (len(of_both.of["zebra"]), of_both.entries) == (1, 3)
        assert (len(of_said.of["zebra"]), of_said.entries) == (0, 2)
        assert due.uid in found(store, "zebra", scope=both)
        assert found(store, "zebra", scope=said) == []

    def test_what_was_done_since_it_was_found_is_not_taken(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        (due,) = _claim(store, CONVERSATION)
        _put(store, talk, CONVERSATION, due)
        assert write(store, summaries.claim_due, CONVERSATION, [due.item_id], "you", LATER, LEASE, REST) == []

    def test_what_failed_backs_off(self, store: Store) -> None:
        keep(store, spoken_at_length("row", 2))
        (due,) = _claim(store, CONVERSATION)
        write(store, jobs.fail, SUMMARIZE[CONVERSATION], [due.item_id], "EndpointError", LATER)
        assert _claim(store, CONVERSATION) == []
        assert _claim(store, CONVERSATION, after=1) == [due]

    def test_a_summary_is_kept_and_seen_by_search(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        before = read(store, count_all, None).entries
        for kind in (EXCHANGE, CONVERSATION):
            (due,) = _claim(store, kind)
            found = _put(store, talk, kind, due)
            with store.reading() as tx:
                assert summaries.read_summaries(tx, kind, [due.uid, "nothing"]) == {due.uid: found}
                assert summaries.count_due(tx, kind, LATER, REST) == 0
                hits = tx.text.search(tx.connection, ["summary"], RowScope(sources=(kind,)), 5)
                assert len(hits) == 1
        assert read(store, count_all, None).entries == before + 2

    def test_a_newer_summary_takes_the_place_of_the_older(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        (due,) = _claim(store, CONVERSATION)
        _put(store, talk, CONVERSATION, due, "The first attempt")
        second = _put(store, talk, CONVERSATION, due, "The second attempt")
        with store.reading() as tx:
            assert summaries.read_summaries(tx, CONVERSATION, [due.uid]) == {due.uid: second}
            assert tx.text.search(tx.connection, ["first"], RowScope(sources=(CONVERSATION,)), 5) == []

    def test_an_outlived_summary_is_due_again(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        (due,) = _claim(store, CONVERSATION)
        old = StoredSummary(CONVERSATION, due.uid, "Old", "", "extractive", due.ended_at - timedelta(seconds=1), LATER)
        with store.writing() as tx:
            summaries.put_summary(tx, old, talk.conversation.uid)
            jobs.complete(tx, SUMMARIZE[CONVERSATION], [due.item_id])
        assert _claim(store, CONVERSATION) == [due]

    def test_a_forgotten_conversation_takes_its_summaries_with_it(self, store: Store) -> None:
        talk = keep(store, spoken_at_length("row", 2))
        uids = []
        for kind in (EXCHANGE, CONVERSATION):
            (due,) = _claim(store, kind)
            _put(store, talk, kind, due)
            uids.append(due.uid)
        uid = talk.conversation.uid
        with store.writing() as tx:
            forget_rows(tx, [Tombstone(uid, uid, "conversation", LATER)])
            for kind in (EXCHANGE, CONVERSATION):
                assert summaries.read_summaries(tx, kind, uids) == {}
                assert summaries.count_due(tx, kind, LATER, REST) == 0
            assert count_all(tx, None).entries == 0

    def test_a_summary_takes_in_each_message_that_left_once(self, store: Store) -> None:
        talk = keep(store, talk_of("garden", *(f"message number {number}" for number in range(6))))
        assert _claimed(store) == []
        _leave(store, talk.messages[2])
        assert _claimed(store, "first") == talk.messages[:2]
        _leave(store, talk.messages[1])
        _leave(store, talk.messages[4])
        with store.reading() as tx:
            assert segments.has_left(tx, talk.messages[4].uid)
            assert not segments.has_left(tx, talk.messages[5].uid)
            assert segments.count_due(tx) == 1
        assert _claimed(store, "second") == talk.messages[2:4]
        with store.reading() as tx:
            assert segments.segment_summary(tx, talk.segment.uid) == ("second", START)
            assert segments.covered_by(tx, talk.segment.uid) == {message.uid for message in talk.messages[:4]}
            assert segments.count_due(tx) == 0

    def test_what_one_summarizes_no_other_takes_before_its_lease_ends_nor_both_keep(self, store: Store) -> None:
        _with_two_left(store)
        late = START + timedelta(seconds=LEASE + 1)
        with store.writing() as tx:
            slow = segments.claim_due(tx, "slow", 10, START, LEASE)
            assert segments.claim_due(tx, "other", 10, START, LEASE) is None
            quick = segments.claim_due(tx, "quick", 10, late, LEASE)
            assert slow is not None
            assert quick is not None
            assert segments.put_summary(tx, quick, "", late)
            assert not segments.put_summary(tx, slow, "", late)

    def test_a_forgotten_message_takes_its_summary_back(self, store: Store) -> None:
        talk = _with_two_left(store)
        _claimed(store, "one and two")
        with store.writing() as tx:
            forget_rows(tx, [talk.forget(talk.messages[0])])
            assert segments.segment_summary(tx, talk.segment.uid) is None
        assert _claimed(store, "two") == [talk.messages[1]]

    def test_words_forgotten_while_they_are_summarized_are_not_kept(self, store: Store) -> None:
        talk = _with_two_left(store)
        with store.writing() as tx:
            due = segments.claim_due(tx, "one", 10, START, LEASE)
            forget_rows(tx, [talk.forget(talk.messages[0])])
            assert due is not None
            assert not segments.put_summary(tx, due, "one and two", START)
            assert segments.segment_summary(tx, talk.segment.uid) is None
