"""Model and tools in turn, until words are the answer: of a chat's turn, and of a task's run."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from operator import add
from typing import Any

from harken.chat.tools import Toolbox, ToolContext, ToolOutcome
from harken.config.sections import ChatConfig
from harken.context.layers import ContextMessage
from harken.errors import ProviderError, SpendLimitError
from harken.jobs.spend import MeteredModel
from harken.model.conversations import Message, MessageType, Role, Trust
from harken.providers.chat_model import ChatAnswer, ChatMessage, Finish, TokenUsage, ToolCall
from harken.record.recorder import NewMessage
from harken.text import tokens

_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64
# What is left of a tool's result once newer ones have taken its room.
_LEAST_TOKENS = 100
NO_MODEL = (
    "No language model is configured, and Harken calls none unasked. Name one: harken config set llm.model "
    "openai:gpt-5-mini (or anthropic:…, google:…, ollama:…), with its key in OPENAI_API_KEY, ANTHROPIC_API_KEY, "
    "GOOGLE_API_KEY or HARKEN_LLM__API_KEY; another endpoint by llm.url; and pip install 'harken[llm]'."
)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The model says some more."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model has called a tool; its arguments are as it wrote them, not checked yet."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool has answered; the text is what the model gets."""

    name: str
    failed: bool
    text: str


TurnEvent = TextPiece | ToolStarted | ToolEnded
Listen = Callable[[TurnEvent], None]


def described(error: BaseException) -> str:
    """An error as the reason of an exchange that failed."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


@dataclass(slots=True)
class Rounds:
    """An answer under way.

    Attributes:
        keep: records messages as they come.
        said: the last words of the model that were kept.
        heard: what came of an answer that goes on.
    """

    toolbox: Toolbox
    config: ChatConfig
    keep: Callable[..., object]
    listen: Listen
    stop: threading.Event
    said: str = ""
    heard: str = ""
    stopped: bool = False
    finish: Finish = Finish.STOP
    tool_calls: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    price_usd: Decimal | None = Decimal(0)

    def keep_cut(self, why: str) -> None:
        """Record what was heard of an answer that never ended, marked."""
        heard, self.heard = self.heard, ""
        if heard.strip():
            self.keep(NewMessage(Role.ASSISTANT, heard, trust=Trust.AGENT, metadata={"cut": why}))
            self.said = heard

    def talk(self, model: MeteredModel, asked: Message, context: Sequence[ContextMessage], budget_tokens: int) -> str:
        """Model and tools in turn, until words are the answer; why it failed, empty where it did not."""
        base, rounds = to_model(context), list[ChatMessage]()
        most = self.config.max_tool_rounds
        for number in range(most + 2):
            answer = self._answer(model, [*base, *within(rounds, budget_tokens)])
            if isinstance(answer, str):
                return answer
            self.heard = ""
            if messages := _recordable(answer, model.name):
                # Words and calls in one go, before any tool runs.
                self.keep(*messages)
                self.said = answer.text or self.said
            if not answer.tool_calls:
                if answer.finish is Finish.REFUSED:
                    return "The model refused to answer."
                self.finish = answer.finish
                why = " before llm.max_tokens was reached; raise it" if answer.finish is Finish.LENGTH else ""
                return "" if answer.text.strip() else f"The model answered nothing{why}."
            rounds.append(ChatMessage(Role.ASSISTANT, answer.text, answer.tool_calls, original=answer.original))
            rounds += [self._called(call, asked, is_over=number >= most) for call in answer.tool_calls]
            if self.stop.is_set():
                self.stopped = True
                return ""
        return f"chat.max_tool_rounds ({most}) is reached, and the model still calls tools."

    def _answer(self, model: MeteredModel, messages: Sequence[ChatMessage]) -> ChatAnswer | str:
        """The model's answer as it comes; why there is none, empty where the user stopped what had begun."""
        self.heard = ""
        price, self.price_usd = self.price_usd, None
        try:
            for piece in model.stream(messages, tools=self.toolbox.specs, stop=self.stop):
                if isinstance(piece, ChatAnswer):
                    self.usage = TokenUsage(*map(add, astuple(self.usage), astuple(piece.usage)))
                    self.price_usd = None if price is None or piece.price_usd is None else price + piece.price_usd
                    return piece
                self.heard += piece
                self.listen(TextPiece(piece))
        except ProviderError as error:
            if isinstance(error, SpendLimitError):
                # Nothing was sent.
                self.price_usd = price
            self.keep_cut("failed")
            return described(error)
        self.stopped = True
        self.keep_cut("stopped")
        return "" if self.said else "Stopped by the user before anything was said."

    def _called(self, call: ToolCall, asked: Message, is_over: bool) -> ChatMessage:
        """One tool's answer, recorded as it comes, for the model."""
        config = self.config
        self.tool_calls += 1
        self.listen(ToolStarted(call.name, call.arguments))
        if is_over:
            words = f"Not called: {config.max_tool_rounds} rounds of tools are used up. Answer now with what you have."
            outcome = ToolOutcome(words, failed=True)
        else:
            here = ToolContext(asked.conversation_uid, asked.exchange_uid, config.tool_result_tokens)
            outcome = self.toolbox.call(call, here)
        result = NewMessage(
            Role.TOOL,
            outcome.kept or outcome.text,
            MessageType.TOOL_RESULT,
            trust=Trust.TOOL,
            call_id=call.id,
            tool_name=call.name,
            metadata={"failed": True} if outcome.failed else {},
        )
        self.keep(result)
        self.listen(ToolEnded(call.name, outcome.failed, outcome.text))
        return ChatMessage(Role.TOOL, outcome.text, call_id=call.id, tool_name=call.name)


