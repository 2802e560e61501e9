from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from harken.testing import ChatServer, Reply, Says, ScriptedCall

BODY: dict[str, Any] = {"model": "any", "messages": [{"role": "user", "content": "one two"}]}


def _post(server: ChatServer, **changes: Any) -> httpx.Response:
    return httpx.post(server.url + "/chat/completions", json=BODY | changes, timeout=120)


def _events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "text/event-stream"
    *chunks, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def test_an_answer_is_in_openais_form() -> None:
    with ChatServer(Says("Yes.", output_tokens=2)) as server:
        answer = _post(server).json()
    assert (answer["object"], answer["model"]) == ("chat.completion", "any")
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Yes."}
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["total_tokens"] == 4


def test_a_stream_is_the_same_answer_in_pieces() -> None:
    says = Says("Two cats.", calls=(ScriptedCall("search", {"query": "cats"}, "c1"),))
    with ChatServer(says, says) as server:
        whole = _post(server).json()
        events = _events(_post(server, stream=True, stream_options={"include_usage": True}))
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Two cats."
    assert "".join(call["function"]["arguments"] for call in calls) == '{"query": "cats"}'
    assert [call["index"] for call in calls] == [0, 0]
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-1]["usage"] == whole["usage"]


def test_usage_is_streamed_only_when_it_is_asked_for() -> None:
    with ChatServer(Says("Yes.")) as server:
        assert all("usage" not in event for event in _events(_post(server, stream=True)))


def test_the_script_is_played_in_turn_and_then_refuses() -> None:
    with ChatServer(Says("one"), Reply(status=429, headers=(("Retry-After", "3"),))) as server:
        server.script(Says("two"))
        answers = [_post(server) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 429, 200, 500]
    assert answers[1].headers["retry-after"] == "3"
    assert answers[2].json()["choices"][0]["message"]["content"] == "two"


def test_what_the_script_does_not_reach_may_be_answered_by_a_function() -> None:
    with ChatServer(Says("one"), otherwise=lambda request: Says(request.body["model"].upper())) as server:
        texts = [_post(server).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert texts == ["one", "ANY", "ANY"]


def test_requests_are_kept() -> None:
    with ChatServer(Says("one")) as server:
        _post(server)
    assert server.requests[0].body == BODY
    assert server.prompts() == ["user: one two"]


@pytest.mark.parametrize("changes", [{"model": ""}, {"messages": []}])
def test_what_is_no_request_takes_nothing_from_the_script(changes: dict[str, Any]) -> None:
    with ChatServer(Says("one")) as server:
        assert _post(server, **changes).status_code == 400
        assert httpx.post(server.url + "/elsewhere", json=BODY, timeout=120).status_code == 404
        assert _post(server).status_code == 200


def test_the_key_is_insisted_on() -> None:
    with ChatServer(Says("one"), api_key="k") as server:
        assert _post(server).status_code == 401


def test_a_stream_can_break() -> None:
    with ChatServer(Says("one two three", breaks_after=2)) as server, pytest.raises(httpx.RemoteProtocolError):
        _post(server, stream=True)


def test_a_stream_can_fall_silent_until_the_server_stops() -> None:
    with ChatServer(Says("one two three", hangs_after=2)) as server:
        asked = {"json": BODY | {"stream": True}, "timeout": 120}
        with httpx.stream("POST", server.url + "/chat/completions", **asked) as answer:
            told = answer.iter_lines()
            assert '"content": "one"' in [next(told) for _ in range(3)][-1]
            server.stop()
            with pytest.raises(httpx.RemoteProtocolError):
                list(told)


def test_a_client_that_is_gone_before_it_is_taken_holds_no_server_up() -> None:
    with ChatServer(Says("one")) as server:
        assert server._server is not None
        taking = threading.Thread(target=server._server._handle_request_noblock, daemon=True)
        taking.start()
        taking.join(60)
        assert not taking.is_alive()
        assert _post(server).status_code == 200
