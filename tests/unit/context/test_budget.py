from __future__ import annotations

from itertools import count

import pytest

from harken.context.builder import blocks_of, fit, is_shown, messages_in, squeezed
from harken.context.layers import last_asked, recognize
from harken.context.render import core_block
from harken.errors import UsageError
from harken.model.conversations import CoreFact, Message, MessageType, Role
from recorded import NOON

_NUMBERS = count()


def said(
    text: str, role: Role = Role.USER, kind: MessageType = MessageType.TEXT, call_id: str | None = None
) -> Message:
    return Message(f"m{next(_NUMBERS)}", "c", "s", "e", role, kind, text, NOON, call_id=call_id)


def call(call_id: str | None = "1") -> Message:
    return said(f"call {call_id}", Role.ASSISTANT, MessageType.TOOL_CALL, call_id)


def result(call_id: str | None = "1") -> Message:
    return said(f"result {call_id}", Role.TOOL, MessageType.TOOL_RESULT, call_id)


def shapes(*messages: Message) -> list[list[str]]:
    return [[message.text for message in block.messages] for block in blocks_of(messages)]


class TestBlocks:
    def test_words_stand_alone_and_a_call_with_its_result(self) -> None:
        assert shapes(said("a"), call(), result(), said("b")) == [["a"], ["call 1", "result 1"], ["b"]]

    def test_calls_at_once_are_one_block_with_all_their_results(self) -> None:
        one = ["call 1", "call 2", "result 1", "result 2"]
        assert shapes(call("1"), call("2"), result("1"), result("2")) == [one]

    def test_what_was_said_between_call_and_result_stays_between(self) -> None:
        assert shapes(call(), said("wait"), result()) == [["call 1", "wait", "result 1"]]

    def test_halves_are_left_out(self) -> None:
        assert shapes(result("9"), said("a"), call("8"), said("b")) == [["a"], ["b"]]
        assert shapes(result("1"), call("1"), said("a")) == [["a"]]

    def test_without_ids_a_result_belongs_to_the_call_before(self) -> None:
        assert shapes(call(None), result(None), result(None)) == [["call None", "result None"]]

    def test_an_id_used_again_is_another_call(self) -> None:
        assert len(shapes(call(), result(), said("a"), call(), result())) == 3

    @pytest.mark.parametrize(
        "message",
        [
            said(" "),
            said("x", Role.SYSTEM),
            said("", Role.USER, MessageType.MARKER),
            said("old", Role.ASSISTANT, MessageType.SUMMARY),
        ],
    )
    def test_markers_summaries_and_silence_are_not_shown(self, message: Message) -> None:
        assert not is_shown(message)
        assert blocks_of([message]) == []


class TestFitting:
    def test_the_newest_come_first_and_nothing_is_skipped(self) -> None:
        blocks = blocks_of([said("short"), said("long " * 100), said("new"), said("newest")])
        assert [m.text for m in messages_in(fit(blocks, 60, 10))] == ["new", "newest"]
        assert [m.text for m in messages_in(fit(blocks, 1000, 1))] == ["newest"]
        assert fit(blocks, 0, 10) == []

    def test_a_block_counts_all_its_messages(self) -> None:
        blocks = blocks_of([call(), result(), said("a")])
        assert [m.text for m in messages_in(fit(blocks, 1000, 2))] == ["a"]
        assert len(list(messages_in(fit(blocks, 1000, 3)))) == 3

    def test_squeezing_cuts_the_longest_and_keeps_the_rest_whole(self) -> None:
        [block] = blocks_of([call(), said("word " * 500, Role.TOOL, MessageType.TOOL_RESULT, "1")])
        short, long = squeezed(block, 100)
        assert short.content == "call 1"
        assert " … " in long.content
        assert short.tokens + long.tokens <= 100
        assert squeezed(block, 20) == []


class TestPending:
    def test_recorded_words_are_recognized_once_each(self) -> None:
        tail = [said("hello", Role.ASSISTANT), said("one"), said("one")]
        messages = recognize(["one", "one", "two"], tail, str)
        assert [message.uid for message in messages] == [tail[1].uid, tail[2].uid, None]

    def test_of_the_same_words_said_twice_and_recorded_once_the_newest_is_the_recorded_one(self) -> None:
        tail = [said("one")]
        assert [message.uid for message in recognize(["one", "one"], tail, str)] == [None, tail[0].uid]

    def test_what_was_answered_is_not_pending(self) -> None:
        [message] = recognize(["one"], [said("one"), said("done", Role.ASSISTANT)], str)
        assert message.uid is None

    def test_a_tools_words_cannot_be_pending(self) -> None:
        with pytest.raises(UsageError, match="Only words can be pending"):
            recognize([result()], [], str)

    def test_the_last_question_is_the_users(self) -> None:
        talk = [said("one"), said("two"), said("answer", Role.ASSISTANT)]
        assert last_asked(talk) is talk[1]
        assert last_asked([]) is None


def test_core_memory_keeps_one_line_for_each_fact() -> None:
    facts = [CoreFact("user", "a", "1\n- b: 2", NOON), CoreFact("agent", "c", "3", NOON)]
    assert core_block(facts).splitlines()[1:] == ["user:", "- a: 1 - b: 2", "agent:", "- c: 3"]
