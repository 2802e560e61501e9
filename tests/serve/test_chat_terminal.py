"""`harken chat` in a real pseudo-terminal: a whole conversation, Ctrl-C, a resume, a terminal that is closed."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine, files_holding
from harken.testing import ChatServer, EmbeddingServer, Reply
from harken.testing.endpoints import Says, ScriptedCall
from terminals import WITHOUT_TERMINALS, terminal

pytestmark = pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def harken(cli: CommandLine, server: ChatServer) -> CommandLine:
    """The command line with a scripted model, which only the chat calls."""
    settings = {
        **cli.settings,
        "HARKEN_LLM__MODEL": "openai:gpt-5-mini",
        "HARKEN_LLM__URL": server.url,
        "HARKEN_LLM__API_KEY": "unused",
    }
    told = replace(cli, settings=settings)
    told("summarizer", "off")
    return told


def exchanges(harken: CommandLine) -> list[dict[str, Any]]:
    """Messages of the newest conversation."""
    newest = harken("context", "--json").json()["conversation_id"]
    shown: list[dict[str, Any]] = harken("show", newest, "--json").json()["messages"]
    return shown


def test_a_whole_conversation_with_commands_a_tool_ctrl_c_and_a_resume(harken: CommandLine, server: ChatServer) -> None:
    server.script(
        Says(calls=(ScriptedCall("search_history", {"query": "tap seal"}),)),
        Says("It needs a **rubber** seal.\n\nMeasure it first."),
        Says("once upon a time " * 200, piece_delay_seconds=0.05, hangs_after=100),
        Says("Two lines, I see."),
    )
    with terminal(harken) as person:
        person.sees("openai:gpt-5-mini · /help lists the commands, Ctrl-D leaves")
        person.waits_for_prompt()
        person.types("/core set user name Ada")
        person.sees("user name: Ada")
        person.types("Which seal does the tap need?")
        person.sees('· search_history(query="tap seal") → ')
        person.sees("Measure it first.")
        person.sees(" tokens in, ")
        person.sees("nothing came back")
        person.types("Tell me a long story")
        person.sees("once upon a time")
        person.presses("c")
        person.sees("stopped · ")
        person.waits_for_prompt()
        person.types("/rga")
        person.sees("There is no command /rga. Did you mean /rag?")
        person.types("/show nothing-like-it")
        person.sees("'nothing-like-it' names nothing.")
        # Before that, the terminal itself makes another key of a pressed Enter.
        person.waits_for_prompt()
        person.sends("Here is one line\x1b\rand another")
        person.types("")
        person.sees("Two lines, I see.")
        person.waits_for_prompt()
        person.types(f"/search {SECRET}")
        person.sees("Nothing was found.")
        person.waits_for_prompt()
        person.presses("d")
        person.sees("Go on with: harken chat --conversation ")
        code, after = person.ends()
        assert (code, after.count("\n")) == (0, 1)
        assert len(after.strip()) == 36
        with pytest.raises(ProcessLookupError):
            os.killpg(person.process.pid, 0)
    assert "name: Ada" in server.prompts()[0]
    assert "Here is one line\nand another" in server.prompts()[-1]
    story = next(each for each in exchanges(harken) if each["text"].startswith("once upon a time"))
    assert 0 < len(story["text"]) < 17 * 200
    server.script(Says("As I said: rubber."))
    with terminal(harken, "--continue") as person:
        person.sees("Going on with ")
        person.sees("assistant: Two lines, I see.")
        person.waits_for_prompt()
        person.types("What was it made of?")
        person.sees("As I said: rubber.")
        person.waits_for_prompt()
        person.types("/exit")
        assert person.ends()[0] == 0
    assert "assistant: It needs a **rubber** seal." in server.prompts()[-1]
    assert "user: Which seal does the tap need?" in server.prompts()[-1]
    assert harken.status()["conversations"] == 1
    assert harken("doctor").out.startswith("All agrees")


def test_what_was_typed_comes_back_with_the_arrow_in_the_next_chat_but_no_secret(
    harken: CommandLine, server: ChatServer
) -> None:
    with terminal(harken) as person:
        person.waits_for_prompt()
        person.types("/rag config")
        person.sees("rag_share_places")
        person.types(f"/search {SECRET}")
        person.sees("Nothing was found.")
        person.waits_for_prompt()
        person.presses("d")
        assert person.ends()[0] == 0
    kept = harken.home / "chat-history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text() == '"/rag config"\n'
    assert files_holding(harken.home, SECRET.encode()) == []
    with terminal(harken) as person:
        person.waits_for_prompt()
        person.types("\x1b[A")
        person.sees("rag_share_places")
        person.waits_for_prompt()
        person.types("/exit")
        assert person.ends()[0] == 0


def test_ctrl_c_gives_a_line_up_and_a_backslash_continues_it(harken: CommandLine, server: ChatServer) -> None:
    server.script(Says("Heard."))
    with terminal(harken) as person:
        person.waits_for_prompt()
        person.sends("never said")
        person.sees("never said")
        person.presses("c")
        person.waits_for_prompt()
        person.types("one\\")
        person.types("two")
        person.sees("Heard.")
        person.waits_for_prompt()
        person.presses("d")
        assert person.ends()[0] == 0
    assert [message["text"] for message in exchanges(harken)] == ["one\ntwo", "Heard."]


def test_a_closed_terminal_leaves_a_sound_store_and_no_process(harken: CommandLine, server: ChatServer) -> None:
    server.script(Says("once upon a time " * 500, piece_delay_seconds=0.05, hangs_after=200))
    with terminal(harken) as person:
        person.waits_for_prompt()
        person.types("Tell me a long story")
        person.sees("once upon a time once")
        # As a window does that is closed: the kernel tells whoever the terminal belongs to.
        assert person.closes() == 128 + signal.SIGHUP
        with pytest.raises(ProcessLookupError):
            os.killpg(person.process.pid, 0)
    assert harken("doctor").out.startswith("All agrees")
    asked, answered = exchanges(harken)
    assert asked["text"] == "Tell me a long story"
    assert answered["text"].startswith("once upon a time")
    server.script(Says("Where were we?"))
    assert harken("chat", "--continue", "Go on").out == "Where were we?\n"


def test_a_rebuild_wants_a_typed_yes_and_is_done_by_the_worker_of_the_chat(cli: CommandLine, tmp_path: Path) -> None:
    with EmbeddingServer() as embedding:
        settings = {
            "HARKEN_EMBEDDER": "openai-compatible",
            "HARKEN_EMBEDDING__URL": embedding.url,
            "HARKEN_EMBEDDING__MODEL": "words",
            "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "1",
        }
        harken = replace(cli, settings=settings)
        line = (
            '{"conversation": "c", "role": "user", "content": "the ocelots of the zoo", "ts": "2024-05-01T10:00:00Z"}'
        )
        (tmp_path / "talk.jsonl").write_text(line + "\n", encoding="utf-8")
        harken("import", tmp_path / "talk.jsonl")
        harken("worker", "run", "--until-idle")
        before = len(embedding.requests)
        with terminal(harken) as person:
            person.sees("No language model is configured")
            person.waits_for_prompt()
            person.types("/embeddings rebuild")
            told = person.sees("Type 'yes' to confirm")
            assert "  - Delete 3 existing embeddings" in told
            person.types("no")
            person.sees("Nothing was changed.")
            person.types("/embeddings rebuild exchanges")
            person.sees("Type 'yes' to confirm")
            person.presses("c")
            person.sees("Stopped")
            person.types("/embeddings rebuild conversations")
            person.sees("Type 'yes' to confirm")
            person.types("yes")
            person.sees("Embeddings cleared. The pipeline recreates 1 text.")
            person.waits_for_prompt()
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while harken.status()["embedded"] < 3 and time.monotonic() < deadline:
                time.sleep(0.1)
            shown = ""
            # For a moment after the last vector is kept, it still looks for more.
            while "Embedding Pipeline: IDLE" not in shown and time.monotonic() < deadline:
                person.types("/embeddings")
                shown = person.sees("Conversation summaries: 1")
                person.waits_for_prompt()
            assert "Embedding Pipeline: IDLE" in shown
            person.presses("d")
            assert person.ends()[0] == 0
        assert harken.status()["embedded"] == 3
        assert len(embedding.requests) > before


def test_without_the_extra_a_terminal_is_told_how_to_get_it_and_lines_work_all_the_same(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "prompt_toolkit.py").write_text("raise ModuleNotFoundError('prompt_toolkit')\n", encoding="utf-8")
    lacking = replace(cli, settings={**cli.settings, "PYTHONPATH": str(tmp_path)}, cold=True)
    with terminal(lacking) as person:
        person.sees("Chatting at a terminal needs an extra that is not installed. Try: pip install 'harken[chat]'")
        assert person.ends()[0] == 1
    assert lacking("chat", stdin="/status\n").out.startswith("home ")


def test_each_part_of_memory_that_fails_is_told_below_the_answer(harken: CommandLine, server: ChatServer) -> None:
    with EmbeddingServer() as embedding:
        model = {"HARKEN_EMBEDDER": "openai-compatible", "HARKEN_EMBEDDING__URL": embedding.url}
        sizes = {"HARKEN_EMBEDDING__MODEL": "words", "HARKEN_CONTEXT__SLIDING_WINDOW": "2"}
        told = replace(harken, settings={**harken.settings, **model, **sizes})
        server.script(
            *(Says(f"Seal {number} of the kitchen tap is worn out, of that I am sure.") for number in range(5))
        )
        told("chat", stdin="Which seal does the kitchen tap of the neighbours need?\n")
        told("chat", stdin="".join(f"Which seal does kitchen tap {number} of our house need?\n" for number in range(3)))
        told("worker", "run", "--until-idle")
        embedding.ailing = Reply(500)
        with terminal(told, "--continue") as person:
            person.waits_for_prompt()
            person.types("Which seal of the kitchen tap was worn out?")
            person.sees("Past conversations were searched by words alone: EndpointError.")
            person.sees("Searched without vectors: EndpointError.")
            person.waits_for_prompt()
            person.presses("d")
            assert person.ends()[0] == 0


@pytest.mark.skipif(sys.platform != "linux" or find_spec("onnxruntime") is None, reason="needs /proc and harken[local]")
def test_the_model_of_this_machine_is_loaded_before_the_first_question(cli: CommandLine, tmp_path: Path) -> None:
    line = {
        "conversation": "c",
        "role": "user",
        "content": "The seal of the kitchen tap is worn out, says the plumber.",
    }
    (tmp_path / "talk.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    local = replace(cli, settings={}, cold=True)
    if "Not embedded" in local("import", tmp_path / "talk.jsonl").err:
        pytest.skip("no model on this machine")
    local("worker", "run", "--until-idle")
    with terminal(local) as person:
        person.waits_for_prompt()
        loaded = Path(f"/proc/{person.process.pid}/maps")
        ends = time.monotonic() + TIMEOUT_SECONDS
        while "onnxruntime" not in loaded.read_text(encoding="utf-8"):
            assert time.monotonic() < ends, "nothing was asked, and nothing loaded"
            time.sleep(0.05)
        person.presses("d")
        assert person.ends()[0] == 0
