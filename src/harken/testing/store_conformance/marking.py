"""What people say of records: labels of conversations, and verdicts on what was recalled."""

from __future__ import annotations

from datetime import timedelta

from harken.model.conversations import Event, Labelled, ProjectIdentity, SearchScope, Tombstone
from harken.model.marks import OWNER, Rated, Verdict
from harken.storage.conversations import find_conversation
from harken.storage.entries import row_scope
from harken.storage.events import events_of
from harken.storage.facts import entry_facts
from harken.storage.ports import Store
from harken.storage.records.marks import objections, ratings_of, used_tags
from harken.testing.store_conformance.asking import apply, entry_ids, found, keep, read, text_problems
from harken.testing.talk import START, Talk

_HOUSE = ProjectIdentity("git:example.org/o/house", "house")
_LATER = START + timedelta(days=1)


def _asked(store: Store) -> Talk:
    talk = Talk("quay")
    talk.say("zebra one, which quay is free for the ship?")
    return keep(store, talk)


def _rated(talk: Talk, ref: str, verdict: Verdict, number: int = 1, **more: str) -> Rated:
    place = talk.conversation.uid
    return Rated(f"rating{number}", place, ref, verdict, OWNER, _LATER + timedelta(minutes=number), **more)


class MarkTests:
    """Tests that a backend inherits; see `StoreConformance`."""

    def test_a_label_stands_above_what_was_recorded_and_is_given_back_beside_it(self, store: Store) -> None:
        talk = _asked(store)
        label = Labelled(talk.conversation.uid, _LATER, "The Aurora", ("harbour",), _HOUSE)
        apply(store, [label])
        shown = read(store, find_conversation, talk.conversation.uid)
        assert shown is not None
        assert (shown.title, shown.project) == ("The Aurora", _HOUSE)
        told: list[Event] = read(store, lambda tx: list(events_of(tx, talk.conversation.uid)))
        assert label in told
        [head] = [event for event in told if event.__class__ is talk.conversation.__class__]
        assert head == talk.conversation
        assert read(store, used_tags) == {"harbour": 1}
        assert text_problems(store) == []

    def test_tags_and_projects_limit_what_is_found_also_of_what_is_said_later(self, store: Store) -> None:
        talk = _asked(store)
        apply(store, [Labelled(talk.conversation.uid, _LATER, "", ("harbour",), _HOUSE)])
        more = talk.say("zebra two, and when does it leave?")
        apply(store, [event for event in talk.events if event is more])
        every = {message.uid for message in talk.messages}
        for scope in (SearchScope(facets=("tag:harbour",)), SearchScope(project="house")):
            rows = read(store, row_scope, scope)
            assert set(found(store, "zebra", scope=rows)) == every, scope
        apply(store, [Labelled(talk.conversation.uid, _LATER + timedelta(hours=1))])
        assert found(store, "zebra", scope=read(store, row_scope, SearchScope(facets=("tag:harbour",)))) == []
        assert set(found(store, "zebra")) == every
        assert text_problems(store) == []

    def test_an_earlier_label_changes_nothing(self, store: Store) -> None:
        talk = _asked(store)
        apply(store, [Labelled(talk.conversation.uid, _LATER, "New")])
        apply(store, [Labelled(talk.conversation.uid, START, "Old")])
        shown = read(store, find_conversation, talk.conversation.uid)
        assert shown is not None
        assert shown.title == "New"

    def test_verdicts_weigh_an_entry_within_a_fifth_and_come_once_each(self, store: Store) -> None:
        talk = _asked(store)
        [message] = talk.messages
        [entry_id] = entry_ids(store, [message])
        assert read(store, entry_facts, [entry_id])[entry_id].rated == 1.0
        first = _rated(talk, message.uid, Verdict.USEFUL)
        apply(store, [first, first])
        apply(store, [first])
        assert read(store, entry_facts, [entry_id])[entry_id].rated == 1.07
        more = [
            _rated(talk, message.exchange_uid, Verdict.USEFUL, number, given_to=f"c{number}") for number in range(2, 9)
        ]
        apply(store, more)
        assert read(store, entry_facts, [entry_id])[entry_id].rated == 1.2
        assert len(read(store, ratings_of, [message.uid, message.exchange_uid])[message.exchange_uid]) == 7

    def test_a_wrong_one_is_objected_to_for_its_question_until_that_is_taken_back(self, store: Store) -> None:
        talk = _asked(store)
        [message] = talk.messages
        [entry_id] = entry_ids(store, [message])
        apply(store, [_rated(talk, message.uid, Verdict.WRONG, 1, question="Where is the ship?")])
        [objection] = read(store, objections, [entry_id])
        assert (objection.entry_id, objection.question) == (entry_id, "Where is the ship?")
        apply(store, [_rated(talk, message.uid, Verdict.NONE, 2)])
        assert read(store, objections, [entry_id]) == []
        assert read(store, entry_facts, [entry_id])[entry_id].rated == 1.0

    def test_an_objection_goes_with_the_message_that_asked(self, store: Store) -> None:
        talk, other = _asked(store), Talk("other", start=START + timedelta(hours=2))
        asked = other.say("zebra three, where is the ship now?")
        keep(store, other)
        [message] = talk.messages
        [entry_id] = entry_ids(store, [message])
        apply(store, [_rated(talk, message.uid, Verdict.WRONG, 1, about=asked.uid)])
        [objection] = read(store, objections, [entry_id])
        assert objection.question == asked.text
        apply(store, [Tombstone(asked.uid, other.conversation.uid, "message", _LATER)])
        assert read(store, objections, [entry_id]) == []

    def test_what_is_forgotten_takes_its_verdicts_along(self, store: Store) -> None:
        talk = _asked(store)
        [message] = talk.messages
        apply(store, [_rated(talk, message.uid, Verdict.USEFUL), _rated(talk, message.exchange_uid, Verdict.WRONG, 2)])
        apply(store, [Tombstone(message.uid, talk.conversation.uid, "message", _LATER)])
        assert read(store, ratings_of, [message.uid]) == {}
        apply(store, [_rated(talk, message.uid, Verdict.USEFUL, 3)])
        assert read(store, ratings_of, [message.uid]) == {}
        apply(store, [Tombstone(talk.conversation.uid, talk.conversation.uid, "conversation", _LATER)])
        assert read(store, ratings_of, [message.exchange_uid]) == {}
