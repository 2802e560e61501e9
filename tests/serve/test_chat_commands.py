"""`harken chat` with lines in and text out: every slash command in every form, errors, and what scripts see."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine, Outcome
from harken.testing import ChatServer, Reply
from harken.testing.endpoints import Says, ScriptedCall
from harken.testing.local_server import Request
from quotations import steadied

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
FORMS = "[on|off|rebuild [conversations|exchanges]]"
OLD = [
    {"conversation": name, "role": role, "content": text, "ts": f"2024-05-01T10:0{minute}:00Z"}
    for name, texts in {
        "tap": ("Why does the kitchen tap drip?", "The seal of the kitchen tap is worn out."),
        "cake": ("How long does a plum cake bake?", "A plum cake bakes for forty minutes."),
    }.items()
    for minute, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def harken(cli: CommandLine, server: ChatServer) -> CommandLine:
    """The command line with a scripted model, which only the chat calls."""
    model = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "unused"}
    cli("summarizer", "off")
    return replace(cli, settings={**cli.settings, **model})


def chat(cli: CommandLine, *lines: str, code: int = 0) -> Outcome:
    return cli("chat", stdin="".join(f"{line}\n" for line in lines), code=code)


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two old conversations, their summaries and a core memory, to copy."""
    place = tmp_path_factory.mktemp("talked")
    cli = CommandLine(place / "home", place, {"HARKEN_EMBEDDER": "none"})
    (place / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in OLD), encoding="utf-8")
    cli("import", "jsonl", place / "old.jsonl")
    cli("worker", "run", "--until-idle")
    cli("core", "set", "user", "name", "Ada")
    return cli.home


