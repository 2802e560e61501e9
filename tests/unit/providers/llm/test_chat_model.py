from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from harken.errors import (
    ConfigError,
    CredentialError,
    EndpointError,
    EndpointTimeoutError,
    HarkenError,
    PromptError,
    RateLimitError,
    UnknownModelError,
    UsageError,
)
from harken.model.conversations import Role
from harken.providers.chat_model import ChatAnswer, ChatMessage, ChatModel, Finish, TokenUsage, ToolCall, ToolSpec
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.testing import ChatServer, Reply, Says, ScriptedCall

PATIENCE_SECONDS = 120.0
KEY = "sk-very-secret"
ASKED = [ChatMessage(Role.USER, "Where is the cat?")]
NO_CHOICE = b'{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'
SEARCH = ToolSpec("search", "Find words.", {"type": "object", "properties": {"query": {"type": "string"}}})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def open_at() -> Iterator[Callable[..., ChatModel]]:
    """Opens models, and closes them when the test is over."""
    opened: list[ChatModel] = []

    def opening(url: str, vendor: str = "openai", **changes: Any) -> ChatModel:
        values: dict[str, Any] = {"model": "gpt-5-mini", "timeout_seconds": PATIENCE_SECONDS} | changes
        opened.append(open_chat_model(ChatOptions(vendor=vendor, url=url, **values)))
        return opened[-1]

    yield opening
    for model in opened:
        model.close()


Opening = Callable[..., ChatModel]


