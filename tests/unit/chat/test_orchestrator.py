"""One exchange of a chat, through the real client: what is said, sent, recorded and booked, well or not."""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harken.chat.rounds import TextPiece, ToolEnded, ToolStarted, TurnEvent
from harken.chat.turn import Turn
from harken.context.builder import ContextSession
from harken.engine import Harken
from harken.errors import ConfigError, NotFoundError, UsageError
from harken.model.conversations import Exchange, ExchangeStatus, Message
from harken.storage.enrichment.spend import spent_in_all, spent_on_item
from harken.storage.past import newest_exchanges
from harken.testing import ChatServer, Reply, Says
from harken.testing.endpoints import ScriptedCall
from recorded import Clock

LOOK = ScriptedCall("search_history", {"query": "kitchen tap"})


def said(harken: Harken, session: ContextSession) -> list[tuple[str, str, str]]:
    return [(m.role.value, m.type.value, m.text) for m in messages(harken, session)]


def messages(harken: Harken, session: ContextSession) -> tuple[Message, ...]:
    return harken.show(session.conversation_uid).messages


def last_exchange(harken: Harken, session: ContextSession) -> Exchange:
    with harken.store.reading() as tx:
        return next(newest_exchanges(tx, session.conversation_uid))


def said_in(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextPiece))


def roles(server: ChatServer, request: int = -1) -> list[str]:
    return [message["role"] for message in server.requests[request].body["messages"]]


def is_valid(server: ChatServer, request: int = -1) -> bool:
    """Every call of a prompt has its results right behind it, and no result stands without a call."""
    waiting: set[str] = set()
    for message in server.requests[request].body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.discard(message["tool_call_id"])
        elif waiting:
            return False
        waiting |= {call["id"] for call in message.get("tool_calls") or ()}
    return not waiting


def test_question_and_answer_are_recorded_and_the_exchange_is_completed(harken: Harken, server: ChatServer) -> None:
    server.script(Says("It is noon."))
    session = harken.chat.begin()
    heard: list[TurnEvent] = []
    turn = harken.chat.turn(session, "What time is it?", heard.append)
    assert (turn.text, turn.status, turn.error, turn.stopped) == ("It is noon.", ExchangeStatus.COMPLETED, None, False)
    assert "".join(event.text for event in heard if isinstance(event, TextPiece)) == "It is noon."
    assert said(harken, session) == [("user", "text", "What time is it?"), ("assistant", "text", "It is noon.")]
    assert [message.trust.value for message in messages(harken, session)] == ["owner", "agent"]
    assert last_exchange(harken, session).status is ExchangeStatus.COMPLETED
    assert harken.show(session.conversation_uid).conversation.channel == "chat"


def test_the_next_turn_sees_the_one_before_and_no_question_twice(harken: Harken, server: ChatServer) -> None:
    server.script(Says("Hello Maya."), Says("Maya."))
    session = harken.chat.begin()
    harken.chat.turn(session, "I am Maya.")
    harken.chat.turn(session, "Who am I?")
    assert server.prompts()[1].splitlines()[-3:] == ["user: I am Maya.", "assistant: Hello Maya.", "user: Who am I?"]
    assert server.prompts()[1].count("Who am I?") == 1


def test_calls_and_results_are_recorded_with_their_ids_and_names(harken: Harken, server: ChatServer) -> None:
    server.script(Says("I look.", calls=(LOOK, ScriptedCall("core_memory_get"))), Says("Nothing."))
    session = harken.chat.begin()
    heard: list[TurnEvent] = []
    turn = harken.chat.turn(session, "What about the kitchen tap?", heard.append)
    assert turn.tool_calls == 2
    kinds = [(m.type.value, m.call_id, m.tool_name, m.trust.value) for m in messages(harken, session)][1:]
    assert kinds == [
        ("text", None, None, "agent"),
        ("tool_call", "call_1", "search_history", "agent"),
        ("tool_call", "call_2", "core_memory_get", "agent"),
        ("tool_result", "call_1", "search_history", "tool"),
        ("tool_result", "call_2", "core_memory_get", "tool"),
        ("text", None, None, "agent"),
    ]
    assert [type(event) for event in heard if not isinstance(event, TextPiece)] == [ToolStarted, ToolEnded] * 2
    assert is_valid(server)
    assert roles(server) == ["system", "user", "assistant", "tool", "tool"]
    assert turn.usage.input_tokens > 0
    assert turn.price_usd is not None


