"""What holds of every context, whatever was said and however little room there is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.config.sections import AutoRagConfig
from harken.context.layers import ChatContext, LayerItem
from harken.engine import Harken
from harken.model.conversations import MessageType
from harken.search.recall import AutoRag, Frame, Recall
from harken.search.session import SearchSession
from harken.testing import HashingEmbedder

WORDS = ("zebra", "lemon", "deploy", "thursday", "whale", "canary", "ok", "да", "部署", "the", "code();")
NUMBERS = count()

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
steps = st.one_of(
    st.tuples(st.just("user"), texts),
    st.tuples(st.just("assistant"), texts),
    st.tuples(st.sampled_from(["call", "result", "pair"]), texts),
)
talks = st.lists(steps, max_size=30)


@dataclass(frozen=True, slots=True)
class WatchedAutoRag(AutoRag):
    excluded: list[set[str]]

    def search(
        self,
        text: str,
        segment_uid: str,
        excluded: Collection[str],
        config: AutoRagConfig,
        frame: Frame = lambda entry, text: text,
        session: SearchSession | None = None,
    ) -> Recall:
        self.excluded.append(set(excluded))
        return AutoRag.search(self, text, segment_uid, excluded, config, frame, session)


@dataclass
class Watched:
    """Auto-RAG, with a note of what it was told to leave out."""

    harken: Harken
    excluded: list[set[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chats = self.harken.chats
        chats.auto_rag = WatchedAutoRag(chats.auto_rag.sessions, self.excluded)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    env = {"HARKEN_STORE": "sqlite://", "HARKEN_CONTEXT__SYSTEM_PROMPT": "You help."}
    with Harken(env=env, embedder=HashingEmbedder(64, threshold=0.2)) as harken:
        harken.core.update("user", "name", "Maya")
        yield Watched(harken)


def hold(harken: Harken, talk: list[tuple[str, str]]) -> str:
    name = f"talk-{next(NUMBERS)}"
    for number, (kind, text) in enumerate(talk):
        if kind in ("user", "assistant"):
            harken.record_message(name, kind, text)
        if kind in ("call", "pair"):
            harken.record_message(name, "assistant", text, type="tool_call", call_id=f"c{number}")
        if kind in ("result", "pair"):
            harken.record_message(name, "tool", text, type="tool_result", call_id=f"c{number}")
    return name


def recorded(harken: Harken, name: str) -> dict[str, str]:
    """Ids of what was said, in order, with what each is."""
    session = harken.chats.session(name, "library")
    if session.segment_uid is None:
        return {}
    return {message.uid: message.type for message in harken.show(session.conversation_uid).messages}


@settings(max_examples=80)
@given(talks, st.lists(texts, min_size=1, max_size=3), st.integers(1, 700), st.integers(1, 40), st.booleans())
def test_whatever_is_said_the_promises_of_a_context_hold(
    watched: Watched, talk: list[tuple[str, str]], pending: list[str], budget: int, window: int, is_embedded: bool
) -> None:
    harken = watched.harken
    name = hold(harken, talk)
    if is_embedded:
        harken.embed()
    harken.run_time.set("context.sliding_window", window)
    watched.excluded.clear()
    context = harken.build_context(name, pending, budget_tokens=budget)
    said = recorded(harken, name)
    never_over_budget(context, pending)
    nothing_twice(context)
    no_call_without_its_result(context)
    in_order_of_time(context, list(said))
    what_is_outside_was_a_candidate(context, said, watched.excluded)


def never_over_budget(context: ChatContext, pending: list[str]) -> None:
    assert context.tokens == sum(message.tokens for message in context.messages)
    assert context.messages[-1].content == pending[-1]
    if context.tokens > context.budget_tokens:
        assert [message.content for message in context.messages] == [pending[-1]]
        assert any("larger than the budget" in note for note in context.notes)


def nothing_twice(context: ChatContext) -> None:
    shown = [
        item.uid
        for name in ("auto_rag", "window", "pending")
        for item in items_of(context, name)
        if item.uid is not None
    ]
    assert len(shown) == len(set(shown))


def no_call_without_its_result(context: ChatContext) -> None:
    calls = [m.call_id for m in context.messages if m.type is MessageType.TOOL_CALL]
    results = [m.call_id for m in context.messages if m.type is MessageType.TOOL_RESULT]
    assert sorted(map(str, calls)) == sorted(map(str, results))
    places = {message.call_id: place for place, message in reversed(list(enumerate(context.messages)))}
    for place, message in enumerate(context.messages):
        if message.type is MessageType.TOOL_RESULT:
            assert places[message.call_id] < place


def in_order_of_time(context: ChatContext, said: list[str]) -> None:
    for name in ("auto_rag", "window"):
        places = [said.index(item.uid) for item in items_of(context, name) if item.uid]
        assert places == sorted(places)


def what_is_outside_was_a_candidate(context: ChatContext, said: dict[str, str], excluded: list[set[str]]) -> None:
    inside = {item.uid for name in ("window", "pending") for item in items_of(context, name)}
    outside = {uid for uid in said if uid not in inside}
    if any("no room for auto-RAG" in note for note in context.notes):
        return
    if outside:
        assert len(excluded) == 1
        assert not outside & excluded[0]


def items_of(context: ChatContext, name: str) -> tuple[LayerItem, ...]:
    layer = context.layer(name)
    return layer.items if layer else ()