class TestAnswers:
    def test_an_answer_has_text_tokens_and_price(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("On the mat.", input_tokens=1000, output_tokens=100, cached_tokens=200))
        answer = open_at(server.url).complete(ASKED)
        assert (answer.text, answer.finish, answer.model) == ("On the mat.", Finish.STOP, "gpt-5-mini")
        assert answer.usage == TokenUsage(1000, 100, 200)
        assert answer.price_usd == Decimal("0.000405")

    def test_the_prompt_goes_as_it_is(self, server: ChatServer, open_at: Opening) -> None:
        """But for the system's parts, which go as one message: the template of Qwen takes no second one."""
        server.script(Says("Yes."))
        call = ToolCall("call_7", "search", {"query": "кот"})
        talk = [
            ChatMessage(Role.SYSTEM, "Core memory: none."),
            *ASKED,
            ChatMessage(Role.ASSISTANT, "Let me look.", (call,)),
            ChatMessage(Role.TOOL, "mat", call_id="call_7", tool_name="search"),
            ChatMessage(Role.USER, "Well?"),
        ]
        open_at(server.url).complete(talk, instructions="Be brief.", max_tokens=99, tools=[SEARCH])
        body = server.requests[0].body
        assert server.prompts() == [
            "system: Be brief.\n\nCore memory: none.\nuser: Where is the cat?\n"
            "assistant: Let me look.\ntool: mat\nassistant: (No answer was given.)\nuser: Well?"
        ]
        assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query":"кот"}'}
        assert body["messages"][3]["tool_call_id"] == "call_7"
        assert body["tools"][0]["function"]["parameters"]["properties"] == {"query": {"type": "string"}}
        assert (body["max_completion_tokens"], body["stream"]) == (99, False)

    @pytest.mark.parametrize(
        ("model", "named"),
        [("gpt-5-mini", "max_completion_tokens"), ("o3", "max_completion_tokens"), ("my-own-llama", "max_tokens")],
    )
    def test_the_longest_answer_is_named_as_the_model_knows_it(
        self, server: ChatServer, open_at: Opening, model: str, named: str
    ) -> None:
        """As Azure and gateways to OpenAI want it: its models that think refuse `max_tokens`."""
        server.script(Says("Yes."))
        open_at(server.url, model=model).complete(ASKED)
        assert [key for key in server.requests[0].body if key.startswith("max_")] == [named]

    def test_no_prompt_begins_with_an_answer(self, server: ChatServer, open_at: Opening) -> None:
        """Anthropic refuses it, and so do the templates of Mistral and Gemma."""
        server.script(Says("Yes."), Says("Yes."))
        said = ChatMessage(Role.ASSISTANT, "On the mat.")
        open_at(server.url).complete([ChatMessage(Role.SYSTEM, "Be brief."), said, *ASKED])
        open_at(server.url).complete([*ASKED, said, *ASKED])
        roles = [[message["role"] for message in request.body["messages"]] for request in server.requests]
        assert roles == [["system", "user", "assistant", "user"], ["user", "assistant", "user"]]

    def test_words_stand_between_any_two_questions(self, server: ChatServer, open_at: Opening) -> None:
        """The templates of Mistral and Gemma refuse two in a row, which a turn that failed or was stopped leaves."""
        server.script(Says("Yes."))
        called = ChatMessage(Role.ASSISTANT, "", (ToolCall("c1", "search"),))
        found = ChatMessage(Role.TOOL, "Nothing.", call_id="c1", tool_name="search")
        brief = ChatMessage(Role.SYSTEM, "Be brief.")
        open_at(server.url).complete([brief, *ASKED, *ASKED, called, found, ChatMessage(Role.USER, "And now?")])
        said = [(message["role"], message["content"]) for message in server.requests[0].body["messages"]]
        assert said == [
            ("system", "Be brief."),
            ("user", "Where is the cat?\n\nWhere is the cat?"),
            ("assistant", None),
            ("tool", "Nothing."),
            ("assistant", "(No answer was given.)"),
            ("user", "And now?"),
        ]

    def test_a_tool_call_comes_with_its_arguments(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says(calls=(ScriptedCall("search", {"query": "cat"}, "c1"), ScriptedCall("search", {}, "c2"))))
        answer = open_at(server.url).complete(ASKED, tools=[SEARCH])
        assert answer.tool_calls == (ToolCall("c1", "search", {"query": "cat"}), ToolCall("c2", "search", {}))
        assert (answer.text, answer.finish) == ("", Finish.TOOL_CALLS)

    @pytest.mark.parametrize(
        ("written", "problem"), [('{"query": ', "not JSON"), ("[1]", "no JSON object"), ("[" * 9000, "not JSON")]
    )
    def test_broken_arguments_are_told_and_not_raised(
        self, server: ChatServer, open_at: Opening, written: str, problem: str
    ) -> None:
        server.script(Says(calls=(ScriptedCall("search", written),)))
        (call,) = open_at(server.url).complete(ASKED, tools=[SEARCH]).tool_calls
        assert problem in call.problem
        assert call.arguments == {}

    @pytest.mark.parametrize(
        ("says", "finish"),
        [
            (Says("On the", finish="length"), Finish.LENGTH),
            (Says(refusal="I cannot say."), Finish.REFUSED),
            (Says("", finish="content_filter"), Finish.REFUSED),
        ],
    )
    def test_why_it_stopped_is_said(self, server: ChatServer, open_at: Opening, says: Says, finish: Finish) -> None:
        server.script(says)
        assert open_at(server.url).complete(ASKED).finish is finish

    def test_a_model_that_no_list_has_costs_nothing_on_this_machine(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("Hm."), Says("Hm.", counted=False))
        model = open_at(server.url, "ollama", model="my-own-llama")
        assert model.complete(ASKED).price_usd == 0
        assert model.complete(ASKED).usage == TokenUsage()

    def test_a_model_that_no_list_has_costs_nobody_knows_what_elsewhere(self, open_at: Opening) -> None:
        model = open_at("https://models.example/v1", "ollama", model="my-own-llama")
        assert model.price(TokenUsage(1000, 1000)) is None

    def test_prices_of_the_settings_stand_above_the_list(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("Hm.", input_tokens=1_000_000, output_tokens=10))
        model = open_at(server.url, prices=(Decimal(2), Decimal(5)))
        assert model.complete(ASKED).price_usd == Decimal("2.00005")

    @pytest.mark.parametrize(("said", "thought", "output"), [(10, 500, 510), (510, 500, 510)])
    def test_thoughts_are_paid_for_whether_counted_beside_the_answer_or_in_it(
        self, server: ChatServer, open_at: Opening, said: int, thought: int, output: int
    ) -> None:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hm."}}
        usage = {"prompt_tokens": 100, "completion_tokens": said, "total_tokens": 610}
        usage_of = {**usage, "completion_tokens_details": {"reasoning_tokens": thought}}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "grok", "choices": [choice]}
        server.script(Reply(body=json.dumps({**body, "usage": usage_of}).encode()))
        model = open_at(server.url, prices=(Decimal(0), Decimal(1_000_000)))
        assert model.complete(ASKED).price_usd == output

    def test_threads_may_share_a_model(self, open_at: Opening) -> None:
        def echo(request: Any) -> Says:
            return Says(request.body["messages"][-1]["content"], delay_seconds=0.05)

        with ChatServer(otherwise=echo) as server, ThreadPoolExecutor(4) as pool:
            model = open_at(server.url)
            texts = [f"number {number}" for number in range(8)]
            answers = pool.map(lambda text: model.complete([ChatMessage(Role.USER, text)]).text, texts)
            assert list(answers) == texts

    @pytest.mark.parametrize("talk", [[], [*ASKED, ChatMessage(Role.ASSISTANT, "On the mat.")]])
    def test_a_prompt_without_a_question_is_not_sent(
        self, server: ChatServer, open_at: Opening, talk: list[ChatMessage]
    ) -> None:
        with pytest.raises(UsageError):
            open_at(server.url).complete(talk)
        assert server.requests == []


