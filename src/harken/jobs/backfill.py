"""Older talk, summarized by the language model because somebody asked for it: first the price, then the work."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Unpack

from harken.config.settings import Settings
from harken.errors import UsageError
from harken.jobs.spend import LanguageModel
from harken.jobs.summarize import SummarizeWork, exchange_text, exchange_texts
from harken.providers.chat_model import CallOptions, ChatAnswer, ChatMessage, ChatModel, TokenUsage
from harken.providers.summarizer import EXTRACTIVE, TOOLS_AT_LEAST, Summarizer, tool_batches
from harken.providers.summarizers import written as prompts
from harken.providers.summarizers.extractive import ExtractiveSummarizer
from harken.providers.summarizers.written import ANSWER_TOKENS, WrittenSummarizer
from harken.storage.enrichment import summaries, summary_texts
from harken.storage.enrichment.consent import SummaryBacklog, SummarySizes
from harken.storage.enrichment.spend import mean_output_tokens, spent_by_kind
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, SUMMARIZE, DueSummary
from harken.storage.ports import Store, Transaction
from harken.storage.projects import project_row
from harken.text import tokens

KINDS = (EXCHANGE, CONVERSATION)
# What models write when they are asked for one or two sentences, for two or three with a title, and for one tool call;
# a model's own answers in the books stand above it.
_EXPECTED = {prompts.EXCHANGE: 48, prompts.CONVERSATION: 95}
_EXPECTED_FOR_A_TOOL = 35
# A summary of little is short: its form, and a quarter of what was said.
_FORM, _SHARE = 14, 4
# A model that thinks before it writes costs many times as much: whoever agreed to a price has not agreed to more.
_TOLERANCE = Decimal("1.2")
_ENOUGH_CALLS = 20
_TOOL_LINE = re.compile(r"^\d+\. \[tool ", re.MULTILINE)
# Read together; and claimed together: a lease must outlast so many answers of a slow model.
_AT_ONCE, _CLAIMED_AT_ONCE = 200, 8
# Has the form of every answer; for tools, what is not told stands as an extract.
_ANSWER = '{"title": "…", "summary": "………", "summaries": []}'


@dataclass(frozen=True, slots=True)
class KindPlan:
    """The effort of summarizing the items of one kind.

    Attributes:
        calls: of the model; an exchange with many tool calls takes several, one without words none.
        price_usd: about; None where no price is known.
        most_usd: the price where every answer is as long as it may be.
    """

    items: int
    calls: int
    input_tokens: int
    output_tokens: int
    price_usd: Decimal | None
    most_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class BackfillPlan(KindPlan):
    """The effort of a backfill by one model, in all, and for each kind of item."""

    model: str
    kinds: dict[str, KindPlan]

    @property
    def tokens(self) -> tuple[int, int]:
        """About how many go in, and come out."""
        return self.input_tokens, self.output_tokens


@dataclass(slots=True)
class Backfill:
    """Summaries of what was said before the model was set, or imported; reached as `Background.backfill`."""

    store: Store
    settings: Callable[[], Settings]
    language_model: LanguageModel
    summarizer_for: Callable[[str, str], Summarizer]
    now: Callable[[], datetime]
    blocked_reason: str = field(default="", init=False)
    useless: int = field(default=0, init=False)

    def backlog(self, project: str | None = None, since: datetime | None = None) -> SummaryBacklog:
        """Talk that is older than the model, of one project, by key or name, or of all; began `since` or later.

        Raises:
            NotFoundError: there is no such project, or more than one.
        """
        said_since = self.language_model.since()
        with self.store.reading() as tx:
            row = project_row(tx, project) if project else None
            return SummaryBacklog(said_since, row, since, SummarySizes.of(self.settings().worker))

    def count(self) -> int:
        """Count exchanges and conversations that are older than the model and have an extract at most."""
        if self.language_model.since() is None:
            return 0
        backlog, rest_seconds = self.backlog(), self.settings().worker.rest_seconds
        with self.store.reading() as tx:
            return sum(summaries.count_backlog(tx, kind, self.now(), rest_seconds, backlog) for kind in KINDS)

    def plan(
        self, backlog: SummaryBacklog, progress: Callable[[int, int], None] = lambda _done, _all: None
    ) -> BackfillPlan:
        """Count the effort by the prompts that would be sent; sends nothing.

        `progress` is called with (items looked at, in all).

        Raises:
            UsageError: the settings name no language model.
            ProviderError: it cannot be opened.
        """
        model = self.language_model.model()
        if model is None:
            raise UsageError(
                "No language model is configured that could summarize. Name one: harken model VENDOR:MODEL"
            )
        rest_seconds = self.settings().worker.rest_seconds
        with self.store.reading() as tx:
            due = {kind: summaries.list_backlog(tx, kind, self.now(), rest_seconds, backlog) for kind in KINDS}
        count, done, kinds = sum(map(len, due.values())), 0, {}
        for kind in KINDS:
            counter = _PromptCounter(model, model.name, model.max_tokens)
            summarizer = WrittenSummarizer(counter, ExtractiveSummarizer(), self.settings().llm.max_input_tokens)
            for start in range(0, len(due[kind]), _AT_ONCE):
                some = due[kind][start : start + _AT_ONCE]
                with self.store.reading() as tx:
                    _COUNT[kind](tx, some, summarizer)
                done += len(some)
                progress(done, count)
            kinds[kind] = self._priced(kind, len(due[kind]), counter)
        columns = zip(*map(astuple, kinds.values()), strict=True)
        whole: list[Any] = [None if None in column else sum(column) for column in columns]
        return BackfillPlan(*[*whole, model.name, kinds])

    def run(
        self, backlog: SummaryBacklog, price_usd: Decimal | None, progress: Callable[[int], None] = lambda _done: None
    ) -> dict[str, int]:
        """Have the model summarize it, in this thread; how many it has written, by kind, and in `useless` those not.

        What ends it early stands in `blocked_reason`: the day's limit, an endpoint that fails, answers of which none is
        of use, or the price, of which a fifth more is spent at most; None agrees to any. The next run goes on.
        `progress` is called with how many were made.

        Raises:
            ProviderError: the model cannot be opened.
        """
        self.blocked_reason, self.useless, before = "", 0, self._spent()
        made = dict.fromkeys(KINDS, 0)
        for kind in KINDS:
            work = self._work(kind, backlog)
            try:
                while not self.blocked_reason and work.run_once():
                    progress(sum(made.values()) + work.stored)
                    spent = self._spent() - before
                    if price_usd is not None and spent > price_usd * _TOLERANCE:
                        self.blocked_reason = (
                            f"It has cost ${spent:.4f}, more than the ${price_usd:.4f} that was named: answers are "
                            "longer than was expected. What the rest costs by the answers so far, the next one names"
                        )
            finally:
                work.give_back()
            self.blocked_reason = work.blocked_reason or self.blocked_reason
            made[kind], self.useless = work.stored - work.wasted, self.useless + work.wasted
        return made

    def _spent(self) -> Decimal:
        with self.store.reading() as tx:
            by_kind = spent_by_kind(tx)
        return sum((by_kind[name].usd for name in SUMMARIZE.values() if name in by_kind), Decimal(0))

    def _work(self, kind: str, backlog: SummaryBacklog) -> SummarizeWork:
        config = self.settings().worker.model_copy(update={"batch_size": _CLAIMED_AT_ONCE})
        with self.store.reading() as tx:
            asked = [
                item.item_id for item in summaries.list_backlog(tx, kind, self.now(), config.rest_seconds, backlog)
            ]
        settings = (self.summarizer_for, lambda: config, self.now)
        return SummarizeWork(self.store, kind, *settings, backlog=backlog, asked=asked)

    def _priced(self, kind: str, items: int, counter: _PromptCounter) -> KindPlan:
        with self.store.reading() as tx:
            mean = mean_output_tokens(tx, SUMMARIZE[kind], counter.name, _ENOUGH_CALLS)
        expected = counter.output_tokens if mean is None else round(mean * counter.calls)
        most = counter.price(counter.calls * min(ANSWER_TOKENS, counter.max_tokens))
        return KindPlan(items, counter.calls, counter.input_tokens, expected, counter.price(expected), most)


@dataclass(slots=True)
class _PromptCounter:
    """Stands in place of a model: counts what it would be sent, and how much it is expected to answer."""

    model: ChatModel
    name: str
    max_tokens: int
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def complete(self, messages: Sequence[ChatMessage], **options: Unpack[CallOptions]) -> ChatAnswer:
        instructions, material = options.get("instructions", ""), messages[-1].text
        self.calls += 1
        self.input_tokens += sum(map(tokens.estimate, (instructions, *(message.text for message in messages))))
        expected = _EXPECTED.get(instructions, _EXPECTED_FOR_A_TOOL * len(_TOOL_LINE.findall(material)))
        if instructions == prompts.EXCHANGE:
            expected = min(expected, _FORM + tokens.estimate(material) // _SHARE)
        self.output_tokens += expected
        return ChatAnswer(_ANSWER)

    def price(self, output_tokens: int) -> Decimal | None:
        """Of all calls; by a mean one, since prices may be others for long prompts."""
        if not self.calls:
            return Decimal(0)
        mean = TokenUsage(round(self.input_tokens / self.calls), round(output_tokens / self.calls))
        price = self.model.price(mean)
        return None if price is None else price * self.calls


def _count_exchanges(tx: Transaction, due: Sequence[DueSummary], summarizer: Summarizer) -> None:
    short = summary_texts.short_exchanges(tx, {item.item_id: item.conversation_id for item in due})
    for item in due:
        told = short.get(item.item_id) or summary_texts.exchange_messages(tx, item.conversation_id, item.item_id)
        text = exchange_text(told, item.status, item.error)
        for batch in tool_batches(text.tools) if len(text.tools) >= TOOLS_AT_LEAST else ():
            summarizer.tools(batch)
        summarizer.exchange(text)


def _count_conversations(tx: Transaction, due: Sequence[DueSummary], summarizer: Summarizer) -> None:
    """By the summaries of their exchanges, which the model will have written by then."""
    for item in due:
        told = summary_texts.conversation_messages(tx, item.conversation_id)
        known = summaries.read_summaries(tx, EXCHANGE, list({message.exchange_uid for message in told}))
        written = {uid: each.text for uid, each in known.items() if each.model != EXTRACTIVE}
        expected = {message.exchange_uid: _EXPECTED_SUMMARY for message in told}
        summarizer.conversation(exchange_texts(told, expected | written))


_COUNT = {EXCHANGE: _count_exchanges, CONVERSATION: _count_conversations}
# As long as the summary of an exchange without the form around it.
_EXPECTED_SUMMARY = " ".join(["summary"] * (_EXPECTED[prompts.EXCHANGE] - 8))