class TestCommands:
    @pytest.mark.parametrize(
        "words",
        [
            "summarizer",
            "summarizer conversation",
            "summarizer exchange",
            "summarizer off",
            "summarizer on",
            "summarizer conversation off",
            "summarizer conversation on",
            "summarizer exchange off",
            "summarizer exchange on",
            "embeddings",
            "embeddings off",
            "embeddings on",
            "rag",
            "rag off",
            "rag on",
            "rag config",
            "rag set rag_conversation_limit 5",
            "rag set rag_min_similarity 0.8",
            "core set user name Ada",
            "core list",
            "core get user name",
            "search plum cake",
            "status",
            "model",
        ],
    )
    def test_each_does_what_the_command_line_does(self, cli: CommandLine, talked: Path, words: str) -> None:
        shutil.copytree(talked, cli.home, dirs_exist_ok=True)
        inside = chat(cli, f"/{words}")
        outside = cli(*words.split())
        assert outside.out
        assert _steady(inside.out) == _steady(outside.out)
        assert inside.err == ""

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("/rga", "There is no command /rga. Did you mean /rag? Commands: /new, /context, "),
            ("/", "There is no command /. Commands: /new, "),
            ("/summarizer exchange perhaps", "Say: /summarizer [conversation|exchange] [on|off]"),
            ("/summarizer on off", "Say: /summarizer [conversation|exchange] [on|off]"),
            ("/embeddings maybe", f"'maybe' is not understood here. Say: /embeddings {FORMS}"),
            ("/embeddings rebuild all", f"'rebuild all' is not understood here. Say: /embeddings {FORMS}"),
            ("/embeddings rebuild", "The settings name no embedding model. Set one: "),
            ("/rag perhaps", "No such command 'perhaps'. See: /rag --help"),
            ("/rag set", "Missing argument 'KEY'. See: /rag set --help"),
            ("/rag set colour red", "Say: /rag set KEY VALUE, KEY one of rag_enabled, "),
            ("/rag set rag_conversation_limit 0", "rag.conversation_limit"),
            ("/rag set rag_min_similarity 2", "rag.min_similarity"),
            ("/rag test", "Missing argument 'QUERY...'. See: /rag test --help"),
            ("/show", "Missing argument 'ID'. See: /show --help"),
            ("/show deadbeef", "'deadbeef' names nothing."),
            ("/core get user colour", "Core memory has no 'colour' in user."),
            ("/context --conversation nowhere", "There is no conversation nowhere."),
            ("/new", "Nothing was said in this conversation yet: it is new."),
            ("/tag suggest", "Nothing was said in this conversation yet. Say something first"),
            (
                "/tag add harbour",
                "Nothing was said in this conversation yet. Say something first, or name another one: ",
            ),
            (
                "/conversations title Harbour",
                "Nothing was said in this conversation yet. Say something first, or name ",
            ),
            ("/model gpt", "llm.model is 'gpt', not vendor:model"),
            ("/model tapestry:gpt", "no vendor 'tapestry'; there are: openai, anthropic, google, ollama."),
            ("/exit now", "/exit takes no words. Say: /exit"),
            ("/help me please", "Say: /help, or /help COMMAND"),
            ("/help rga", "There is no command /rga. Did you mean /rag?"),
        ],
    )
    def test_a_wrong_form_is_one_line_and_the_chat_goes_on(self, cli: CommandLine, line: str, said: str) -> None:
        outcome = chat(cli, line, "/core list", "/core set user name Ada")
        assert said in outcome.err
        assert outcome.err.count("\n") == 1
        assert outcome.out == "Nothing is kept. Keep something: /core set user KEY VALUE\nuser name: Ada\n"

    def test_whatever_of_the_command_line_makes_sense_in_a_chat_is_there(
        self, cli: CommandLine, write: Write, tmp_path: Path
    ) -> None:
        old, notes, again = write("old.jsonl", OLD), tmp_path / "notes", tmp_path / "again.jsonl"
        notes.mkdir()
        (notes / "harvest.md").write_text("# Harvest\nThe quinces are ripe in October.\n", encoding="utf-8")
        done = chat(
            cli, f"/import jsonl {old}", f"/index docs {notes}", f"/export {again}", f"/backup {tmp_path / 'b'}"
        )
        assert "4 new messages in 2 conversations" in done.out
        assert "documents: 1 file read" in done.out
        assert len(again.read_text(encoding="utf-8").splitlines()) > 4
        said = (
            *("doctor", "config", "assemble ripe quinces --types documents", "premortem debugging", "worker status"),
            *("experience list", "values list", "documents search quinces", "commits search quinces", "code search x"),
        )
        inside, outside = chat(cli, *(f"/{words}" for words in said)), [cli(*words.split()) for words in said]
        assert _steady(inside.out) == [line for each in outside for line in _steady(each.out)]
        assert "All agrees" in inside.out
        assert "The quinces are ripe in October." in inside.out
        for apart in ("serve", "mcp", "restore", "reindex", "chat"):
            assert f"There is no command /{apart}." in chat(cli, f"/{apart}").err
        assert "A chat runs the workers already." in chat(cli, "/worker run").err

    def test_what_a_search_finds_is_opened_or_handed_to_another_command(self, cli: CommandLine, write: Write) -> None:
        cli("import", "jsonl", write("old.jsonl", OLD))
        first, second = (hit["id"] for hit in cli.search("kitchen tap")[:2])
        for words, uid in (("", first), (" 2", second)):
            assert chat(cli, f"/search kitchen tap | /open{words}").out == cli("show", uid).out
        assert chat(cli, "/search kitchen tap | /show").out == cli("show", first).out
        for line, said in {
            "/search kitchen tap | /open 9": "There is no number 9: 2 things found.",
            "/search zanzibar | /open": "There is no number 1: 0 things found.",
            "/search kitchen tap | /opne": "There is no command /opne. Did you mean /open?",
        }.items():
            failed = chat(cli, line, "/core list")
            assert said in failed.err
            assert failed.out == "Nothing is kept. Keep something: /core set user KEY VALUE\n"
        refused = chat(cli, "/search kitchen tap | /forget", "y", code=1)
        assert "To do it all the same, add --yes." in refused.err
        chat(cli, "/search kitchen tap | /forget --yes 2")
        assert [hit["id"] for hit in cli.search("kitchen tap")] == [first]

    def test_a_store_that_is_damaged_meanwhile_does_not_end_the_chat(self, cli: CommandLine) -> None:
        chat(cli, "/core set user name Ada")
        with cli.running("chat", stdin=-1, stdout=-1, stderr=-1) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("/core list\n")
            process.stdin.flush()
            assert process.stdout.readline() == "user name: Ada\n"
            with contextlib.closing(sqlite3.connect(cli.home / "harken.db")) as database:
                database.execute("DROP TABLE retrievals")
            out, err = process.communicate("/rag log\n/core get user name\n", timeout=TIMEOUT_SECONDS)
        assert (out, err.count("\n")) == ("Ada\n", 1)

    def test_help_lists_every_command_with_its_forms_and_explains_each(self, cli: CommandLine) -> None:
        listed = chat(cli, "/help").out
        for form in (
            "/rag [on|off|config|set|test|log|…]",
            "/show ID",
            "/search QUERY",
            "/model [NAME]",
            "/exit",
        ):
            assert form in listed
        assert "Alt-Enter" in listed
        explained = chat(cli, "/help rag", "/help /embeddings").out
        assert "Usage: /rag [OPTIONS]" in explained
        assert f"Usage: /embeddings [OPTIONS] {FORMS}" in explained

    def test_a_model_is_shown_and_changed_for_good(self, cli: CommandLine) -> None:
        keyed = replace(cli, settings={**cli.settings, "OPENAI_API_KEY": "unused"})
        said = chat(keyed, "/model", "/model openai:gpt-5-mini")
        assert said.out.startswith("No language model is configured: nothing is ever sent to one.\nSet one: /model ")
        assert "openai:gpt-5-mini (run time), $0.25 for a million tokens of input, $2.00 of output\n" in said.out
        assert keyed("model", "--json").json()["model"] == "openai:gpt-5-mini"
        assert keyed.fails("model", "tapestry:gpt").startswith("llm.model: no vendor 'tapestry'")
        assert keyed("model", "--json").json()["model"] == "openai:gpt-5-mini"


