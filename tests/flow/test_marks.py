"""What a person says of records: it outlives rebuilding and moving, steers recall, and goes with what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.model.conversations import Role, SearchScope
from harken.record.ids import conversation_uid
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.testing import HashingEmbedder

QUESTION = "Which quay is free for the ship Aurora in November?"
ANSWER = "Quay seven is free for the ship Aurora in November, behind the old customs house."


class Clock:
    """Goes on by itself, a second with each look."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 8, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


@pytest.fixture
def open_home(tmp_path: Path) -> Iterator[Callable[..., Harken]]:
    opened: list[Harken] = []

    def make(name: str, **settings: Any) -> Harken:
        changes = {"embedding.min_message_tokens": 3, **settings}
        made = Harken(tmp_path / name, env={}, settings=changes, embedder=HashingEmbedder(), now=Clock())
        opened.append(made)
        return made

    yield make
    for each in opened:
        each.close()


def fill(harken: Harken) -> dict[str, str]:
    """A conversation with a question and its answer, and a memory; their ids."""
    asked = harken.record_message("old", "user", QUESTION)
    told = harken.record_message("old", "assistant", ANSWER)
    harken.end_exchange("old")
    memory = harken.memories.add("The harbour master of quay seven is called Ilse.", "fact")
    harken.embed()
    return {
        "asked": asked.uid,
        "told": told.uid,
        "exchange": told.exchange_uid,
        "conversation": told.conversation_uid,
        "memory": memory.memory.uid,
    }


def mark(harken: Harken, ids: dict[str, str]) -> None:
    harken.feedback.rate(ids["told"], "useful")
    harken.feedback.rate(ids["exchange"], "wrong", question="Where does the Borealis lie in winter?")
    harken.feedback.rate(ids["memory"], "useless", by="agent")
    harken.labels.tag(ids["conversation"], ["harbour", "ships"])
    harken.labels.entitle(ids["conversation"], "Berths in autumn")
    harken.labels.move(ids["conversation"], "/srv/port")
    harken.memories.review(ids["memory"], datetime(2026, 1, 1, tzinfo=UTC))
    harken.memories.confirm(ids["memory"])


def marks(harken: Harken, ids: dict[str, str]) -> dict[str, Any]:
    """All that was said, as it stands."""
    found = harken.search("quay Aurora", scope=SearchScope(facets=("tag:harbour",)), mode="keyword").hits
    memory = harken.memories.get(ids["memory"])
    return {
        "judged": [harken.feedback.show(ids[name]).view() for name in ("told", "exchange", "memory")],
        "label": harken.labels.show(ids["conversation"]).view(),
        "tagged": sorted(hit.entry.ref_uid for hit in found),
        "factors": sorted(reason.value for hit in found for reason in hit.reasons if reason.name == "feedback"),
        "project": {hit.entry.project for hit in found},
        "review": (memory.review_by, memory.confirmed_at),
    }


def test_all_of_it_outlives_a_rebuild_and_a_move_and_the_doctor_agrees(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    mark(harken, ids)
    said = marks(harken, ids)
    assert said["project"] == {"path:/srv/port"}
    assert said["tagged"] == sorted([ids["asked"], ids["told"]])
    assert said["factors"] == [0.93, 0.9951]
    assert said["label"]["tags"] == ["harbour", "ships"]
    assert said["review"][0] is not None
    assert harken.maintenance.doctor() == []
    for _ in harken.maintenance.reindex_from_journal():
        pass
    assert marks(harken, ids) == said
    assert harken.maintenance.doctor() == []
    exported = harken.home / "all.jsonl"
    harken.maintenance.export(exported)
    other = open_home("other")
    for _ in range(2):
        other.import_transcripts("jsonl", [exported], as_mine=True)
        assert marks(other, ids) == said
    assert other.maintenance.doctor() == []
    other.maintenance.export(other.home / "again.jsonl")
    assert (other.home / "again.jsonl").read_bytes() == exported.read_bytes()


def test_a_strangers_export_judges_and_names_nothing(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    mark(harken, ids)
    harken.maintenance.export(harken.home / "all.jsonl")
    other = open_home("other")
    other.import_transcripts("jsonl", [harken.home / "all.jsonl"])
    assert other.feedback.show(ids["told"]).words == ""
    assert other.labels.show(ids["conversation"]).tags == ()


def test_forgetting_leaves_no_word_of_what_was_said(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    mark(harken, ids)
    harken.memories.forget([ids["memory"]])
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[ids["conversation"]]))
    assert harken.maintenance.doctor() == []
    for file in harken.home.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert not any(word in content for word in (b"Borealis", b"autumn", b"harbour", b"Ilse")), file


def test_a_title_of_forgotten_words_goes_with_them(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    harken.labels.entitle(ids["conversation"], "Old customs house")
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[ids["told"]]))
    assert harken.labels.show(ids["conversation"]).title == ""
    assert harken.maintenance.doctor() == []
    assert not any(b"customs" in file.read_bytes() for file in harken.home.rglob("*.jsonl"))


