"""Rows are told again as the events that made them, always in the same order; runs of tasks are found newest first."""

from __future__ import annotations

from dataclasses import replace

from harken.model import (
    TASK_CHANNEL,
    Conversation,
    Event,
    ExchangeStatus,
    Message,
    ProjectIdentity,
    Tombstone,
)
from harken.storage.events import events_of, known_conversations
from harken.storage.forgetting import delete_conversation_rows
from harken.storage.runs import list_tasks, newest_exchanges
from harken.storage.store import Store
from harken.testing.store_conformance.asking import apply, keep
from harken.testing.talk import START, Talk, talk_of


def _told(store: Store, uid: str) -> list[Event]:
    with store.reading() as tx:
        return list(events_of(tx, uid))


def _task(name: str, *answers: ExchangeStatus) -> Talk:
    """A task with so many runs, and how each ended."""
    talk = Talk(name, channel=TASK_CHANNEL)
    for number, status in enumerate(answers):
        if number:
            talk.begin_exchange()
        talk.say("ask")
        talk.end_exchange(status)
    return talk


class TellingTests:
    """Inherited by `StoreConformance`."""

    def test_what_is_told_again_makes_the_same_rows(self, store: Store) -> None:
        project = ProjectIdentity("git:host/owner/name", "name", ("path:/b", "path:/a"))
        talk = Talk("row", project)
        for text in ("one", "two"):
            talk.say(text, at=START, metadata={"z": 1, "a": [2.5, None]})
        talk.end_exchange(ExchangeStatus.FAILED, "broke")
        talk.begin_segment()
        talk.say("three")
        keep(store, talk)
        told = _told(store, talk.uid)
        assert [type(event).__name__ for event in told] == [
            "Conversation",
            *("Segment", "Segment", "Exchange", "Exchange", "Message", "Message", "Message", "ExchangeEnd"),
        ]
        head = told[0]
        assert isinstance(head, Conversation)
        assert head.project == project
        assert [event.text for event in told if isinstance(event, Message)] == ["one", "two", "three"]
        with store.writing() as tx:
            delete_conversation_rows(tx, talk.uid)
        assert _told(store, talk.uid) == []
        apply(store, told)
        assert _told(store, talk.uid) == told

    def test_many_messages_of_one_moment_keep_their_order(self, store: Store) -> None:
        talk = Talk("moment")
        for number in range(1200):
            talk.say(f"{number}", at=START)
        keep(store, talk)
        told = [event.text for event in _told(store, talk.uid) if isinstance(event, Message)]
        assert told == [f"{number}" for number in range(1200)]

    def test_what_was_forgotten_is_told_by_id_in_the_order_of_time(self, store: Store) -> None:
        talk, gone = talk_of("row", "one", "two"), talk_of("gone", "three")
        keep(store, talk)
        keep(store, gone)
        late = replace(talk.forget(talk.messages[0]), at=START.replace(year=2024))
        early = talk.forget(talk.messages[1])
        apply(store, [late, early, gone.forget()])
        assert [event for event in _told(store, talk.uid) if isinstance(event, Tombstone)] == [early, late]
        assert _told(store, gone.uid) == [gone.forget()]
        with store.reading() as tx:
            assert known_conversations(tx) == sorted([talk.uid, gone.uid])

    def test_a_conversation_that_nobody_had_is_told_as_nothing(self, store: Store) -> None:
        assert _told(store, "nobody") == []
        with store.reading() as tx:
            assert known_conversations(tx) == []
            assert list(newest_exchanges(tx, "nobody")) == []
            assert list_tasks(tx) == []

    def test_the_runs_of_a_task_come_newest_first_and_tasks_by_name(self, store: Store) -> None:
        done, failed = ExchangeStatus.COMPLETED, ExchangeStatus.FAILED
        keep(store, talk_of("talk", "one", "two"))
        keep(store, _task("weekly", done))
        keep(store, _task("daily", *(done, failed) * 60))
        with store.reading() as tx:
            assert list_tasks(tx) == [("scheduler_daily", "daily", 120, 60), ("scheduler_weekly", "weekly", 1, 1)]
            found = list(newest_exchanges(tx, "scheduler_daily"))
        assert [run.number for run in found] == list(range(120, 0, -1))
        assert {run.status for run in found[::2]} == {failed}