class TestTalking:
    def test_lines_are_said_in_one_conversation_and_stdout_has_the_answers_alone(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says(calls=(ScriptedCall("search_history", {"query": "tap"}),)), Says("First."), Says("Second."))
        outcome = chat(harken, "one \\", "and a half", "", "/usr/bin is a folder?")
        assert outcome.out == "First.\nSecond.\n"
        assert outcome.err.startswith('· search_history(query="tap") → ')
        assert "user: one \nand a half\n" in server.prompts()[-1]
        assert server.prompts()[-1].endswith("assistant: First.\nuser: /usr/bin is a folder?")
        assert harken.status()["conversations"] == 1

    def test_what_another_process_sets_holds_for_the_next_line(self, harken: CommandLine) -> None:
        def answer(_request: Request) -> Says:
            harken("config", "set", "context.system_prompt", "Speak in rhymes.")
            return Says("Well.")

        with ChatServer(otherwise=answer) as server:
            chat(replace(harken, settings={**harken.settings, "HARKEN_LLM__URL": server.url}), "one", "two")
        first, second = server.prompts()
        assert "Speak in rhymes." not in first
        assert "Speak in rhymes." in second

    def test_two_slashes_say_something_that_begins_with_one(self, harken: CommandLine, server: ChatServer) -> None:
        server.script(Says("A command of mine."))
        chat(harken, "//rag is what?")
        assert "user: /rag is what?" in server.prompts()[0]

    def test_a_message_is_answered_once_and_a_chat_goes_on_with_it(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says("Blue."), Says("As said, blue."), Says("Blue, again."))
        assert harken("chat", "Which", "colour?").out == "Blue.\n"
        assert harken("chat", "--continue", "Once more?").out == "As said, blue.\n"
        assert "assistant: Blue.\nuser: Once more?" in server.prompts()[1]
        (uid,) = {message["conversation_id"] for message in harken.search("colour")}
        assert harken("chat", "--conversation", uid[:12], "And again?").out == "Blue, again.\n"
        assert harken.status()["conversations"] == 1

    def test_what_came_back_and_what_it_cost_is_counted_by_agent_project_and_month(
        self, harken: CommandLine, server: ChatServer, write: Write
    ) -> None:
        harken("import", "jsonl", write("old.jsonl", [{**line, "project": "house"} for line in OLD]))
        server.script(Says("The seal is worn."), Says("Yes."))
        harken("chat", "thanks")
        nothing = harken("stats", "--json").json()
        assert (nothing["total"]["messages"], nothing["total"]["recalls"]) == (6, 0)
        harken("chat", "Why does that kitchen tap drip?")
        found = harken("stats", "--json").json()
        agents = {line["name"]: line for line in found["agents"]}
        assert (agents["jsonl"]["messages"], agents["jsonl"]["conversations"], agents["jsonl"]["recalls"]) == (4, 2, 0)
        assert (agents["chat"]["messages"], agents["chat"]["recalls"]) == (4, 1)
        assert agents["chat"]["recall_tokens"] > 10
        assert agents["chat"]["spend_usd"] == pytest.approx(harken.status()["spend_usd"])
        assert agents["chat"]["spend_usd"] > 0
        assert {line["name"]: line["messages"] for line in found["projects"]}["house"] == 4
        assert found["months"][0] == {**found["months"][0], "name": "2024-05", "messages": 4, "recalls": 0}
        assert found["total"]["recall_tokens"] == agents["chat"]["recall_tokens"]
        printed = harken("stats").out
        assert {"agents", "projects", "months", "chat", "house"} <= {
            line.split()[0] for line in printed.splitlines() if line
        }
        assert f"${found['total']['spend_usd']:,.4f}" in printed

    def test_a_new_segment_starts_with_a_clean_window(self, harken: CommandLine, server: ChatServer) -> None:
        server.script(Says("Blue."), Says("What colour?"))
        outcome = chat(harken, "Which colour has the shed?", "/new", "And now?")
        assert "Segment 2 of conversation " in outcome.out
        assert "  Kept: all that was said, " in outcome.out
        assert "  Anew: the window, " in outcome.out
        assert "shed" not in server.prompts()[1]
        assert harken.search("shed")
        harken("task", "run", "weekly", "What was closed?", "--answer", "Three issues.")
        # Nobody means the run that a timer has begun meanwhile.
        assert "Segment 3" in harken("new").out

    def test_the_conversation_that_goes_on_is_the_one_of_context_and_never_comes_back_from_rag(
        self, harken: CommandLine, server: ChatServer, write: Write
    ) -> None:
        harken("import", "jsonl", write("old.jsonl", OLD))
        server.script(Says("The kitchen tap seal is worn, I believe."))
        lines = ("Tell me of the kitchen tap seal", "/context why?", "/context", "/rag test kitchen tap seal")
        out = chat(harken, *lines).out
        assert "window  " in out
        assert "user: Tell me of the kitchen tap seal\n" in out
        assert "\npending  " in out
        recalled = out.split("pending  ")[-1]
        assert recalled.count("Conversation: ") == 1
        assert "Why does the kitchen tap drip?" in recalled
        assert "I believe" not in recalled.split("Conversation: ")[1]

    def test_a_model_that_fails_is_one_line_and_the_next_question_is_answered(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(*[Says(refusal="No.")], Says("Yes."))
        outcome = chat(harken, "first?", "second?", code=1)
        assert "The answer failed: " in outcome.err
        assert outcome.out.endswith("Yes.\n")
        assert "answers with status 500" in harken.fails("chat", "third?")

    def test_an_answer_that_ends_where_the_model_may_say_no_more_is_told_as_cut(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says("One, two and", finish="length"), Says("", finish="length"))
        told = harken("chat", "count")
        assert (told.out, told.err.count("cut off at llm.max_tokens")) == ("One, two and\n", 1)
        assert "answered nothing before llm.max_tokens" in harken.fails("chat", "think")

    def test_an_answer_whose_connection_is_closed_in_good_order_is_told_as_cut_too(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        delta = {"choices": [{"index": 0, "delta": {"content": "One, two"}, "finish_reason": None}]}
        head = {"id": "c", "created": 1, "model": "m", "object": "chat.completion.chunk"}
        server.script(Reply(pieces=(f"data: {json.dumps({**head, **delta})}\n\n".encode(),)))
        told = harken("chat", "count")
        assert (told.out, told.err.count("cut off by the endpoint")) == ("One, two\n", 1)

    def test_without_a_model_it_says_how_to_get_one_and_serves_the_commands(self, cli: CommandLine) -> None:
        outcome = chat(cli, "hello", "/core set user name Ada", code=1)
        assert "No language model is configured" in outcome.err
        for way in ("openai:gpt-5-mini", "OPENAI_API_KEY", "pip install 'harken[llm]'"):
            assert way in outcome.err
        assert outcome.out == "user name: Ada\n"
        assert cli.status()["messages"] == 0
        assert "No language model is configured" in cli.fails("chat", "hello")

    def test_background_work_that_cannot_be_done_as_it_is_set_is_one_line(self, cli: CommandLine) -> None:
        broken = replace(cli, settings={"HARKEN_EMBEDDER": "openai-compatible"})
        outcome = chat(broken, "/core set user name Ada")
        assert outcome.err.startswith("Some work in the background has to wait: ")
        assert outcome.err.count("\n") == 1
        assert outcome.out == "user name: Ada\n"

    def test_what_to_go_on_with_must_be_there_and_be_one(self, cli: CommandLine) -> None:
        assert cli.fails("chat", "--continue") == "There is no chat to go on with yet. Begin one: harken chat"
        assert "There is no conversation feed" in cli.fails("chat", "--conversation", "feed")
        assert "not both" in cli.fails("chat", "--continue", "--conversation", "feed", code=2)


def test_forgetting_takes_what_was_typed_along(cli: CommandLine, write: Write) -> None:
    cli("import", "jsonl", write("old.jsonl", OLD))
    (cli.home / "chat-history").write_text('"the kitchen tap"\n', encoding="utf-8")
    cli("forget", "--query", "kitchen tap", "--yes")
    assert not (cli.home / "chat-history").exists()


def _steady(shown: str) -> list[str]:
    """What is the same inside and outside: not the sizes of files, what a worker has done here, what is to be typed."""
    others = ("size ", "  Total processed this session")
    return [line.replace("harken ", "/") for line in steadied(shown).splitlines() if not line.startswith(others)]