def test_thoughts_and_signatures_go_back_with_the_results_and_are_not_recorded(
    harken: Harken, server: ChatServer
) -> None:
    """DeepSeek and Kimi refuse a round without the thoughts before it, Gemini 3 one without its signature."""
    signed = {"google": {"thought_signature": "c2lnbmVk"}}
    called = {"id": "c1", "index": 0, "type": "function", "function": {"name": "core_memory_get", "arguments": "{}"}}
    deltas = {"reasoning_content": "I had better look."}, {"tool_calls": [{**called, "extra_content": signed}]}, {}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"}]}
        for delta in deltas
    ]
    server.script(Reply(pieces=tuple(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)))
    server.script(Says("Nothing."), Says("No."))
    session = harken.chat.begin()
    harken.chat.turn(session, "What do you know of me?")
    _, _, answer, result = server.requests[1].body["messages"]
    assert (answer["reasoning_content"], answer["tool_calls"][0]["extra_content"]) == ("I had better look.", signed)
    assert (answer["tool_calls"][0]["id"], result["tool_call_id"]) == ("c1", "c1")
    harken.chat.turn(session, "Sure?")
    assert "had better" not in "".join(text for *_, text in said(harken, session)) + server.prompts()[2]


def test_half_a_character_in_an_answer_does_not_end_the_turn(harken: Harken, server: ChatServer) -> None:
    """As where a server cuts one in two, between two pieces of its stream."""
    server.script(Says("I look \ud83d", calls=(LOOK,)), Says("Nothing."))
    turn = harken.chat.turn(harken.chat.begin(), "What about the kitchen tap?")
    assert (turn.text, turn.error) == ("Nothing.", None)
    assert "I look \ufffd" in server.prompts()[1]


def test_a_failing_model_leaves_the_question_recorded_and_the_next_turn_goes_on(
    harken: Harken, server: ChatServer
) -> None:
    server.script(Reply(status=503), Says("Here I am."))
    session = harken.chat.begin()
    turn = harken.chat.turn(session, "Are you there?")
    assert (turn.status, turn.text) == (ExchangeStatus.FAILED, "")
    assert turn.error is not None
    assert turn.error.startswith("EndpointError: ")
    assert last_exchange(harken, session).error == turn.error
    assert harken.chat.turn(session, "And now?").text == "Here I am."
    assert [text for *_, text in said(harken, session)] == ["Are you there?", "And now?", "Here I am."]
    assert last_exchange(harken, session).number == 2


def test_an_answer_that_breaks_off_is_kept_and_marked(harken: Harken, server: ChatServer) -> None:
    server.script(Says("One two three four.", breaks_after=4))
    session = harken.chat.begin()
    turn = harken.chat.turn(session, "Count.")
    assert turn.status is ExchangeStatus.FAILED
    assert turn.text.startswith("One two")
    assert dict(messages(harken, session)[-1].metadata) == {"cut": "failed"}


def test_stopped_it_ends_at_once_and_keeps_what_was_said(harken: Harken, server: ChatServer) -> None:
    # It is silent after the second word, so only the stop can end it.
    server.script(Says("One two three four five six seven.", hangs_after=3))
    session, stop = harken.chat.begin(), threading.Event()
    heard: list[TurnEvent] = []

    def listen(event: TurnEvent) -> None:
        heard.append(event)
        if said_in(heard) == "One two":
            threading.Timer(0.1, stop.set).start()

    turn = harken.chat.turn(session, "Count.", listen, stop)
    assert (turn.stopped, turn.status, turn.error) == (True, ExchangeStatus.COMPLETED, None)
    last = messages(harken, session)[-1]
    assert last.text == turn.text == said_in(heard) == "One two"
    assert dict(last.metadata) == {"cut": "stopped"}
    with harken.store.reading() as tx:
        assert spent_on_item(tx, "chat", last.exchange_uid).unsettled == 1


