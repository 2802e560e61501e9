"""Models whose calls are booked and held to what may be spent on a day; the language model that the settings name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Unpack
from uuid import uuid4

from harken.config.sections import LlmConfig
from harken.config.settings import Settings
from harken.errors import EndpointError, HarkenError, SpendLimitError
from harken.providers.chat_model import CallOptions, ChatAnswer, ChatMessage, ChatModel, TokenUsage
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.storage.enrichment.consent import drop_model, model_since, note_model
from harken.storage.enrichment.spend import (
    BOOKS,
    ELSEWHERE,
    CallState,
    ModelCall,
    Settlement,
    Spent,
    book_call,
    day_of,
    settle_call,
    spent_on_day,
)
from harken.storage.ports import Store
from harken.storage.vectors import EMBED
from harken.text import tokens

# What roles, tool schemas and separators add to a message, in tokens.
_AROUND_A_MESSAGE = 8


@dataclass(frozen=True, slots=True)
class SpendBook:
    """Books every call of a model, and refuses those that might exceed the limit of a day of UTC, where one is set.

    Attributes:
        whole: the books of a team's first space, which have the calls of all its spaces, so that its limit holds for
            all of them together; what a call is for stands there of that space's own alone. None of that space itself.
    """

    store: Store
    max_usd_per_day: Decimal | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    whole: SpendBook | None = None

    def begin(self, kind: str, item_uid: str, model: str, estimate_usd: Decimal | None) -> str:
        """Book a call that is about to be made for one record, if it fits into the day's limit; the call's id.

        Raises:
            SpendLimitError: the limit is reached, or cannot be held.
        """
        call = ModelCall(str(uuid4()), kind, item_uid, model, self.now(), estimate_usd)
        # Looked at and booked in one transaction, so that two workers never pass the limit together.
        with self.store.writing(BOOKS) as tx:
            if self.max_usd_per_day is not None:
                self._check(call, self.max_usd_per_day, spent_on_day(tx, day_of(call.started_at)))
            if self.whole is not None:
                call = replace(call, uid=self.whole.begin(kind, ELSEWHERE, model, estimate_usd))
            book_call(tx, call)
        return call.uid

    def answered(self, uid: str, used: TokenUsage, price_usd: Decimal | None) -> None:
        """Book that a call was answered, and what it took."""
        counts = (used.input_tokens, used.output_tokens, used.cached_tokens)
        self.settle(uid, Settlement(CallState.DONE, self.now(), *counts, price_usd))

    def settle(self, uid: str, end: Settlement) -> None:
        """Book how a call ended; only the first end counts."""
        with self.store.writing(BOOKS) as tx:
            settle_call(tx, uid, end)
        if self.whole is not None:
            self.whole.settle(uid, end)

    def fail(self, uid: str, error: BaseException, begun: bool = False) -> None:
        """Book a failure: a refusal costs nothing; what was given up by us, or broke off, may have been charged."""
        broke = begun or (isinstance(error, EndpointError) and error.may_cost)
        if isinstance(error, HarkenError) and not broke:
            self.settle(uid, Settlement(CallState.FAILED, self.now(), price_usd=Decimal(0)))
        else:
            self.settle(uid, Settlement(CallState.LOST, self.now()))

    def _check(self, call: ModelCall, limit: Decimal, spent: Spent) -> None:
        if call.estimate_usd is None:
            raise SpendLimitError(
                f"llm.max_usd_per_day cannot be held: no price of {call.model} is known. "
                "Set llm.input_usd_per_million and llm.output_usd_per_million, 0 for a model of your own"
            )
        if spent.at_most_usd + call.estimate_usd > limit:
            tomorrow = self.now().astimezone(UTC).date() + timedelta(days=1)
            resumes_at = datetime.combine(tomorrow, time(), UTC)
            raise SpendLimitError(
                f"llm.max_usd_per_day is reached: {spent.at_most_usd:f} of {limit:f} USD are spent, and the next call "
                f"may cost {call.estimate_usd:f}. It goes on at {resumes_at:%Y-%m-%d %H:%M} UTC. "
                "Raise it: harken config set llm.max_usd_per_day 5",
                resumes_at,
            )


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A language model, each call of which is booked for one record of one kind of work."""

    book: SpendBook
    model: ChatModel
    kind: str
    item_uid: str

    @property
    def name(self) -> str:
        """Vendor and model."""
        return self.model.name

    @property
    def max_tokens(self) -> int:
        """Longest answer where a call does not say."""
        return self.model.max_tokens

    def complete(self, messages: Sequence[ChatMessage], **options: Unpack[CallOptions]) -> ChatAnswer:
        """The whole answer, booked.

        Raises:
            SpendLimitError: nothing was sent.
            ProviderError: as of `ChatModel.complete`.
        """
        uid, asked = self._begin(messages, options)
        try:
            answer = self.model.complete(messages, **options)
        except BaseException as error:
            self.book.fail(uid, error)
            raise
        return self._answered(uid, asked, answer)

    def stream(
        self, messages: Sequence[ChatMessage], *, stop: threading.Event | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[str | ChatAnswer]:
        """Pieces of the text, and last the whole answer, booked also when it is left early or stopped.

        Raises:
            SpendLimitError: nothing was sent.
            ProviderError: as of `ChatModel.stream`.
        """
        uid, asked = self._begin(messages, options)
        begun = answered = False
        pieces = self.model.stream(messages, stop=stop, **options)
        try:
            for piece in pieces:
                begun = True
                if isinstance(piece, ChatAnswer):
                    piece = self._answered(uid, asked, piece)
                    answered = True
                yield piece
            if not answered:
                self.book.settle(uid, Settlement(CallState.LOST, self.book.now()))
        except BaseException as error:
            self.book.fail(uid, error, begun)
            raise

    def _begin(self, messages: Sequence[ChatMessage], options: CallOptions) -> tuple[str, int]:
        """Book the most that a call may cost, with the longest answer; its id, and the prompt's tokens."""
        texts = [options.get("instructions", ""), *(message.text for message in messages)]
        texts += [f"{call.name} {dict(call.arguments)}" for message in messages for call in message.tool_calls]
        texts += [f"{tool.name} {tool.description} {dict(tool.parameters)}" for tool in options.get("tools", ())]
        asked = sum(tokens.estimate(text) + _AROUND_A_MESSAGE for text in texts)
        most = TokenUsage(asked, options.get("max_tokens") or self.model.max_tokens)
        return self.book.begin(self.kind, self.item_uid, self.name, self.model.price(most)), asked

    def _answered(self, uid: str, asked: int, answer: ChatAnswer) -> ChatAnswer:
        """Book an answer, and give it with its price: of tokens as estimated where the endpoint counts none."""
        used = answer.usage
        if not (used.input_tokens and used.output_tokens):
            calls = [f"{call.name} {dict(call.arguments)}" for call in answer.tool_calls]
            said = used.output_tokens or sum(map(tokens.estimate, [answer.text, *calls]))
            used = TokenUsage(used.input_tokens or asked, said, used.cached_tokens)
            answer = replace(answer, price_usd=self.model.price(used))
        self.book.answered(uid, used, answer.price_usd)
        return answer


@dataclass(frozen=True, slots=True)
class EmbeddingMeter:
    """A `CallMeter` that books the calls of an embedding endpoint, under the same limit.

    One without a known price counts as free, unlike a language model: it is mostly somebody's own, and the big vendors'
    prices are known. Its calls stand in the books as of no known price.
    """

    book: Callable[[], SpendBook]
    model: str
    price: Callable[[int], Decimal | None]

    def begin(self, tokens: int) -> str:
        """See `CallMeter.begin`."""
        return self.book().begin(EMBED, "", self.model, self.price(tokens) or Decimal(0))

    def answered(self, uid: str, tokens: int) -> None:
        """See `CallMeter.answered`."""
        self.book().answered(uid, TokenUsage(tokens), self.price(tokens))

    def failed(self, uid: str, error: BaseException) -> None:
        """See `CallMeter.failed`."""
        self.book().fail(uid, error)


@dataclass(slots=True)
class LanguageModel:
    """Opens the configured model on first use, and another one when the settings in force name another.

    The moment at which a model is first seen is remembered: what was said before is never sent to it unasked.

    Args:
        whole: the books of the team's first space, for any other.
    """

    store: Store
    settings: Callable[[], Settings]
    env: Mapping[str, str]
    now: Callable[[], datetime]
    whole: Callable[[], SpendBook] | None = None
    _opened: tuple[tuple[ChatOptions, int], ChatModel] | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.note()

    def metered(self, kind: str, item_uid: str) -> MeteredModel | None:
        """The model for one record of one kind of work, its calls booked; otherwise as `model`."""
        model = self.model()
        return None if model is None else MeteredModel(self.book(), model, kind, item_uid)

    def book(self) -> SpendBook:
        """The books, with the limit in force."""
        limit, whole = self.settings().llm.max_usd_per_day, self.whole() if self.whole else None
        return SpendBook(self.store, limit, self.now, whole)

    def since(self) -> datetime | None:
        """The moment from which on the model may summarize; None where none is configured."""
        name = _identity(self.settings().llm)
        if not name:
            return None
        with self.store.reading() as tx:
            return model_since(tx, name)

    def note(self, before: LlmConfig | None = None) -> None:
        """Remember when the model is first seen; forget it of the one that was set before and is no more."""
        name, old = _identity(self.settings().llm), _identity(before) if before else ""
        is_known = not name or self.since() is not None
        if is_known and old in ("", name):
            return
        with self.store.writing() as tx:
            if old and old != name:
                drop_model(tx, old)
            if name:
                note_model(tx, name, self.now())

    def model(self) -> ChatModel | None:
        """The model, its calls not booked; None where the settings name none.

        Raises:
            ConfigError: the settings name a model that cannot be.
            MissingExtraError: what it needs is not installed.
        """
        options = ChatOptions.of(self.settings().llm, self.env)
        if options is None:
            return None
        # A process that was forked has no use for its parent's connections, which belong to a loop that it has not.
        wanted = (options, os.getpid())
        with self._lock:
            if self._opened is None or self._opened[0] != wanted:
                self._opened = (wanted, open_chat_model(options))
            return self._opened[1]

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()


def _identity(wanted: LlmConfig) -> str:
    """The model and who serves it; empty where none is set."""
    return f"{wanted.model} {wanted.url or ''}".rstrip() if wanted.model else ""