class TestStreams:
    def test_pieces_come_before_the_whole_answer(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("On the mat.", input_tokens=10, output_tokens=4))
        *pieces, last = open_at(server.url).stream(ASKED)
        assert pieces == ["On", " the", " mat."]
        assert isinstance(last, ChatAnswer)
        assert (last.text, last.usage, last.price_usd) == ("On the mat.", TokenUsage(10, 4), Decimal("0.0000105"))

    @pytest.mark.parametrize(
        ("said", "answered"),
        [
            ("<think>\nA cat,\nthen.</think>\n\nOn the mat.", "On the mat."),
            ("<think> A cat, then.\n</think> On the mat.", "On the mat."),
            ("<think> A cat, </think>On the mat.", "On the mat."),
            ("<think> A cat, which", ""),
            ("Models write <think> and </think> so.", "Models write <think> and </think> so."),
            ("It ends with `</think>` then.", "It ends with `</think>` then."),
            ("<th>On the mat.</th>", "<th>On the mat.</th>"),
        ],
    )
    def test_what_a_local_model_thinks_is_no_part_of_its_answer(
        self, server: ChatServer, open_at: Opening, said: str, answered: str
    ) -> None:
        """However its server cuts it into pieces, or sends it whole."""
        server.script(Says(said), Says(said))
        model = open_at(server.url)
        *pieces, last = model.stream(ASKED)
        assert isinstance(last, ChatAnswer)
        assert ("".join(map(str, pieces)), last.text, model.complete(ASKED).text) == (answered,) * 3

    @pytest.mark.parametrize("said", ["A cat, then.\n</think>\n\nOn the mat.", "</think>On the mat."])
    def test_what_it_thinks_is_none_of_its_answer_where_the_prompt_has_their_beginning(
        self, server: ChatServer, open_at: Opening, said: str
    ) -> None:
        """What has come in pieces by then cannot be taken back; what is kept is the whole answer."""
        server.script(Says(said), Says(said))
        model = open_at(server.url)
        *_, last = model.stream(ASKED)
        assert isinstance(last, ChatAnswer)
        assert (last.text, model.complete(ASKED).text) == ("On the mat.",) * 2

    def test_pieces_come_one_by_one(self, server: ChatServer, open_at: Opening) -> None:
        # The rest never comes.
        server.script(Says("a b c d e", hangs_after=3))
        stream = open_at(server.url).stream(ASKED)
        assert [next(stream), next(stream)] == ["a", " b"]
        stream.close()  # type: ignore[attr-defined]

    def test_tokens_that_are_counted_anew_with_each_piece_are_booked_once(
        self, server: ChatServer, open_at: Opening
    ) -> None:
        """As Gemini's compatible endpoint, xAI and Perplexity do."""
        pieces = []
        for number, word in enumerate(("On", " the", " mat."), start=1):
            usage = {"prompt_tokens": 10, "completion_tokens": number, "total_tokens": 10 + number}
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": "stop" if number == 3 else None}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            pieces.append(b"data: " + json.dumps({**chunk, "usage": usage}).encode() + b"\n\n")
        server.script(Reply(pieces=(*pieces, b"data: [DONE]\n\n")))
        *_, last = open_at(server.url).stream(ASKED)
        assert isinstance(last, ChatAnswer)
        assert (last.text, last.usage) == ("On the mat.", TokenUsage(10, 3))
        assert server.requests[0].body["stream_options"] == {"include_usage": True}

    def test_tool_calls_are_put_together(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("Let me look.", calls=(ScriptedCall("search", {"query": "cat"}, "c1"),)))
        *_, last = open_at(server.url).stream(ASKED, tools=[SEARCH])
        assert isinstance(last, ChatAnswer)
        assert last.tool_calls == (ToolCall("c1", "search", {"query": "cat"}),)
        assert last.finish is Finish.TOOL_CALLS

    @pytest.mark.parametrize("number", [0, None])
    def test_tool_calls_of_one_number_are_told_apart_by_their_ids(
        self, server: ChatServer, open_at: Opening, number: int | None
    ) -> None:
        def chunk(call: dict[str, Any]) -> bytes:
            delta = {"tool_calls": [{"index": number, "type": "function", **call}]}
            choices = [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]
            body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
            return b"data: " + json.dumps(body).encode() + b"\n\n"

        calls = [{"id": key, "function": {"name": "search", "arguments": json.dumps({"query": key})}} for key in "abc"]
        calls.append({"function": {"arguments": " "}})
        server.script(Reply(pieces=(*map(chunk, calls[: 3 if number is None else 4]), b"data: [DONE]\n\n")))
        *_, answer = open_at(server.url, "ollama").stream(ASKED, tools=[SEARCH])
        assert isinstance(answer, ChatAnswer)
        assert answer.tool_calls == tuple(ToolCall(key, "search", {"query": key}) for key in "abc")

    @pytest.mark.parametrize("later", ["a", "", None])
    def test_a_call_that_is_named_with_each_piece_of_it_has_its_name_once(
        self, server: ChatServer, open_at: Opening, later: str | None
    ) -> None:
        def chunk(arguments: str, uid: str | None = "a") -> bytes:
            call = {"index": 0, "id": uid, "function": {"name": "search", "arguments": arguments}}
            choices = [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]
            body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
            return b"data: " + json.dumps(body).encode() + b"\n\n"

        server.script(Reply(pieces=(chunk('{"query": '), chunk('"cat"}', later), b"data: [DONE]\n\n")))
        *_, answer = open_at(server.url).stream(ASKED, tools=[SEARCH])
        assert isinstance(answer, ChatAnswer)
        assert answer.tool_calls == (ToolCall("a", "search", {"query": "cat"}),)

    def test_a_stream_may_be_left_early(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("a b c d", hangs_after=2), Says("well again"))
        model = open_at(server.url)
        stream = model.stream(ASKED)
        assert next(stream) == "a"
        stream.close()  # type: ignore[attr-defined]
        assert model.complete(ASKED).text == "well again"

    def test_a_stream_that_breaks_is_an_error_after_its_pieces(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("a b c d", breaks_after=3))
        stream = open_at(server.url).stream(ASKED)
        assert [next(stream), next(stream)] == ["a", " b"]
        with pytest.raises(EndpointError, match="cannot be reached"):
            next(stream)


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "kind", "fix"),
        [
            (400, PromptError, "rejects the request"),
            (401, CredentialError, r"set llm\.api_key or HARKEN_LLM__API_KEY"),
            (402, CredentialError, "no credit"),
            (403, CredentialError, r"set llm\.api_key"),
            (404, UnknownModelError, r"check llm\.model"),
            (429, RateLimitError, "fewer requests"),
            (500, EndpointError, "status 500"),
            (503, EndpointError, "status 503"),
        ],
    )
    def test_a_refusal_says_what_to_do_and_quotes_nothing(
        self, server: ChatServer, open_at: Opening, status: int, kind: type[HarkenError], fix: str
    ) -> None:
        server.script(*[Reply(status, b'{"error": {"message": "you asked: Where is the cat?"}}')] * 2)
        model = open_at(server.url, api_key=KEY)
        for asking in (lambda: model.complete(ASKED), lambda: list(model.stream(ASKED))):
            with pytest.raises(kind, match=fix) as caught:
                asking()
            assert "openai:gpt-5-mini at http://127.0.0.1" in str(caught.value)
            shown = "".join(traceback.format_exception(caught.value))
            assert "you asked" not in shown
            assert KEY not in shown

    @pytest.mark.parametrize(
        ("status", "said", "fix"),
        [
            (400, "registry.ollama.ai/library/gemma:2b does not support tools", "takes no tools with status 400"),
            (400, '"auto" tool choice requires --enable-auto-tool-choice', "takes no tools"),
            (500, "tools param requires --jinja flag", "takes no tools"),
            (404, "No endpoints found that support tool use.", "takes no tools"),
            (400, "the request exceeds the available context size.", r"less, or lower context\.default_budget_tokens"),
            (400, "This model's maximum context length is 4096 tokens.", r"context\.default_budget_tokens"),
            (400, "litellm: prompt is too long: 210000 tokens > 200000 maximum", r"context\.default_budget_tokens"),
            (400, "The input token count (1200000) exceeds the maximum.", r"context\.default_budget_tokens"),
        ],
    )
    def test_what_a_small_server_cannot_take_is_said_with_what_to_change(
        self, server: ChatServer, open_at: Opening, status: int, said: str, fix: str
    ) -> None:
        server.script(Reply(status, json.dumps({"error": {"message": said, "code": status}}).encode()))
        with pytest.raises(PromptError, match=fix) as caught:
            open_at(server.url).complete(ASKED)
        assert said not in str(caught.value)

    @pytest.mark.parametrize(
        ("said", "fix"),
        [
            ("API key not valid. Please pass a valid API key.", r"API key with status 400: set llm\.api_key"),
            ("Incorrect API key provided: xa***.", r"API key with status 400: set llm\.api_key"),
            ("You have reached your specified API usage limits.", "no credit left"),
        ],
    )
    def test_a_key_or_an_account_that_is_at_fault_is_no_fault_of_the_prompt(
        self, server: ChatServer, open_at: Opening, said: str, fix: str
    ) -> None:
        """Gemini's compatible endpoint, xAI and Anthropic say so with the status of a bad request."""
        server.script(Reply(400, json.dumps({"error": {"message": said, "code": 400}}).encode()))
        with pytest.raises(CredentialError, match=fix):
            open_at(server.url).complete(ASKED)

    def test_nothing_is_tried_twice(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Reply(status=503), Reply(hang_up=True), Says("well again"))
        model = open_at(server.url)
        for _ in range(2):
            with pytest.raises(EndpointError):
                model.complete(ASKED)
        assert model.complete(ASKED).text == "well again"
        assert len(server.requests) == 3

    def test_a_rate_limit_says_when_to_come_back(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Reply(status=429, headers=(("Retry-After", "7"),)), Reply(status=429))
        model = open_at(server.url)
        with pytest.raises(RateLimitError, match="for 7 s") as caught:
            model.complete(ASKED)
        assert caught.value.retry_after_seconds == 7
        with pytest.raises(RateLimitError) as caught:
            model.complete(ASKED)
        assert caught.value.retry_after_seconds is None

    def test_a_model_that_takes_too_long_is_given_up(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("late", delay_seconds=600), Says("late", delay_seconds=600))
        model = open_at(server.url, timeout_seconds=0.3)
        with pytest.raises(EndpointTimeoutError, match=r"within 0\.3 s: raise llm\.timeout_seconds"):
            model.complete(ASKED)
        with pytest.raises(EndpointTimeoutError):
            list(model.stream(ASKED))

    def test_an_endpoint_that_is_down_is_an_error(self, server: ChatServer, open_at: Opening) -> None:
        model = open_at(server.url)
        server.stop()
        with pytest.raises(EndpointError, match="cannot be reached"):
            model.complete(ASKED)

    @pytest.mark.parametrize(
        "body", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', NO_CHOICE]
    )
    def test_an_answer_that_is_none_is_an_error(self, server: ChatServer, open_at: Opening, body: bytes) -> None:
        server.script(Reply(body=body))
        with pytest.raises(EndpointError, match="no chat completion"):
            open_at(server.url).complete(ASKED)

    def test_closing_ends_what_is_under_way(self, server: ChatServer, open_at: Opening) -> None:
        server.script(Says("late", delay_seconds=600))
        model = open_at(server.url, timeout_seconds=PATIENCE_SECONDS)
        caught: list[HarkenError] = []

        def ask() -> None:
            with pytest.raises(EndpointError, match="closed during the call") as raised:
                model.complete(ASKED)
            caught.append(raised.value)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        model.close()
        thread.join(PATIENCE_SECONDS)
        assert len(caught) == 1

    @pytest.mark.parametrize("vendor", ["anthropic", "google"])
    def test_the_other_vendors_fail_in_the_same_way(self, server: ChatServer, open_at: Opening, vendor: str) -> None:
        model = open_at(server.url.removesuffix("/v1"), vendor, api_key=KEY)
        # The server knows nothing of their protocols, which is a model that is not there.
        with pytest.raises(UnknownModelError):
            model.complete(ASKED)
        assert len(server.requests) == 1
        assert any(KEY in value for value in server.requests[0].headers.values())
        with pytest.raises(UnknownModelError):
            list(model.stream(ASKED))
        assert "stream_options" not in server.requests[1].body
        url = server.url.removesuffix("/v1")
        server.stop()
        with pytest.raises(EndpointError, match="cannot be reached"):
            open_at(url, vendor, api_key=KEY).complete(ASKED)


