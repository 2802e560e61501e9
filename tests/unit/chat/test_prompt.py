"""Whatever stands in a context, what is sent has each call answered right behind it, and nothing answered uncalled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.chat.rounds import to_model, within
from harken.context.layers import ContextMessage
from harken.model.conversations import MessageType, Role
from harken.providers import chat_model
from harken.text import tokens

_CALL_IDS = st.sampled_from(["a", "b", "", None])
_MESSAGES = st.lists(
    st.one_of(
        st.builds(
            ContextMessage, st.sampled_from([Role.USER, Role.SYSTEM, Role.ASSISTANT]), st.sampled_from(["x", "y"])
        ),
        st.builds(
            ContextMessage,
            st.just(Role.ASSISTANT),
            st.sampled_from(['{"q": 1}', "ls -l", "[1]"]),
            st.just(MessageType.TOOL_CALL),
            call_id=_CALL_IDS,
            tool_name=st.sampled_from(["shell", "functions.exec", None]),
        ),
        st.builds(
            ContextMessage, st.just(Role.TOOL), st.just("done"), st.just(MessageType.TOOL_RESULT), call_id=_CALL_IDS
        ),
    ),
    max_size=12,
)


@given(_MESSAGES)
def test_every_call_is_answered_at_once_and_once(messages: list[ContextMessage]) -> None:
    sent = to_model(messages)
    waiting: list[str] = []
    seen: set[str] = set()
    for message in sent:
        if message.role is Role.TOOL:
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call.id for call in message.tool_calls]
        assert not seen & set(waiting)
        seen |= set(waiting)
        assert all(call.name.replace("_", "").isalnum() for call in message.tool_calls)
    assert not waiting


@given(_MESSAGES)
def test_everybodys_words_are_sent_in_their_order(messages: list[ContextMessage]) -> None:
    said = [m.content for m in messages if m.type is MessageType.TEXT]
    sent = [part for m in to_model(messages) if m.role is not Role.TOOL for part in m.text.split("\n\n") if part]
    assert sent == said


def test_the_oldest_results_give_way_and_the_newest_stays_whole() -> None:
    results = [chat_model.ChatMessage(Role.TOOL, f"line {n}\n" * 400, call_id=str(n)) for n in range(4)]
    room = 3 * tokens.estimate(results[0].text)
    fitted = within(results, room)
    assert sum(tokens.estimate(message.text) for message in fitted) <= room
    assert fitted[-1] == results[-1]
    assert len(fitted[0].text) < len(results[0].text)
    assert fitted[2:] == results[2:]