def test_stopped_before_a_word_it_fails_and_says_why(harken: Harken, server: ChatServer) -> None:
    server.script(Says("Late.", delay_seconds=30), Says("Well?"))
    session, stop = harken.chat.begin(), threading.Event()

    def stop_when_asked() -> None:
        while not server.requests:
            time.sleep(0.01)
        stop.set()

    threading.Thread(target=stop_when_asked).start()
    turn = harken.chat.turn(session, "Count.", stop=stop)
    assert (turn.stopped, turn.status) == (True, ExchangeStatus.FAILED)
    assert "Stopped by the user" in (turn.error or "")
    assert len(messages(harken, session)) == 1
    assert harken.chat.turn(session, "Again.").text == "Well?"


def test_without_a_model_it_says_how_to_name_one_and_records_nothing(tmp_path: Path) -> None:
    with Harken(tmp_path / "home", env={}, settings={"embedder": "none"}) as harken:
        assert harken.chat.model_name is None
        with pytest.raises(ConfigError, match=r"llm\.model .*OPENAI_API_KEY.*pip install 'harken\[llm\]'"):
            harken.chat.turn(harken.chat.begin(), "Hello?")
        assert harken.maintenance.status().counts.messages == 0


def test_a_key_that_is_missing_is_said_before_anything_is_recorded(tmp_path: Path) -> None:
    with Harken(tmp_path / "home", env={}, settings={"embedder": "none", "llm.model": "openai:any"}) as harken:
        assert harken.chat.model_name == "openai:any"
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            harken.chat.turn(harken.chat.begin(), "Hello?")
        assert harken.maintenance.status().counts.messages == 0


def test_at_the_days_limit_a_turn_fails_and_the_next_day_goes_on(
    open_chat: Callable[..., Harken], server: ChatServer, clock: Clock
) -> None:
    server.script(Says("Yes.", input_tokens=2000, output_tokens=1000), Says("Tomorrow."))
    with open_chat(**{"llm.max_usd_per_day": Decimal("0.006")}) as harken:
        session = harken.chat.begin()
        assert harken.chat.turn(session, "One?").price_usd == Decimal("0.004")
        turn = harken.chat.turn(session, "Two?")
        assert turn.status is ExchangeStatus.FAILED
        assert "llm.max_usd_per_day is reached" in (turn.error or "")
        assert turn.price_usd == 0
        assert len(server.requests) == 1
        clock.go_on(days=1)
        assert harken.chat.turn(session, "Three?").text == "Tomorrow."
        with harken.store.reading() as tx:
            assert spent_in_all(tx).calls == 2


def test_tools_are_called_so_many_rounds_and_then_an_answer_is_asked_for(
    open_chat: Callable[..., Harken], server: ChatServer
) -> None:
    server.script(*[Says(calls=(LOOK,))] * 3, Says("Enough."))
    with open_chat(**{"chat.max_tool_rounds": 2}) as harken:
        session = harken.chat.begin()
        assert harken.chat.turn(session, "Look around.").text == "Enough."
        assert "2 rounds of tools are used up" in server.prompts()[-1]
        assert is_valid(server)
        server.script(*[Says(calls=(LOOK,))] * 4)
        turn = harken.chat.turn(session, "Once more.")
        assert turn.status is ExchangeStatus.FAILED
        assert "chat.max_tool_rounds (2)" in (turn.error or "")
        assert len(server.requests) == 8


def test_calls_that_a_crash_left_without_a_result_are_not_sent(harken: Harken, server: ChatServer) -> None:
    session = harken.chat.begin()
    server.script(Says("Well."), Says(calls=(LOOK, ScriptedCall("core_memory_get"))))

    def die(event: TurnEvent) -> None:
        if isinstance(event, ToolEnded):
            raise KeyboardInterrupt

    harken.chat.turn(session, "Hello.")
    with pytest.raises(KeyboardInterrupt):
        harken.chat.turn(session, "Look.", die)
    assert [kind for _, kind, _ in said(harken, session)][-3:] == ["tool_call", "tool_call", "tool_result"]
    assert last_exchange(harken, session).status is ExchangeStatus.FAILED
    server.script(Says("Going on."))
    assert harken.chat.turn(session, "And now?").text == "Going on."
    assert is_valid(server)
    assert [call["id"] for m in server.requests[-1].body["messages"] for call in m.get("tool_calls") or ()] == [
        "call_1"
    ]


