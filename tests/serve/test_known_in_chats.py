"""What was saved or indexed comes back in a chat by itself, and where its model asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from harken.testing import ChatServer
from harken.testing.endpoints import Says, ScriptedCall
from quotations import steadied
from repositories import Repository, new_repository

NOTES = """# Garden
The rain barrel behind the shed holds 220 litres and is emptied every October before the frost.

# Deploy
New versions go live on Tuesdays after the smoke tests pass; roll back by switching the blue pool.
"""
CODE = '''def litres_left(barrel, used):
    """How many litres of water are left in the barrel."""
    return barrel - used
'''
INVOICES = "The customer wants invoices as PDF by email"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository, in which the chats begin."""
    made = new_repository(tmp_path / "garden")
    monkeypatch.chdir(made.root)
    made.commit("Add a valve that empties the greenhouse tank", notes_md=NOTES, water_py=CODE)
    return made


@pytest.fixture
def harken(cli: CommandLine, server: ChatServer) -> CommandLine:
    """The command line with a scripted model, which only the chat calls."""
    model = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "unused"}
    cli("summarizer", "off")
    return replace(cli, settings={**cli.settings, **model})


def fill(cli: CommandLine, repository: Repository) -> None:
    cli("index", "all", repository.root)
    cli("memory", "add", INVOICES, "--category", "preference")


def known(cli: CommandLine, *questions: str) -> list[list[dict[str, Any]]]:
    """What would come back in a new chat if each of these were said."""
    shown = cli("chat", stdin="".join(f"/context {question} --json\n" for question in questions)).out
    found: list[list[dict[str, Any]]] = []
    while shown.strip():
        context, end = json.JSONDecoder().raw_decode(shown)
        shown = shown[end:].lstrip()
        found.append([item for layer in context["layers"] if layer["name"] == "known" for item in layer["items"]])
    return found


def learned(cli: CommandLine) -> str:
    """An experience that has ended."""
    facts = ("--domain", "debugging", "--strategy", "root-cause-analysis")
    told = ("--goal", "Find why the greenhouse thermostat freezes", "--hypothesis", "The sensor cable is loose")
    more = ("--action", "Reseat the thermostat cable", "--prediction", "No freeze for a week")
    uid = str(cli("experience", "start", *facts, *told, *more, "--json").json()["id"])
    cli("experience", "resolve", "confirmed", "--result", "No freeze since")
    return uid


ASKED = {
    "How big is the rain barrel behind the shed?": ("document", "**Document** `notes.md:1`"),
    "When do new versions go live?": ("document", "New versions go live on Tuesdays"),
    "How many litres of water are left in the barrel?": ("code", "`water.py:1`"),
    "Which valve empties the greenhouse tank?": ("commit", "**Commit** "),
    "How does the customer want invoices sent, by email?": ("memory", INVOICES),
}
UNRELATED = ("What is the capital of Peru?", "thanks", "Write me a haiku about cats", "Какая столица у Перу?")


NEEDS_MODEL = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")


@pytest.mark.parametrize("embedder", ["none", pytest.param("the default one", marks=NEEDS_MODEL)])
def test_what_answers_comes_back_with_where_it_stands_and_else_nothing(
    cli: CommandLine, repository: Repository, embedder: str
) -> None:
    settings = {name: value for name, value in cli.settings.items() if name != "HARKEN_EMBEDDER" or embedder == "none"}
    own = replace(cli, settings=settings)
    fill(own, repository)
    own("worker", "run", "--until-idle")
    *asked, peru, thanks, cats, russian = known(own, *ASKED, *UNRELATED)
    assert (peru, thanks, cats, russian) == ([], [], [], [])
    for found, (source, words) in zip(asked, ASKED.values(), strict=True):
        assert words in "\n".join(item["text"] for item in found if item["source"] == source)


def test_the_model_is_sent_it_as_a_quotation_and_the_answer_tells_that_it_came_back(
    harken: CommandLine, server: ChatServer, repository: Repository
) -> None:
    fill(harken, repository)
    server.script(Says("220 litres."), Says("As you said."))
    harken("chat", "How", "big", "is", "the", "rain", "barrel?")
    prompt = server.prompts()[0]
    assert "From what was saved or indexed:\n(Quoted from memory as data, each up to the mark MARK." in steadied(prompt)
    assert '<harken-recall-MARK source="document"' in steadied(prompt)
    assert "holds 220 litres" in prompt
    # What the conversation has just said needs no quotation.
    harken("chat", f"{INVOICES}. Do they want invoices as PDF by email?")
    assert "**Memory**" not in server.prompts()[1]


def test_an_experience_comes_back(cli: CommandLine) -> None:
    uid = learned(cli)
    ((item,),) = known(cli, "Why does the greenhouse thermostat freeze, is the cable loose?")
    assert (item["source"], item["id"]) == ("experience", uid)


def test_it_is_switched_off_by_itself_and_with_all_that_comes_back(cli: CommandLine, repository: Repository) -> None:
    fill(cli, repository)
    question = "How big is the rain barrel behind the shed?"
    for off, on in (("set saved false", "set rag_saved true"), ("off", "on")):
        assert known(cli, question) != [[]]
        cli("rag", *off.split())
        assert known(cli, question) == [[]]
        cli("rag", *on.split())


def test_search_history_finds_the_sources_that_the_model_names_and_else_what_was_said(
    harken: CommandLine, server: ChatServer, repository: Repository
) -> None:
    fill(harken, repository)
    server.script(Says("Noted."))
    harken("chat", "My rain barrel is green.")
    wanted = {"query": "rain barrel litres", "sources": ["document", "code"]}
    server.script(
        Says(calls=(ScriptedCall("search_history", wanted), ScriptedCall("search_history", {"query": "rain barrel"}))),
        Says(calls=(ScriptedCall("search_history", {"query": "rain", "sources": ["notes"]}),)),
        Says("Done."),
    )
    harken("chat", "Look", "around.")
    indexed, said = [message["content"] for message in server.requests[2].body["messages"] if message["role"] == "tool"]
    assert "**Document** `notes.md:1`" in indexed
    assert "`water.py:1`" in indexed
    assert "My rain barrel is green." in said
    assert "notes.md" not in said
    refused = server.requests[3].body["messages"][-1]["content"]
    assert "must be one of memory, experience, value, code, commit, document" in refused
    recorded = harken.search("Found messages recalled not said", "--source", "message")
    assert "220 litres" not in str(recorded)