def test_an_import_does_not_take_a_corrected_title_away(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")

    def read(title: str, text: str) -> str:
        new = NewConversation("claude-code", "one", title=title)
        harken.recorder.record([Batch(new, [NewMessage(Role.USER, text)])])
        return new.uid

    uid = read("First", "Which quay is it?")
    harken.labels.entitle(uid, "Mine")
    assert read("Second", "And which one now?") == uid
    assert harken.labels.show(uid).title == "Mine"
    harken.labels.entitle(uid, "")
    assert harken.labels.show(uid).title == "First"


def quoted(harken: Harken, prompt: str) -> set[str]:
    """What hooks would tell a new conversation."""
    return {quote.uid for quote in harken.chats.quotes_about(prompt, conversation_uid("claude-code", "new"))}


def test_what_is_wrong_stays_away_from_such_a_question_alone(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    assert ids["exchange"] in quoted(harken, QUESTION)
    harken.feedback.rate(ids["exchange"], "wrong", question=QUESTION)
    assert ids["exchange"] not in quoted(harken, "which quay is free for the Aurora in November")
    assert ids["exchange"] in quoted(harken, "Who keeps the old customs house behind quay seven?")
    assert harken.search(QUESTION).hits
    harken.feedback.rate(ids["exchange"], "none")
    assert ids["exchange"] in quoted(harken, QUESTION)


def test_what_is_wrong_stays_away_from_a_question_of_two_words(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    asked = "who is harbour master?"
    assert ids["memory"] in quoted(harken, asked)
    harken.feedback.rate(ids["memory"], "wrong", question=asked)
    assert ids["memory"] not in quoted(harken, asked)
    assert ids["memory"] in quoted(harken, "where is the harbour master?")


def test_a_wrong_memory_stays_away_and_one_that_is_due_says_since_when(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    prompt = "Who is the harbour master of quay seven?"
    harken.memories.review(ids["memory"], datetime(2026, 1, 1, tzinfo=UTC))
    about = harken.chats.quotes_about(prompt, conversation_uid("claude-code", "new"))
    [quote] = [quote for quote in about if quote.uid == ids["memory"]]
    assert quote.text.startswith("(not confirmed since 2026-05-08) The harbour master")
    harken.feedback.rate(ids["memory"], "wrong")
    assert ids["memory"] not in quoted(harken, prompt)


def test_what_has_a_tag_that_recall_leaves_out_does_not_come_by_itself(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home", **{"rag.without_tags": ["secret"]})
    ids = fill(harken)
    assert ids["exchange"] in quoted(harken, QUESTION)
    harken.labels.tag(ids["conversation"], ["secret"])
    assert ids["exchange"] not in quoted(harken, QUESTION)
    assert harken.search(QUESTION).hits


def test_a_verdict_is_about_the_question_at_which_it_came_back(open_home: Callable[..., Harken]) -> None:
    harken = open_home("home")
    ids = fill(harken)
    uid = conversation_uid("library", "new")
    asked = harken.record_message("new", "user", "Where is a quay for the Aurora in November?")
    assert harken.chats.note_given(uid, {ids["exchange"]: ""}, unless=lambda: False, tokens=10)
    judged = harken.feedback.rate(ids["exchange"], "wrong")
    assert judged.question == asked.text
    [injection] = harken.archive.recalls()
    [item] = injection.items
    assert (item.uid, item.source, item.rated) == (ids["exchange"], "exchange", "rated wrong once")
    assert injection.question == asked.text


def test_an_answer_that_uses_rare_words_of_what_was_recalled_calls_it_useful_once(
    open_home: Callable[..., Harken],
) -> None:
    harken = open_home("home")
    ids = fill(harken)
    uid = conversation_uid("library", "new")
    harken.record_message("new", "user", "Where shall the Aurora lie?")
    harken.chats.note_given(uid, {ids["exchange"]: "", ids["memory"]: ""}, unless=lambda: False, tokens=10)
    assert harken.feedback.notice() == 0
    harken.record_message("new", "assistant", "Behind the old customs house, quay seven was free in November.")
    assert harken.feedback.notice() == 1
    assert harken.feedback.notice() == 0
    assert harken.feedback.show(ids["exchange"]).words == "used in an answer"
    assert harken.feedback.show(ids["memory"]).factor == 1.0
    assert harken.maintenance.doctor() == []