def test_secrets_in_an_error_and_in_what_is_said_are_taken_out(harken: Harken, server: ChatServer) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 6
    server.script(
        Says(f"Your key is {secret}."),
        Says(calls=(ScriptedCall("core_memory_update", {"section": secret}),)),
        Says("?"),
    )
    session = harken.chat.begin()
    harken.chat.turn(session, f"Keep {secret} for me.")
    harken.chat.turn(session, "And put it into core memory.")
    assert secret not in "".join(text for *_, text in said(harken, session))
    kept = list((harken.home / "conversations").rglob("*.jsonl"))
    assert kept
    assert not any(secret in file.read_text(encoding="utf-8") for file in kept)


def test_two_turns_at_once_are_refused_and_other_conversations_go_on(harken: Harken, server: ChatServer) -> None:
    # The first goes on until it is stopped.
    server.script(Says("Slow and more", hangs_after=2), Says("Quick."))
    session, other, stop = harken.chat.begin(), harken.chat.begin(), threading.Event()
    done: list[Turn] = []
    thread = threading.Thread(target=lambda: done.append(harken.chat.turn(session, "One?", stop=stop)))
    thread.start()
    while not server.requests:
        time.sleep(0.01)
    with pytest.raises(UsageError, match="goes on"):
        harken.chat.turn(session, "Two?")
    assert harken.chat.turn(other, "Three?").text == "Quick."
    stop.set()
    thread.join()
    assert done[0].stopped


def test_a_conversation_is_resumed_in_its_newest_segment(harken: Harken, server: ChatServer) -> None:
    server.script(Says("Noted."), Says("Nothing yet."))
    session = harken.chat.begin()
    harken.chat.turn(session, "My train leaves at seven.")
    harken.recorder.new_segment(session.conversation_uid)
    harken.chat.turn(harken.chats.find(session.conversation_uid), "What did I say?")
    assert "My train" not in server.prompts()[-1]
    assert len(said(harken, session)) == 4


def test_a_forked_process_has_connections_of_its_own(harken: Harken, server: ChatServer) -> None:
    server.script(Says("One."), Says("Two."), Says("Three."))
    session = harken.chat.begin()
    assert harken.chat.turn(session, "First?").text == "One."
    child = multiprocessing.get_context("fork").Process(target=_ask_in_a_fork, args=(harken,))
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which is what this is about.
        warnings.simplefilter("ignore")
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert harken.chat.turn(session, "Third?").text == "Three."


def _ask_in_a_fork(harken: Harken) -> None:
    assert harken.chat.turn(harken.chat.begin(), "Second?").text == "Two."


def test_what_is_no_turn_is_refused(harken: Harken) -> None:
    with pytest.raises(UsageError, match="words"):
        harken.chat.turn(harken.chat.begin(), " ")
    with pytest.raises(NotFoundError, match=r"any more\. Begin another: harken chat"):
        harken.chat.turn(ContextSession("no-such-conversation", None), "Hello?")


def test_a_preview_records_nothing_and_is_what_a_turn_sends(harken: Harken, server: ChatServer) -> None:
    server.script(Says("Yes."))
    session = harken.chat.begin()
    preview = harken.chat.context(session, "Do you see me?")
    assert harken.maintenance.status().counts.messages == 0
    turn = harken.chat.turn(session, "Do you see me?")
    assert [m.as_dict() for m in preview.messages] == [m.as_dict() for m in turn.context.messages]


def test_a_settings_prompt_stands_in_place_of_our_own(open_chat: Callable[..., Harken], server: ChatServer) -> None:
    server.script(Says("Arr."))
    with open_chat(**{"context.system_prompt": "You are a pirate."}) as harken:
        harken.chat.turn(harken.chat.begin(), "Hello?")
    first: dict[str, Any] = server.requests[0].body["messages"][0]
    assert (first["role"], first["content"]) == ("system", "You are a pirate.")