def _recordable(answer: ChatAnswer, model: str) -> list[NewMessage]:
    """An answer's words, where it has any, and its calls."""
    cut = {Finish.LENGTH: "length", Finish.OTHER: "failed"}.get(answer.finish)
    facts = {"model": model, **({"cut": cut} if cut else {})}
    words = [NewMessage(Role.ASSISTANT, answer.text, trust=Trust.AGENT, metadata=facts)] if answer.text.strip() else []
    calls = (
        NewMessage(
            Role.ASSISTANT,
            json.dumps(dict(call.arguments), ensure_ascii=False),
            MessageType.TOOL_CALL,
            trust=Trust.AGENT,
            call_id=call.id,
            tool_name=call.name,
        )
        for call in answer.tool_calls
    )
    return [*words, *calls]


def to_model(messages: Sequence[ContextMessage]) -> list[ChatMessage]:
    """The context's messages as a model takes them.

    Results follow the answer that called for them, whatever was said between; a call without a result, which a crash
    leaves, and a result without a call are left out, for every vendor refuses them.
    """
    results = _results(messages)
    used: set[str] = set()
    prompt: list[ChatMessage] = []
    for is_answer, group in groupby(messages, key=lambda message: message.role is Role.ASSISTANT):
        if is_answer:
            prompt += _round(list(group), results, used)
        else:
            prompt += [ChatMessage(each.role, each.content) for each in group if each.role is not Role.TOOL]
    return prompt


def within(rounds: Sequence[ChatMessage], room_tokens: int) -> list[ChatMessage]:
    """A turn's calls and results, the oldest results clipped until all fit, the newest left whole."""
    over = sum(tokens.estimate(message.text) for message in rounds) - room_tokens
    last = max((place for place, message in enumerate(rounds) if message.role is Role.TOOL), default=0)
    kept = list(rounds)
    for place, message in enumerate(rounds):
        size = tokens.estimate(message.text)
        if over > 0 and message.role is Role.TOOL and place != last and size > _LEAST_TOKENS:
            allowed = max(_LEAST_TOKENS, size - over)
            kept[place] = replace(message, text=tokens.clip_middle(message.text, allowed, "\n[…]\n"))
            over -= size - allowed
    return kept


def _results(messages: Sequence[ContextMessage]) -> dict[int, list[str]]:
    """The results of each call, by the identity of the call's message: models name calls alike again and again."""
    newest: dict[str, list[str]] = {}
    found: dict[int, list[str]] = {}
    for message in messages:
        name = message.call_id or ""
        if message.type is MessageType.TOOL_CALL:
            newest[name] = found[id(message)] = []
        elif message.type is MessageType.TOOL_RESULT and name in newest:
            newest[name].append(message.content)
    return found


def _round(answer: Sequence[ContextMessage], results: dict[int, list[str]], used: set[str]) -> list[ChatMessage]:
    said = "\n\n".join(each.content for each in answer if each.type is MessageType.TEXT and each.content.strip())
    calls: list[ToolCall] = []
    answers: list[ChatMessage] = []
    for each in answer:
        if brought := results.get(id(each)):
            uid = _unused(each.call_id or "call", used)
            name = _NAME.sub("_", each.tool_name or "")[:_NAME_CHARS] or "tool"
            calls.append(ToolCall(uid, name, _arguments(each.content)))
            answers.append(ChatMessage(Role.TOOL, "\n".join(brought), call_id=uid, tool_name=name))
    return [ChatMessage(Role.ASSISTANT, said, tuple(calls)), *answers] if said or calls else []


def _unused(name: str, used: set[str]) -> str:
    number, found = 1, name
    while found in used:
        number += 1
        found = f"{name}_{number}"
    used.add(found)
    return found


def _arguments(written: str) -> dict[str, object]:
    try:
        found = json.loads(written)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"input": written}
