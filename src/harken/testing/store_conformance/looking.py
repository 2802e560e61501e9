"""Records are found by their names and order, and rows are told again as the events that made them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from harken.errors import NotFoundError
from harken.model.conversations import (
    TASK_CHANNEL,
    Conversation,
    Event,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    Tombstone,
)
from harken.model.lookups import ConversationFilter, Surroundings
from harken.storage import conversations, overview, state
from harken.storage.entries import load_entries
from harken.storage.events import delete_conversation_rows, events_of, known_conversations
from harken.storage.facts import entry_facts
from harken.storage.past import list_tasks, newest_exchanges
from harken.storage.ports import Store
from harken.storage.tables import entries, exchanges, messages, vectors
from harken.testing.store_conformance.asking import (
    apply,
    embed,
    entry_ids,
    keep,
    read,
    space_of,
    spoken_at_length,
    unit_vectors,
    write,
)
from harken.testing.talk import START, Talk, talk_of


def _told(store: Store, uid: str) -> list[Event]:
    return read(store, lambda tx: list(events_of(tx, uid)))


def _task(name: str, *answers: ExchangeStatus) -> Talk:
    """A task with so many runs, and how each ended."""
    talk = Talk(name, channel=TASK_CHANNEL)
    for number, status in enumerate(answers):
        if number:
            talk.begin_exchange()
        talk.say("ask")
        talk.end_exchange(status)
    return talk


QUERIES = ("zebra", "giraffe zebra", "москва", "%_", "0__")


def _look(store: Store, beginning: str, reach: int = 2) -> Surroundings:
    return read(store, conversations.look_up, beginning, reach)


def _texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


class LookingTests:
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
        write(store, delete_conversation_rows, talk.uid)
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
        keep(store, talk, gone)
        late = replace(talk.forget(talk.messages[0]), at=START.replace(year=2024))
        early = talk.forget(talk.messages[1])
        apply(store, [late, early, gone.forget()])
        assert [event for event in _told(store, talk.uid) if isinstance(event, Tombstone)] == [early, late]
        assert _told(store, gone.uid) == [gone.forget()]
        assert read(store, known_conversations) == sorted([talk.uid, gone.uid])

    def test_a_conversation_that_nobody_had_is_told_as_nothing(self, store: Store) -> None:
        assert _told(store, "nobody") == []
        with store.reading() as tx:
            assert known_conversations(tx) == []
            assert list(newest_exchanges(tx, "nobody")) == []
            assert list_tasks(tx) == []

    def test_the_runs_of_a_task_come_newest_first_and_tasks_by_name(self, store: Store) -> None:
        done, failed = ExchangeStatus.COMPLETED, ExchangeStatus.FAILED
        keep(store, talk_of("talk", "one", "two"), _task("weekly", done), _task("daily", *(done, failed) * 60))
        with store.reading() as tx:
            assert list_tasks(tx) == [("scheduler_daily", "daily", 120, 60), ("scheduler_weekly", "weekly", 1, 1)]
            found = list(newest_exchanges(tx, "scheduler_daily"))
        assert [run.number for run in found] == list(range(120, 0, -1))
        assert {run.status for run in found[::2]} == {failed}

    @pytest.mark.parametrize("minutes", [0, 1], ids=["the same moment", "one after the other"])
    def test_a_message_is_shown_among_its_neighbours(self, store: Store, minutes: int) -> None:
        talk = Talk("row")
        for number, text in enumerate("abcdefgh"):
            talk.say(text, at=START + timedelta(minutes=minutes * number))
        keep(store, talk)
        shown = _look(store, talk.messages[3].uid)
        assert (_texts(shown.messages), shown.before, shown.after) == (list("bcdef"), 1, 2)
        assert (shown.message, shown.conversation.uid) == (talk.messages[3], talk.uid)

    def test_a_conversation_is_shown_whole_by_the_beginning_of_its_id_and_an_exchange_likewise(
        self, store: Store
    ) -> None:
        talk = talk_of("row", *"ab")
        first = talk.exchange
        talk.begin_exchange()
        talk.say("c")
        keep(store, talk)
        shown = _look(store, talk.uid[:8])
        assert (_texts(shown.messages), shown.message, shown.before, shown.after) == (list("abc"), None, 0, 0)
        assert _texts(_look(store, first.uid).messages) == list("ab")

    def test_an_exchange_of_which_all_was_forgotten_says_so(self, store: Store) -> None:
        talk = talk_of("row", "a")
        first = talk.exchange
        talk.begin_exchange()
        talk.say("b")
        keep(store, talk)
        apply(store, [talk.forget(talk.messages[0])])
        with pytest.raises(NotFoundError, match="forgotten"):
            _look(store, first.uid)

    @pytest.mark.parametrize("beginning", ["", "abc", "ffffffff-ffff", "%", "______", "' OR 1=1"])
    def test_what_names_nothing_says_so(self, store: Store, beginning: str) -> None:
        keep(store, talk_of("row", "a"))
        with pytest.raises(NotFoundError, match="names nothing"):
            _look(store, beginning)

    def test_what_names_several_says_so(self, store: Store) -> None:
        talk = Talk("row")
        twins = [replace(talk.say("x"), uid=f"0190aaaa-000{number}") for number in range(2)]
        apply(store, [*talk.events, *twins])
        with pytest.raises(NotFoundError, match="several"):
            _look(store, "0190aaaa")
        assert _look(store, "0190aaaa-0001").message == twins[1]

    def test_messages_are_read_in_the_order_of_the_talk_whatever_their_times(self, store: Store) -> None:
        talk = keep(store, talk_of("row", "b", "c"))
        apply(store, [talk.say("d", at=START.replace(hour=1)), talk.say("a", position=1)])
        with store.reading() as tx:
            assert [message.text for message in conversations.messages_of(tx, talk.uid)] == list("abcd")
            assert [message.text for message in conversations.messages_of(tx, talk.uid, 2)] == list("ab")

    def test_messages_are_found_by_what_their_whole_text_holds(self, store: Store) -> None:
        talk = Talk("row")
        for text in ("A Zebra and a giraffe", "ZEBRA", "giraffe", "Москва", "100%_sure", "я люблю МОСКВА"):
            talk.say(text)
        talk.say("x " * 500 + "zebra giraffe", Role.TOOL, type=MessageType.TOOL_RESULT)
        keep(store, talk)
        with store.reading() as tx:
            found = {word: [text for _, text in conversations.messages_holding(tx, word.split())] for word in QUERIES}
        assert [text[:9] for text in found["zebra"]] == ["A Zebra a", "ZEBRA", "x x x x x"]
        assert [text[:9] for text in found["giraffe zebra"]] == ["A Zebra a", "x x x x x"]
        assert (found["москва"], found["%_"], found["0__"]) == (["Москва", "я люблю МОСКВА"], ["100%_sure"], [])

    def test_a_conversation_without_a_title_is_called_by_its_first_words(self, store: Store) -> None:
        titled, plain = talk_of("one", "words"), talk_of("two", "the  first\nwords")
        long = talk_of("three", "long " * 99)
        titled.titled("A title")
        empty = Talk("four")
        keep(store, titled, plain, long, empty)
        wanted = [*(talk.uid for talk in (titled, plain, long, empty)), "nothing"]
        titles = read(store, overview.read_titles, wanted)
        shown = [titles.pop(talk.uid) for talk in (titled, plain, empty)]
        assert shown == ["A title", "the first words", ""]
        assert list(titles) == [long.uid]
        assert titles[long.uid].endswith("…")
        assert len(titles[long.uid]) < 80

    def test_conversations_are_listed_with_their_size_those_first_in_which_something_was_said_last(
        self, store: Store
    ) -> None:
        project = ProjectIdentity("k:busy", "busy")
        old = talk_of("old", "what was said", "and more", project=project)
        new = talk_of("new", "words", start=START + timedelta(minutes=9))
        keep(store, old, new)
        found, total = read(store, overview.list_conversations, ConversationFilter())
        assert [(each.conversation.uid, each.messages, each.chars) for each in found] == [
            (new.uid, 1, 5),
            (old.uid, 2, 21),
        ]
        assert (total, found[1].conversation.project) == (2, project)
        of_project = ConversationFilter(project="busy", channel=found[1].conversation.channel)
        assert read(store, overview.list_conversations, of_project) == ([found[1]], 1)
        short = found[0].short_id
        assert len(short) < len(new.uid)
        assert read(store, conversations.look_up, short, 5).conversation.uid == new.uid

    def test_projects_are_listed_the_busiest_first(self, store: Store) -> None:
        quiet, busy = ProjectIdentity("k:quiet", "quiet"), ProjectIdentity("k:busy", "busy")
        keep(store, talk_of("a", "x", project=quiet), talk_of("b", "x", project=busy), talk_of("c", "x", project=busy))
        assert read(store, conversations.list_projects) == [("k:busy", "busy", 2), ("k:quiet", "quiet", 1)]

    def test_everything_is_counted(self, store: Store) -> None:
        talk = spoken_at_length("row", 3)
        talk.say("thank you")
        keep(store, talk, talk_of("other", "a", "b", project=ProjectIdentity("k", "k")))
        apply(store, [talk.forget(talk.messages[0])])
        space = space_of(store)
        embed(store, space, entry_ids(store, talk.messages[1:2]), unit_vectors(1))
        with store.reading() as tx:
            counts, unanswered = conversations.count_all(tx, space.id), conversations.count_all(tx, None)
        assert (counts.messages, counts.conversations, counts.exchanges, counts.projects) == (5, 2, 2, 1)
        assert (counts.entries, counts.embeddable, counts.embedded) == (5, 2, 1)
        assert (counts.failed, counts.forgotten, unanswered.embedded) == (0, 1, 0)

    def test_counts_stay_those_of_the_rows_whatever_comes_goes_and_comes_again(self, store: Store) -> None:
        talks = [spoken_at_length(f"talk {number}", 30) for number in range(3)]
        keep(store, *talks)
        space = space_of(store)

        def agrees() -> bool:
            with store.reading() as tx:
                said, answered = tx.count(messages), tx.count(exchanges)
                counts = conversations.count_all(tx, space.id)
                embeddable = tx.count(entries, entries.c.space_id.is_not(None))
                embedded = tx.count(vectors, vectors.c.space_id == space.id)
                found = counts.messages, counts.exchanges, counts.entries, counts.embeddable, counts.embedded
                return found == (said, answered, tx.count(entries), embeddable, embedded) and not state.wrong_counts(tx)

        assert agrees()
        write(store, state.recount)
        embed(store, space, entry_ids(store, talks[0].messages), unit_vectors(30))
        assert agrees()
        apply(store, [talks[0].forget(talks[0].messages[5])])
        # The last rows go, and the next ones get their numbers.
        write(store, delete_conversation_rows, talks[2].uid)
        assert agrees()
        apply(store, talks[2].events)
        keep(store, spoken_at_length("one more", 7))
        assert agrees()
        with store.reading() as tx:
            assert conversations.count_all(tx, space.id).messages == 96
        # Of rows that are counted and others behind them, none is left.
        for talk in read(store, known_conversations):
            write(store, delete_conversation_rows, talk)
        keep(store, spoken_at_length("after all", 3))
        assert agrees()

    def test_an_entry_knows_what_it_was_made_from(self, store: Store) -> None:
        talk = Talk("row", ProjectIdentity("k", "name"))
        message = talk.say("words", Role.ASSISTANT, author="Ada")
        keep(store, talk)
        (entry_id,) = entry_ids(store, [message])
        with store.reading() as tx:
            entry = load_entries(tx, [entry_id, entry_id + 99])[entry_id]
            facts = entry_facts(tx, [entry_id, entry_id + 99])
        assert (entry.ref_uid, entry.source, entry.role, entry.project) == (message.uid, "message", "assistant", "k")
        assert (entry.conversation_uid, entry.exchange_uid) == (talk.uid, talk.exchange.uid)
        assert (entry.spoken, entry.created_at, entry.weight) == ("Ada: words", message.created_at, 1.0)
        assert list(facts) == [entry_id]
        assert (facts[entry_id].author, facts[entry_id].role) == ("Ada", "assistant")

    def test_the_newest_segment_and_its_newest_messages_are_found(self, store: Store) -> None:
        talk = talk_of("garden", "one", "two", "three")
        first = talk.segment
        talk.begin_segment()
        talk.say("four")
        talk.say("five")
        keep(store, talk)
        with store.reading() as tx:
            assert conversations.newest_segment(tx, talk.uid) == talk.segment.uid
            assert conversations.newest_segment(tx, "nobody") is None
            assert conversations.messages_of_segment(tx, talk.uid, talk.segment.uid) == talk.messages[3:]
            assert conversations.messages_of_segment(tx, talk.uid, first.uid, newest=2) == talk.messages[1:3]

    def test_conversations_are_found_by_their_names_and_by_being_newest(self, store: Store) -> None:
        old, new = talk_of("old", "one"), talk_of("new", "two", start=START + timedelta(days=1))
        assert read(store, conversations.newest_conversation, START) is None
        keep(store, new, old)
        with store.reading() as tx:
            assert conversations.newest_conversation(tx, START) == new.uid
            # A day and more before it, the newer one can only have been dated by a wrong clock.
            assert conversations.newest_conversation(tx, START - timedelta(hours=1)) == old.uid
            assert conversations.newest_conversation(tx, START - timedelta(days=9)) == new.uid
            for name, meant in (("old", old), (new.uid[:20], new)):
                assert conversations.conversation_named(tx, name).uid == meant.uid
            for nobody in ("nobody", new.uid[:3]):
                assert conversations.conversations_named(tx, nobody) == []
        # As a program calls its own by numbers; of others, the id begins so.
        keep(store, named := talk_of(new.uid[:4], "three"))
        assert read(store, conversations.conversation_named, new.uid[:4]).uid == named.uid
        assert read(store, conversations.resolve_uid, new.uid[:4]) == [("conversation", named.uid)]

    def test_entries_are_known_by_their_messages_and_exchanges(self, store: Store) -> None:
        talk = talk_of("garden", "one", "two")
        talk.begin_exchange()
        talk.say("three")
        keep(store, talk)
        with store.reading() as tx:
            ids = [conversations.entries_of(tx, [message.uid]) for message in talk.messages]
            assert [len(found) for found in ids] == [1, 1, 1]
            facts = entry_facts(tx, [entry_id for found in ids for entry_id in found])
            one, two, three = (facts[entry_id].exchange_id for found in ids for entry_id in found)
            assert one == two != three
