"""A chat: what the user says is recorded, answered with all that is remembered, and the answer recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from harken.chat.prompt import PAST_TOOL_NOTE, SYSTEM_PROMPT, to_model, within
from harken.chat.tools import Tool, Toolbox, ToolContext, ToolOutcome
from harken.config.settings import ChatConfig, Settings
from harken.context.builder import ContextSession
from harken.context.chats import Chats
from harken.context.layers import ChatContext
from harken.errors import ConfigError, NotFoundError, ProviderError, SpendLimitError, UsageError
from harken.jobs.spend import LanguageModel, MeteredModel
from harken.model.conversations import ExchangeStatus, Message, MessageType, Role, Trust
from harken.providers.chat_model import ChatAnswer, ChatMessage, Finish, TokenUsage, ToolCall
from harken.record.ids import new_uid
from harken.record.project import identify_project
from harken.record.recorder import Batch, NewConversation, NewMessage, Recorder
from harken.storage.conversations import find_conversation


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The model says some more."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model has called a tool.

    Attributes:
        arguments: as the model wrote them, not checked yet.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool has answered.

    Attributes:
        text: what the model gets to see.
    """

    name: str
    failed: bool
    text: str


TurnEvent = TextPiece | ToolStarted | ToolEnded
Listen = Callable[[TurnEvent], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a chat that has ended.

    Attributes:
        text: the answer, or as much of it as was said.
        error: why it failed, secrets taken out.
        stopped: whether the user stopped it.
        usage: of all calls of the model whose tokens were counted.
        price_usd: of all calls; None where one was broken off or has no known price.
        context: what the first call got to see.
    """

    text: str
    status: ExchangeStatus
    error: str | None
    stopped: bool
    tool_calls: int
    usage: TokenUsage
    price_usd: Decimal | None
    context: ChatContext


CHAT_CHANNEL = "chat"
# The kind of its calls in the books.
CHAT = "chat"
_ERROR_CHARS = 500
_STOPPED = "Stopped by the user before anything was said."
_NO_MODEL = (
    "No language model is configured, and Harken calls none unasked. Name one: harken config set llm.model "
    "openai:gpt-5-mini (or anthropic:…, google:…, ollama:…), with its key in OPENAI_API_KEY, ANTHROPIC_API_KEY, "
    "GOOGLE_API_KEY or HARKEN_LLM__API_KEY; another endpoint by llm.url; and pip install 'harken[llm]'."
)


def _unheard(_event: object) -> None:
    """Nobody listens."""


class Chat:
    """Talks with the configured model, with memory; reached as `Harken.chat`.

    Args:
        settings: those in force; read anew for each turn.
        tools: what the model may call.
    """

    def __init__(
        self,
        recorder: Recorder,
        chats: Chats,
        language_model: LanguageModel,
        settings: Callable[[], Settings],
        tools: Sequence[Tool],
    ) -> None:
        self._recorder = recorder
        self._chats = chats
        self._language_model = language_model
        self._settings = settings
        self._toolbox = Toolbox(tools)
        self._begun: dict[str, NewConversation] = {}
        self._talking: set[str] = set()
        self._lock = threading.Lock()

    @property
    def model_name(self) -> str | None:
        """Vendor and model that answer; None where no model is configured. Opens nothing."""
        return self._settings().llm.model or None

    def begin(self, directory: str | Path | None = None) -> ContextSession:
        """A new conversation; it is recorded with its first turn, so that one without a word leaves nothing.

        Args:
            directory: the working directory, which tells the project.
        """
        project = identify_project(directory) if directory is not None else None
        head = NewConversation(CHAT_CHANNEL, new_uid(self._recorder.now()), project=project)
        self._begun[head.uid] = head
        return ContextSession(head.uid, None)

    def context(self, session: ContextSession, text: str) -> ChatContext:
        """What the model would get to see if this were said now; nothing is recorded."""
        return self._context(self._present(session), text, is_preview=True)

    def turn(
        self,
        session: ContextSession,
        text: str,
        listen: Listen = _unheard,
        stop: threading.Event | None = None,
    ) -> Turn:
        """Say something, and have it answered; everything is recorded as it comes.

        A model that fails, or a day's limit that would be passed, ends the exchange as failed: what was said stays
        recorded, and the next turn goes on. Stopped, what was said so far is kept and marked as cut (`cut` in the
        metadata): the exchange is completed, or failed where nothing was said yet.

        Args:
            session: from `begin` or `Chats.find`; its newest segment goes on.
            text: what the user says.
            listen: told what happens, in the thread of the turn.
            stop: set by another thread, it ends the turn at once.
        Raises:
            ConfigError: no model is configured, or none that can be. Nothing is recorded then: a question that nobody
                answers would stand in memory as a failure.
            MissingExtraError: what the model needs is not installed; nothing is recorded.
            UsageError: nothing is said, or a turn of the conversation goes on already.
            NotFoundError: there is no such conversation.
        """
        if not text.strip():
            raise UsageError("A turn needs words.")
        if self._language_model.model() is None:
            raise ConfigError(_NO_MODEL)
        head = self._head(session)
        with self._alone(head.uid):
            (asked,) = self._record(head, [NewMessage(Role.USER, text, trust=Trust.OWNER)])
            exchange = _Exchange(self, head, asked, listen, stop or threading.Event())
            try:
                return exchange.run()
            except BaseException as error:
                exchange.broken_off(error)
                raise

    def _context(self, session: ContextSession, pending: str | Message, is_preview: bool = False) -> ChatContext:
        prompt = self._settings().context.system_prompt or SYSTEM_PROMPT
        return self._chats.build(
            session, [pending], system_prompt=prompt, is_preview=is_preview, past_note=PAST_TOOL_NOTE
        )

    def _present(self, session: ContextSession) -> ContextSession:
        return self._chats.newest(session.conversation_uid)

    def _head(self, session: ContextSession) -> NewConversation:
        uid = session.conversation_uid
        if uid in self._begun:
            return self._begun[uid]
        with self._recorder.store.reading() as tx:
            found = find_conversation(tx, uid)
        if found is None:
            raise NotFoundError(f"There is no conversation {uid}. Begin one: Harken.chat.begin()")
        return NewConversation(found.channel, found.external_id, own_uid=uid)

    @contextmanager
    def _alone(self, uid: str) -> Iterator[None]:
        """Two turns at once would mix their exchanges."""
        with self._lock:
            if uid in self._talking:
                raise UsageError(f"A turn of conversation {uid} goes on; wait for its end, or begin another.")
            self._talking.add(uid)
        try:
            yield
        finally:
            with self._lock:
                self._talking.discard(uid)

    def _record(self, head: NewConversation, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        recorded = self._recorder.record([Batch(head, messages)]).messages
        if not recorded:
            raise NotFoundError(f"Conversation {head.uid} was forgotten; begin another.")
        self._begun.pop(head.uid, None)
        return recorded


@dataclass(slots=True)
class _Exchange:
    """One turn under way."""

    chat: Chat
    head: NewConversation
    asked: Message
    listen: Listen
    stop: threading.Event
    said: str = ""
    heard: str = ""
    stopped: bool = False
    tool_calls: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    price_usd: Decimal | None = Decimal(0)
    context: ChatContext | None = None

    def run(self) -> Turn:
        """Model and tools in turn, until words are the answer."""
        uid = self.asked.conversation_uid
        self.context = self.chat._context(ContextSession(uid, self.asked.segment_uid), self.asked)
        model = self.chat._language_model.metered(CHAT, self.asked.exchange_uid)
        if model is None:
            raise ConfigError(_NO_MODEL)
        try:
            error = self._talk(model, to_model(self.context.messages))
        except ProviderError as failure:
            self._keep_cut("failed")
            error = _described(failure)
        return self._ended(error)

    def broken_off(self, error: BaseException) -> None:
        """Keep what was said, and end the exchange."""
        self._keep_cut("failed")
        self._end(ExchangeStatus.FAILED, _described(error))

    def _talk(self, model: MeteredModel, base: Sequence[ChatMessage]) -> str | None:
        """What the model says and does; why it failed, if it did."""
        config = self.chat._settings().chat
        rounds: list[ChatMessage] = []
        for number in range(config.max_tool_rounds + 2):
            answer = self._answer(model, [*base, *within(rounds, self.context.budget_tokens if self.context else 0)])
            if answer is None:
                self._keep_cut("stopped")
                return None if self.said else _STOPPED
            calls = answer.tool_calls
            self._keep_answer(model, answer)
            if not calls:
                return _no_answer(answer)
            rounds.append(ChatMessage(Role.ASSISTANT, answer.text, calls))
            for call in calls:
                rounds.append(self._called(call, config, is_over=number >= config.max_tool_rounds))
            if self.stop.is_set():
                self.stopped = True
                return None
        return f"chat.max_tool_rounds ({config.max_tool_rounds}) is reached, and the model still calls tools."

    def _answer(self, model: MeteredModel, messages: Sequence[ChatMessage]) -> ChatAnswer | None:
        """The model's answer as it comes; None where the user stopped it."""
        self.heard = ""
        price, self.price_usd = self.price_usd, None
        try:
            for piece in model.stream(messages, tools=self.chat._toolbox.specs, stop=self.stop):
                if isinstance(piece, ChatAnswer):
                    self._count(piece, price)
                    return piece
                self.heard += piece
                self.listen(TextPiece(piece))
        except SpendLimitError:
            # Nothing was sent.
            self.price_usd = price
            raise
        self.stopped = True
        return None

    def _count(self, answer: ChatAnswer, price: Decimal | None) -> None:
        used, more = self.usage, answer.usage
        self.usage = TokenUsage(
            used.input_tokens + more.input_tokens,
            used.output_tokens + more.output_tokens,
            used.cached_tokens + more.cached_tokens,
        )
        self.price_usd = None if price is None or answer.price_usd is None else price + answer.price_usd

    def _keep_answer(self, model: MeteredModel, answer: ChatAnswer) -> None:
        """Record words and calls in one go, before any tool runs."""
        facts: dict[str, str] = {"model": model.name}
        if answer.finish is Finish.LENGTH:
            facts["cut"] = "length"
        messages = [_words(answer.text, facts)] if answer.text.strip() else []
        messages += [
            NewMessage(
                Role.ASSISTANT,
                json.dumps(dict(call.arguments), ensure_ascii=False),
                MessageType.TOOL_CALL,
                trust=Trust.AGENT,
                call_id=call.id,
                tool_name=call.name,
            )
            for call in answer.tool_calls
        ]
        self.heard = ""
        if messages:
            self.chat._record(self.head, messages)
            self.said = answer.text or self.said

    def _called(self, call: ToolCall, config: ChatConfig, is_over: bool) -> ChatMessage:
        """One tool's answer, recorded as it comes, for the model."""
        self.tool_calls += 1
        self.listen(ToolStarted(call.name, call.arguments))
        if is_over:
            words = f"Not called: {config.max_tool_rounds} rounds of tools are used up. Answer now with what you have."
            outcome = ToolOutcome(words, failed=True)
        else:
            here = ToolContext(self.asked.conversation_uid, self.asked.exchange_uid, config.tool_result_tokens)
            outcome = self.chat._toolbox.call(call, here)
        result = NewMessage(
            Role.TOOL,
            outcome.kept or outcome.text,
            MessageType.TOOL_RESULT,
            trust=Trust.TOOL,
            call_id=call.id,
            tool_name=call.name,
            metadata={"failed": True} if outcome.failed else {},
        )
        self.chat._record(self.head, [result])
        self.listen(ToolEnded(call.name, outcome.failed, outcome.text))
        return ChatMessage(Role.TOOL, outcome.text, call_id=call.id, tool_name=call.name)

    def _keep_cut(self, why: str) -> None:
        """What was heard of an answer that never ended is recorded, and marked."""
        heard, self.heard = self.heard, ""
        if heard.strip():
            self.chat._record(self.head, [_words(heard, {"cut": why})])
            self.said = heard

    def _ended(self, error: str | None) -> Turn:
        status = ExchangeStatus.COMPLETED if error is None else ExchangeStatus.FAILED
        kept = self._end(status, error)
        assert self.context is not None  # noqa: S101 - built before anything was answered
        return Turn(self.said, status, kept, self.stopped, self.tool_calls, self.usage, self.price_usd, self.context)

    def _end(self, status: ExchangeStatus, error: str | None) -> str | None:
        recorder = self.chat._recorder
        kept = None if error is None else recorder.redactor.redact(error).text[:_ERROR_CHARS]
        recorder.end_exchange(self.head.uid, status, kept)
        recorder.wake()
        return kept


def _words(text: str, facts: dict[str, str]) -> NewMessage:
    return NewMessage(Role.ASSISTANT, text, trust=Trust.AGENT, metadata=facts)


def _no_answer(answer: ChatAnswer) -> str | None:
    if answer.finish is Finish.REFUSED:
        return "The model refused to answer."
    return None if answer.text.strip() else "The model answered nothing."


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
