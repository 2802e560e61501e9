"""Two statements of one speaker on one matter: the later one comes first, the earlier one is marked, both stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatting import filler, recalled, say
from command_line import CommandLine
from harken.engine import Harken
from harken.search.newest import corrects
from harken.serve.hooks.answers import Hooks
from harken.testing import HashingEmbedder
from recorded import Clock

EARLIER = "We use MySQL for the invoices of our billing service, as the contract of the year asks."
LATER = "We switched from MySQL to Postgres for the billing service."
QUESTION = "What do we use for the invoices of our billing service, as the contract of the year asks?"
MARKED = "said before that"


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    settings = {"embedding.min_message_tokens": 3, **engine_settings}
    embedder, clock = HashingEmbedder(1024, threshold=0.3), Clock()
    with Harken(ready_home, env={}, settings=settings, embedder=embedder, now=clock) as harken:
        for text in (EARLIER, LATER):
            say(harken, text, "Noted.")
            clock.go_on(days=2)
        say(harken, *filler(40))
        harken.embed()
        yield harken


def test_a_search_shows_the_later_word_first_and_says_so_of_the_earlier(cli: CommandLine, tmp_path: Path) -> None:
    said = ((EARLIER, "2026-03-01"), ("The invoices of billing are blue.", "2026-03-02"), (LATER, "2026-03-03"))
    lines = [{"conversation": "talk", "role": "user", "content": text, "ts": f"{day}T09:00:00Z"} for text, day in said]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", "jsonl", tmp_path / "talk.jsonl")
    hits = cli.search(QUESTION)
    texts = [hit["text"] for hit in hits]
    assert texts.index(LATER) < texts.index(EARLIER)
    (reason,) = [r for r in hits[texts.index(EARLIER)]["reasons"] if r["name"] == "said_before"]
    assert reason["note"] == f"{MARKED}: 3 March 2026 says otherwise ({hits[texts.index(LATER)]['id']})"
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert MARKED in cli("search", QUESTION, "--explain").out
    marked = [line for line in cli("search", QUESTION).out.splitlines() if MARKED in line]
    assert [hits[texts.index(EARLIER)]["id"] in line for line in marked] == [True]


def test_a_chat_quotes_the_earlier_word_as_said_before(harken: Harken) -> None:
    texts = recalled(harken.build_context("talk", [QUESTION]))
    assert f"({MARKED}) {EARLIER}" in texts
    assert LATER in texts


def test_a_hook_marks_the_earlier_word(harken: Harken, tmp_path: Path) -> None:
    payload = {"session_id": "new", "prompt": QUESTION, "hook_event_name": "UserPromptSubmit"}
    said = Hooks(harken, str(tmp_path)).answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode())
    text = json.loads(said)["hookSpecificOutput"]["additionalContext"]
    assert f"User ({MARKED}): {EARLIER}" in text
    assert f"User: {LATER}" in text


@pytest.mark.parametrize("later_author", ["Tom", "Anna"])
def test_of_a_past_conversation_of_several_people_only_the_speaker_corrects(
    harken: Harken, tmp_path: Path, later_author: str
) -> None:
    said = ("I live in Hamburg by the harbour.", "Tom"), ("I moved to Berlin by the harbour.", later_author)
    lines = [
        {"conversation": "of two", "role": role, "author": author, "content": text, "ts": f"2026-03-0{day}T09:00:00Z"}
        for day, (words, name) in enumerate(said, start=1)
        for role, author, text in (("user", name, words), ("assistant", None, "Noted."))
    ]
    (tmp_path / "of two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    harken.import_transcripts("jsonl", [tmp_path / "of two.jsonl"])
    harken.embed()
    texts = [quote.text for quote in harken.chats.quotes_about("Who lives in Hamburg or Berlin by the harbour?", "new")]
    assert any(f"{later_author}: I moved to Berlin" in text for text in texts)
    assert any(MARKED in text for text in texts) is (later_author == "Tom")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("I live in Hamburg.", "I moved to Berlin."),
        ("I live in Hamburg.", "In the end I moved to Berlin."),
        ("The office moved to Bonn.", "The office moved to Berlin."),
        ("Tom lives in Hamburg.", "Tom has moved to Berlin."),
        ("I live in Hamburg.", "Recently moved to Berlin."),
        ("We use MySQL.", "We use Postgres now."),
        (EARLIER, LATER),
        ("My Zotero library has 45 sources, tagged by theme.", "I've added 52 sources to my Zotero library."),
        ("The Zoom call with the director is on April 21.", "The Zoom call with the director moved to April 22."),
        ("The Zoom call with the director is on 2026-04-21.", "The Zoom call with the director moved to 2026-04-22."),
        ("The Zoom call with the director is on Apr 21.", "The Zoom call with the director moved to Apr. 22."),
        ("The staging server runs on port 9090.", "The staging server runs on port 8080 now."),
        ("We use Python 3.11.", "We use Python 3.12 now."),
        ("Wir benutzen MySQL für die Rechnungen.", "Wir benutzen jetzt Postgres für die Rechnungen."),
        ("Vivo en Madrid.", "Me mudé a Sevilla."),
        ("Я живу в Казани.", "Я переехал в Самару."),
        ("The meeting is on Thursday.", "The meeting was moved to Friday."),
        ("The meeting is on Thursday.", "The meeting moved from Thursday to Friday."),
        ("Встреча в четверг.", "Встречу перенесли на пятницу."),
    ],
)
def test_another_value_for_the_same_matter_corrects(earlier: str, later: str) -> None:
    assert corrects(later, earlier)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tomatoes.", "I like lemons."),
        ("I live in Hamburg.", "I still live in Hamburg."),
        ("We have 3 servers.", "We have 5 new servers."),
        ("We have 3 cats.", "The build takes 5 minutes now."),
        ("Does the call start at 3 pm?", "Does the call start at 4 pm?"),
        ("I ran 5 miles with Anna in the park.", "I read 7 books."),
        ("If the library has 45 sources, I sort them by theme.", "My Zotero library has 52 sources, by theme."),
        ("My score improved from 65% to 82% in the quiz.", "My score improved from 78% to 88% in the quiz."),
        ("The old tram carries 90 people.", "The new bus carries 60 people."),
        ("The first lesson takes 40 minutes.", "The second lesson takes 50 minutes."),
        ("Der Kater wiegt 5 Kilo.", "Der Hund wiegt 12 Kilo."),
        ("I live in Hamburg.", "My uncle moved to Berlin."),
        ("I live in Hamburg.", "The meeting moved to Tuesday."),
        ("I live in Hamburg.", "I almost moved to Berlin."),
        ("I live in Hamburg.", "She moved to Berlin."),
        ("I live in Hamburg.", "Tom moved to Berlin."),
        ("Anna lives in Hamburg.", "Tom has moved to Berlin."),
        ("The design meeting is on Thursday.", "The budget meeting was moved to Friday."),
        ("The first meeting is on Thursday.", "The second meeting was moved to Friday."),
        ("The notes of the meeting are due on Thursday.", "The meeting was moved to Friday."),
        ("The meeting is on Thursday.", "The meeting was moved on Friday."),
        ("The meeting is on Thursday.", "The meeting on Friday was moved to Thursday."),
        ("The meeting is on Thursday.", "We moved to Friday deploys."),
    ],
)
def test_what_only_resembles_does_not(one: str, other: str) -> None:
    assert not corrects(other, one)