class TestOpening:
    def test_the_key_is_sent_as_a_bearer_token(self, open_at: Opening) -> None:
        with ChatServer(Says("hello"), api_key=KEY) as server:
            assert open_at(server.url, api_key=KEY).complete(ASKED).text == "hello"
            with pytest.raises(CredentialError):
                open_at(server.url).complete(ASKED)

    def test_no_key_of_the_environment_is_sent(
        self, server: ChatServer, open_at: Opening, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("OPENAI_API_KEY", "OLLAMA_API_KEY", "OPENAI_ORG_ID"):
            monkeypatch.setenv(name, KEY)
        server.script(Says("hello"), Says("hello"))
        for vendor in ("openai", "ollama"):
            open_at(server.url, vendor).complete(ASKED)
        assert all(KEY not in value for request in server.requests for value in request.headers.values())

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"vendor": "acme"}, r"no vendor 'acme'; there are: openai, anthropic, google, ollama"),
            ({"url": None}, "needs an API key: set llm.api_key or HARKEN_LLM__API_KEY or OPENAI_API_KEY"),
            ({"url": None, "vendor": "anthropic"}, "ANTHROPIC_API_KEY"),
            ({"url": "localhost:11434/v1"}, "must begin with http"),
            ({"url": "http://me:secret@localhost/v1"}, "must hold no key"),
            ({"url": "https://a.openai.azure.com/openai?api-version=2024-10-21"}, "/openai/v1 needs no api-version"),
            ({"api_key": "ключ"}, "characters that no header can carry"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
        self, open_at: Opening, changes: dict[str, Any], problem: str
    ) -> None:
        values = {"url": "http://localhost:1/v1"} | changes
        with pytest.raises(ConfigError, match=problem) as caught:
            open_at(values.pop("url"), **values)
        assert "secret" not in str(caught.value)
