"""Topics of conversations, the digest of them, and prompts that were asked before: on a store of each engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import true

from harken.engine import Harken
from harken.providers.summarizers.written import ANSWER_TOKENS
from harken.record.ids import conversation_uid
from harken.serve.hooks.answers import Hooks
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import operation_of
from harken.storage.tables import vectors
from harken.testing import ChatServer, HashingEmbedder, Says
from harken.testing.local_server import Request

if find_spec("sklearn") is None:
    # Not imported, for every process collects all tests, and few run these.
    pytest.skip("needs harken[clusters]", allow_module_level=True)

THEMES = {
    "baking": "sourdough bread oven flour yeast dough crust",
    "deploy": "pipeline staging server release rollback canary",
    "garden": "tomato soil seeds watering plants compost",
}
NEW = conversation_uid("claude-code", "new")


class Clock:
    """A day goes by when it is told to."""

    moment = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(milliseconds=10)
        return self.moment


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def harken(tmp_path: Path, engine_settings: dict[str, Any], clock: Clock) -> Iterator[Harken]:
    settings = {"embedding.min_message_tokens": 3, **engine_settings}
    with Harken(tmp_path / "home", env={}, settings=settings, embedder=HashingEmbedder(), now=clock) as harken:
        for number in range(6):
            for theme, words in THEMES.items():
                talk(harken, theme, number, words.split())
        harken.embed()
        yield harken


def talk(harken: Harken, theme: str, number: int, words: list[str]) -> str:
    chosen = [words[(number + at) % len(words)] for at in range(4)]
    asked = harken.record_message(f"{theme} {number}", "user", f"How do {' and '.join(chosen)} go together?")
    said = f"We decided to begin with {chosen[0]}. Whether {chosen[1]} helps is still open."
    harken.record_message(f"{theme} {number}", "assistant", said)
    harken.end_exchange(f"{theme} {number}")
    return asked.conversation_uid


def named(harken: Harken) -> dict[str, int]:
    return {topic.words[0]: len(topic.members) for topic in harken.topics.list() if topic.name}


def test_topics_are_named_by_their_words_and_go_on_under_their_ids(harken: Harken) -> None:
    first = {topic.uid: topic for topic in harken.topics.refresh() if topic.name}
    assert sorted(len(topic.members) for topic in first.values()) == [6, 6, 6]
    for topic in first.values():
        [theme] = [words for words in THEMES.values() if topic.words[0] in words.split()]
        assert set(topic.name.split(" · ")) <= set(theme.split())
    before = {place.conversation_uid: place for topic in first.values() for place in topic.members}
    new = talk(harken, "baking", 7, THEMES["baking"].split())
    harken.embed()
    again = {topic.uid: topic for topic in harken.topics.refresh() if topic.name}
    assert again.keys() == first.keys()
    places = {place.conversation_uid: place for topic in again.values() for place in topic.members}
    assert new in places
    for uid, place in before.items():
        assert abs(places[uid].x - place.x) + abs(places[uid].y - place.y) < 0.2


def test_a_model_names_topics_with_room_to_think_and_never_in_place_of_their_owner(
    harken: Harken, tmp_path: Path
) -> None:
    harken.topics.refresh()

    def answer(_request: Request) -> Says:
        mine = [topic for topic in harken.topics.list() if topic.name]
        if len(server.requests) == 2:
            harken.topics.rename(mine[1].uid, "Mine")
        return Says("<think> Well, what", finish="length") if len(server.requests) == 3 else Says('"Theirs"')

    with ChatServer(otherwise=answer) as server:
        for key, value in {"llm.url": server.url, "llm.model": "openai:gpt-5-mini"}.items():
            harken.run_time.set(key, value)
        named = [topic.name for topic in harken.topics.refresh(by_model=True) if topic.name]
    assert sorted(named)[:2] == ["Mine", "Theirs"]
    assert not any("think" in name for name in named)
    # A model that thinks first says nothing within the length of a name.
    assert {request.body["max_completion_tokens"] for request in server.requests} == {ANSWER_TOKENS}


def test_a_given_name_stays_and_topics_outlive_an_export(harken: Harken, tmp_path: Path) -> None:
    topic = harken.topics.refresh()[0]
    harken.topics.rename(topic.uid, "Kitchen")
    harken.topics.refresh()
    assert harken.topics.list()[0].name == "Kitchen"
    harken.maintenance.export(tmp_path / "all.jsonl")
    with Harken(tmp_path / "other", env={}, embedder=HashingEmbedder()) as other:
        other.import_transcripts("jsonl", [tmp_path / "all.jsonl"], as_mine=True)
        views = [[one.view() for one in each.topics.list()] for each in (harken, other)]
        assert views[0] == views[1]
        for _ in other.maintenance.reindex_from_journal():
            pass
        assert [one.view() for one in other.topics.list()] == views[0]
        assert other.maintenance.doctor() == []


def test_without_vectors_those_that_were_found_stay(harken: Harken) -> None:
    first, *_ = harken.topics.refresh()
    harken.topics.rename(first.uid, "The kitchen")
    before = harken.topics.list()
    with harken.store.writing() as tx:
        tx.delete(vectors, true())
    assert harken.topics.refresh() == before == harken.topics.list()


def test_a_topic_goes_with_a_conversation_that_is_forgotten(harken: Harken) -> None:
    topic = harken.topics.refresh()[0]
    doomed = topic.members[0].conversation_uid
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[doomed]))
    left = harken.topics.list()
    assert topic.uid not in {each.uid for each in left}
    assert len(left) == 3
    assert doomed not in {place.conversation_uid for each in harken.topics.refresh() for place in each.members}
    assert harken.maintenance.doctor() == []


def test_the_digest_tells_what_was_decided_and_what_is_open(harken: Harken, clock: Clock) -> None:
    harken.topics.refresh()
    [one, *others] = harken.topics.digest()
    assert len(others) == 2
    assert len(one.lines) == 6
    assert one.lines[0].decided.startswith("We decided to begin with")
    assert one.lines[0].open.endswith("is still open.")
    assert [line.at for line in one.lines] == sorted(line.at for line in one.lines)
    assert harken.topics.digest(since=clock.moment + timedelta(days=1)) == []
    [part] = harken.topics.digest(limit=1, offset=1, newest=2)
    assert part.topic == others[0].topic
    assert part.lines == others[0].lines[-2:]
    ask = partial(operation_of("digest").call, harken, caller=Caller())
    first, last = ask({"limit": 2}), ask({"limit": 2, "offset": 2})
    assert [len(first["topics"]), first["next_offset"], len(last["topics"]), last["next_offset"]] == [2, 2, 1, None]
    assert first["markdown"].count("\n## ") == 2
    assert "Nothing is here of a topic that has three" in ask({"offset": 3})["markdown"]


def test_the_digest_says_whose_words_are_not_to_be_trusted(harken: Harken) -> None:
    words = THEMES["baking"].split()
    for role in ("user", "assistant"):
        text = f"We decided to begin with {words[0]}, {words[1]} and {words[2]}. Whether it helps is still open."
        said = harken.record_message("baking foreign", role, text, trust="untrusted")
    harken.embed()
    harken.topics.refresh()
    lines = [line for each in harken.topics.digest() for line in each.lines]
    [foreign] = [line for line in lines if line.conversation_uid == said.conversation_uid]
    assert foreign.decided.endswith(" (untrusted)")
    assert foreign.open.endswith("still open. (untrusted)")
    assert len([line for line in lines if "untrusted" in line.decided + line.open]) == 1


def test_suggested_tags_are_the_topics_words_and_nobody_sets_them(harken: Harken) -> None:
    topic = harken.topics.refresh()[0]
    uid = topic.members[0].conversation_uid
    assert harken.topics.suggested_tags(uid) == topic.words[:3]
    assert harken.labels.show(uid).tags == ()


def test_a_prompt_that_was_asked_before_opens_with_when_and_what_was_decided(harken: Harken, clock: Clock) -> None:
    for day, name in enumerate(("first", "second")):
        clock.moment = datetime(2026, 6, 9 + day, 12, tzinfo=UTC)
        harken.record_message(name, "user", "Which port does the staging importer listen on?")
        harken.record_message(name, "assistant", f"We decided to use port 809{day} for the staging importer.")
        harken.end_exchange(name)
    harken.embed()
    clock.moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    said = (
        "Asked before: 9 June, 10 June (3rd time). Then decided: We decided to use port 8091 for the staging importer."
    )
    prompt = "What port does our staging importer listen on?"
    [first, *_rest] = harken.chats.quotes_about(prompt, NEW)
    assert (first.source, first.text) == ("asked_before", said)
    told = Hooks(harken, str(harken.home / "spool"))
    answer = told.answer("UserPromptSubmit", "claude-code", f'{{"session_id": "new", "prompt": "{prompt}"}}'.encode())
    assert said in answer.decode()
    context = harken.build_context("chat", [prompt])
    assert said in "\n".join(message.content for message in context.messages)
    assert said in harken.assemble_context(prompt, ["conversations"]).markdown
    [other, *_] = harken.chats.quotes_about("Which port does the staging mailer use?", "another conversation")
    assert other.source != "asked_before"


def test_the_clock_has_moved_on_when_topics_are_due(harken: Harken, clock: Clock) -> None:
    assert harken.topics.is_due()
    harken.topics.refresh()
    assert not harken.topics.is_due()
    for number in range(10, 20):
        talk(harken, "garden", number, THEMES["garden"].split())
    assert not harken.topics.is_due()
    clock.moment += timedelta(days=2)
    assert harken.topics.is_due()
