from __future__ import annotations

import random
from datetime import timedelta

import pytest
from sqlalchemy import true

from harken.model.conversations import ExchangeStatus, Message, Role
from harken.storage.enrichment.consent import Consent
from harken.storage.enrichment.jobs import claim
from harken.storage.enrichment.summaries import (
    CONVERSATION,
    EXCHANGE,
    SUMMARIZE,
    StoredSummary,
    count_due_and_stale,
    find_due,
    put_summaries,
)
from harken.storage.sqlite import counts
from harken.storage.state import count_rows, wrong_counts
from harken.storage.tables import conversations, exchanges, failed_work, same
from recorded import RecordedHome

REST = 60.0


def check(place: RecordedHome, chance: random.Random, consents: int = 1) -> None:
    """What is counted from the kept numbers is what a look at every row counts, with so many of four consents."""
    with place.store.reading() as tx:
        assert wrong_counts(tx) == 0
        counted = count_rows(tx)
        since = place.clock() - timedelta(seconds=40)
        for kind in (EXCHANGE, CONVERSATION):
            ongoing = frozenset([place.uid("a")])
            every = Consent(), Consent(since), Consent(since, ongoing), Consent(since, ongoing, is_paused=True)
            for consent in chance.sample(every, consents):
                asked = tx, kind, place.clock(), REST, consent
                assert count_due_and_stale(*asked, counted) == count_due_and_stale(*asked)


def summarize(place: RecordedHome, kind: str, most: int) -> None:
    item, of_item = exchanges, same(exchanges.c.conversation_id, conversations.c.id)
    if kind == CONVERSATION:
        item, of_item = conversations, true()
    with place.store.writing() as tx:
        for row_id in find_due(tx, kind, most, place.clock(), 0.0):
            found = tx.select(item.c.uid, conversations.c.uid.label("of")).where(item.c.id == row_id, of_item)
            uid, conversation_uid = tx.connection.execute(found).one()
            made = StoredSummary(kind, uid, "told", "", "extractive", place.clock(), place.clock())
            put_summaries(tx, [(made, conversation_uid)])


def give_up(place: RecordedHome, kind: str) -> None:
    with place.store.writing() as tx:
        for row_id in find_due(tx, kind, 1, place.clock(), 0.0):
            claim(tx, {SUMMARIZE[kind]: "me"}, [row_id], place.clock(), 60)
            failure = {"error_class": "Broken", "attempts": 5, "failed_at": place.clock()}
            tx.insert(failed_work, [{"kind": SUMMARIZE[kind], "item_id": row_id, **failure}])


@pytest.mark.parametrize("seed", range(4))
def test_what_waits_for_a_summary_is_told_without_looking_at_what_has_one(
    place: RecordedHome, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a few rows are looked at each time, and none is ever counted.
    monkeypatch.setattr(counts, "MOST_UNCOUNTED", 0)
    chance = random.Random(seed)
    said: list[Message] = []
    names = ["a", "b", "c"]
    for _ in range(40):
        name, kind = chance.choice(names), chance.choice((EXCHANGE, CONVERSATION))
        place.clock.go_on(seconds=chance.choice((1, 30, 90)))
        match chance.randrange(9):
            case 0 | 1 | 2:
                said.append(place.say(name, f"word {chance.random()}", chance.choice((Role.USER, Role.ASSISTANT))))
            case 3:
                if said:
                    place.recorder.end_exchange(said[-1].conversation_uid, ExchangeStatus.COMPLETED)
            case 4 | 5:
                summarize(place, kind, chance.choice((1, 9)))
            case 6:
                place.store.count_ahead()
            case 7:
                give_up(place, kind)
            case _:
                if said and chance.random() < 0.5:
                    place.forget(said.pop(chance.randrange(len(said))))
                elif any(each.conversation_uid == place.uid(name) for each in said):
                    place.forget(conversation=name)
                    said = [each for each in said if each.conversation_uid != place.uid(name)]
                    # What is said in a forgotten one is not recorded.
                    names[names.index(name)] = f"{name}+"
        check(place, chance)
    place.reindex()
    check(place, chance, consents=4)
