"""`harken setup`: what it finds, what it asks, and that nothing is done and nothing paid for without a yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import CommandLine, rows
from harken.testing import ChatServer, EmbeddingServer
from terminals import WITHOUT_TERMINALS, terminal

SETTINGS = '{\n  "model": "opus"\n}\n'


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """The command line of a person with Claude Code, its history, and Cursor."""
    history = cli.person / ".claude/projects/-nowhere-shop"
    history.mkdir(parents=True)
    (cli.person / ".claude/settings.json").write_text(SETTINGS)
    (cli.person / ".cursor").mkdir()
    said = {"role": "user", "content": "Where does the marmalade live?"}
    head = {"sessionId": "s-1", "cwd": "/nowhere/shop", "timestamp": "2026-05-08T09:00:00Z"}
    line = {"type": "user", "uuid": "u-1", "parentUuid": None, **head, "message": said}
    (history / "s-1.jsonl").write_text(json.dumps(line) + "\n")
    return cli


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_without_anybody_to_ask_it_says_what_it_found_and_changes_nothing(cli: CommandLine) -> None:
    before = files(cli.person)
    outcome = cli("setup")
    assert "Agents here: Claude Code, Cursor. Histories: claude-code." in outcome.err
    assert "All of it at once: harken setup --yes" in outcome.err
    assert files(cli.person) == before
    assert rows(cli.home, "messages") == 0
    found = cli("setup", "--json").json()
    assert (found["agents"], found["installed"], found["model"]) == (["claude-code", "cursor"], [], None)
    assert found["histories"] == {"claude-code": [str(cli.person / ".claude/projects")]}
    assert "imported" not in found
    assert outcome.out.startswith("Nothing was set up yet. ")


def test_an_agent_whose_settings_cannot_be_read_leaves_it_not_ready(cli: CommandLine) -> None:
    (cli.person / ".cursor/mcp.json").write_text("{ no JSON")
    last = cli("setup", "--yes", code=1).out.splitlines()[-1]
    assert last.startswith("Not ready: cursor failed, see above. ")
    found = cli("setup", "--yes", "--json", code=1).json()
    assert (found["installed"], found["failed"]) == (["claude-code"], ["cursor"])


def test_yes_imports_and_installs_for_the_agents_that_are_here_and_sets_no_model(cli: CommandLine) -> None:
    before = files(cli.person)
    done = cli("setup", "--yes", "--json").json()
    assert (done["imported"], done["installed"], done["model"]) == (1, ["claude-code", "cursor"], None)
    assert [hit["text"] for hit in cli.search("marmalade")] == ["Where does the marmalade live?"]
    assert "harken" in (cli.person / ".cursor/mcp.json").read_text()
    assert not (cli.person / ".gemini").exists()
    assert {file["action"] for file in cli("install", "claude-code", "--json").json()["files"]} == {"unchanged"}
    # Again it has nothing to add, and each is undone by itself, to the byte.
    assert "0 new messages" in cli("setup", "--yes").out
    for agent in done["installed"]:
        cli("install", agent, "--uninstall")
    assert files(cli.person) == before


def test_a_model_is_set_by_name_and_a_yes_after_its_price_was_told_and_is_not_asked_anything(
    cli: CommandLine, server: ChatServer
) -> None:
    there = {"HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "unused"}
    cli = replace(cli, settings={**cli.settings, **there})
    told = cli("setup", "--model", "openai:gpt-5-mini").err
    price = "openai:gpt-5-mini: $0.25 for a million tokens of input, $2.00 of output, at most $1.00 a day."
    assert price in told
    assert cli("model", "--json").json()["model"] is None
    assert cli("setup", "--yes", "--model", "openai:gpt-5-mini", "--json").json()["model"] == "openai:gpt-5-mini"
    assert "Language model: openai:gpt-5-mini. Another one: " in cli("setup").err
    assert server.requests == []


def test_a_paid_embedding_model_is_named_with_its_price_and_sent_nothing(cli: CommandLine) -> None:
    with EmbeddingServer(dims=64) as endpoint:
        paid = {
            "HARKEN_EMBEDDER": "openai-compatible",
            "HARKEN_EMBEDDING__URL": endpoint.url,
            "HARKEN_EMBEDDING__MODEL": "words",
            "HARKEN_EMBEDDING__DIMS": "64",
            "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
            "HARKEN_EMBEDDING__USD_PER_MILLION": "1000",
        }
        outcome = replace(cli, settings={**cli.settings, **paid})("setup", "--yes")
        assert "1 new message in 1 conversation" in outcome.out
        assert "about $0.0" in outcome.err
        assert "Nothing was sent to it." in outcome.err
        assert "harken worker run --until-idle" in outcome.err
        assert not any("marmalade" in str(request) for request in endpoint.requests)


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_a_person_is_asked_each_thing_and_a_no_leaves_it(cli: CommandLine, server: ChatServer) -> None:
    there = {"HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "unused"}
    with terminal(replace(cli, settings={**cli.settings, **there}), command="setup") as asked:
        asked.sees("Import what was said in claude-code? It stays on this machine. [Y/n]")
        asked.types("")
        asked.sees("Put memory into Claude Code?")
        asked.types("n")
        asked.sees("Put memory into Cursor?")
        asked.types("y")
        asked.sees("or Enter for none:")
        asked.types("openai:gpt-5-mini")
        asked.sees("$2.00 of output")
        asked.sees("Type 'yes' to use openai:gpt-5-mini:")
        asked.types("")
        code, _ = asked.ends()
    assert code == 0
    assert rows(cli.home, "messages") == 1
    assert (cli.person / ".claude/settings.json").read_text() == SETTINGS
    assert "harken" in (cli.person / ".cursor/mcp.json").read_text()
    assert cli("model", "--json").json()["model"] is None
    assert server.requests == []
