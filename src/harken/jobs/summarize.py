"""The summarizing jobs: exchanges, conversations, and the rolling summaries of what left a chat's window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from harken.config.sections import WorkerConfig
from harken.config.settings import Settings
from harken.errors import ProviderError
from harken.jobs.job import Job, is_dead
from harken.model.conversations import ExchangeStatus, MessageType, Role
from harken.providers.embedder import Vectors
from harken.providers.priority import in_turn, small_step
from harken.providers.summarizer import (
    EXTRACTIVE,
    TOOLS_AT_LEAST,
    ExchangeText,
    Spoken,
    Summarizer,
    Summary,
    ToolUse,
    tool_batches,
)
from harken.providers.summarizers.extractive import ExtractiveSummarizer, choose
from harken.storage.enrichment import segments, summaries, summary_texts
from harken.storage.enrichment.consent import NO_MODEL, Consent, SummaryBacklog
from harken.storage.enrichment.jobs import lease_owners, owned
from harken.storage.enrichment.segments import SEGMENT, SUMMARIZE_SEGMENT, DueSegment, Left
from harken.storage.enrichment.summaries import EXCHANGE, SUMMARIZE, TOOLS, DueSummary, StoredSummary
from harken.storage.enrichment.summary_texts import MessageText
from harken.storage.ports import Store, Transaction
from harken.text import tokens
from harken.text.words import split_sentences

# Another worker may be quicker, more than once.
_TRIES = 3
_KEPT_AT_ONCE, _USELESS_AT_MOST = 20, 8
# A shorter sentence says nothing alone.
_SHORTEST_TOKENS = 5
# Sentences are compared each with each: so many messages of a segment at a time.
_AT_ONCE = 100
SummarizerFor = Callable[[str, str], Summarizer]
"""Gives who summarizes an item, from what it is and its uid: its calls are booked under both."""


def exchange_text(
    messages: Sequence[MessageText],
    status: ExchangeStatus = ExchangeStatus.COMPLETED,
    error: str | None = None,
    summary: str = "",
) -> ExchangeText:
    """One exchange; markers, summaries and system messages that were injected are no part of it."""
    spoken = tuple(
        Spoken(each.role, each.text, each.author)
        for each in messages
        if each.type is MessageType.TEXT and each.role in (Role.USER, Role.ASSISTANT) and each.text.strip()
    )
    results = {each.call_id: each.text for each in messages if each.type is MessageType.TOOL_RESULT and each.call_id}
    calls = [each for each in messages if each.type is MessageType.TOOL_CALL]
    uses = [ToolUse(each.tool_name or "tool", each.text, results.get(each.call_id or "", "")) for each in calls]
    return ExchangeText(spoken, tuple(uses), status, error, summary)


def exchange_texts(messages: Sequence[MessageText], written: Mapping[str, str]) -> list[ExchangeText]:
    """The exchanges of a conversation, whose messages come oldest first, with their summaries, by uid, if any."""
    grouped: dict[str, list[MessageText]] = {}
    for message in messages:
        grouped.setdefault(message.exchange_uid, []).append(message)
    return [exchange_text(mine, summary=written.get(uid, "")) for uid, mine in grouped.items()]


@dataclass
class SummarizeWork(Job[DueSummary, Summary]):
    """Summarizes exchanges or conversations.

    Extracts cost nothing, are stored a few at a time, and are made also while the model fails or the day's money is
    spent. Where a model's last answers were of no use (`wasted`), it is asked no more for a day; all gets extracts.

    Args:
        kind: `exchange` or `conversation`.
        summarizer_for: for what a model may summarize; everything else is summarized by extraction.
        config: batch size, lease, and how long a conversation must rest before it is summarized; read anew each time.
        consent: what a model may summarize; read anew each time.
        backlog: what somebody asked a model to summarize beside that: these items are done and no others.
        asked: rows of the backlog that are still to be done, the next first.
    """

    store: Store
    kind: str
    summarizer_for: SummarizerFor
    config: Callable[[], WorkerConfig]
    now: Callable[[], datetime]
    consent: Callable[[], Consent] = lambda: NO_MODEL
    wake_next: Callable[[], None] | None = None
    backlog: SummaryBacklog | None = None
    asked: list[int] = field(default_factory=list)
    wasted: int = field(default=0, init=False)
    _wanted: Consent | SummaryBacklog = field(default=NO_MODEL, init=False)

    row = "item_id"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = SUMMARIZE[self.kind]

    def _count(self, tx: Transaction) -> int:
        if self.backlog is not None:
            return len(self.asked)
        return summaries.count_due(tx, self.kind, self.now(), self.config().rest_seconds, self.consent())

    def _candidates(self) -> Iterator[Sequence[int]]:
        config = self.config()
        if self.backlog is not None:
            self._wanted = self.backlog
            # What others have done, or do at this moment, is passed over.
            while self.asked and not self.is_paused:
                rows, self.asked = self.asked[: config.batch_size], self.asked[config.batch_size :]
                yield rows
            return
        consent = self.consent()
        # Answers of no use are not waited for: the next day brings no better ones.
        since = None if self.is_paused and type(self.blocked_by) is ProviderError else consent.since
        self._wanted = consent = replace(consent, since=since, is_paused=self.is_paused)
        for _ in range(_TRIES):
            with self.store.reading() as tx:
                has_dead = any(map(is_dead, lease_owners(tx, self.name)))
                rows = summaries.find_due(tx, self.kind, config.batch_size, self.now(), config.rest_seconds, consent)
            if not rows and not has_dead:
                return
            yield rows

    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[DueSummary]]:
        config = self.config()
        lease = (self.owner, self.now(), config.lease_seconds, config.rest_seconds)
        due = summaries.claim_due(tx, self.kind, rows, *lease, self._wanted)
        # A model's are kept one by one, for they are paid for; so few extracts that nobody waits long to write.
        extracts = [item for item in due if not self._is_written(item)]
        few = (extracts[start : start + _KEPT_AT_ONCE] for start in range(0, len(extracts), _KEPT_AT_ONCE))
        return [*few, *([item] for item in due if self._is_written(item))]

    def _make(self, items: list[DueSummary]) -> list[Summary]:
        if self._is_written(items[0]):
            # What another one has taken over, for the lease has ended, is not paid for twice.
            mine = self._begun(items, self.config().lease_seconds)
            nothing = Summary("")
            written = [
                self._summary(item, self.summarizer_for(self.kind, item.uid)) if item.item_id in mine else nothing
                for item in items
            ]
            if mine:
                self._answered()
            reasons = [each.fallback for each in written]
            self.wasted += sum(map(bool, reasons))
            self.outage.useless = last = [*self.outage.useless, *reasons][-_USELESS_AT_MOST:]
            if len(last) == _USELESS_AT_MOST and all(last):
                self.blocked_by = ProviderError(f"None of its answers was of use ({last[0]}): name another model")
                self.outage.begin(self.now(), self.now() + timedelta(days=1))
            return written
        short: Mapping[int, Sequence[MessageText]] = {}
        if self.kind == EXCHANGE:
            # Read at once, not one by one as for a model, which would keep the last ones waiting too long.
            with self.store.reading() as tx:
                short = summary_texts.short_exchanges(tx, {item.item_id: item.conversation_id for item in items})
        extract = ExtractiveSummarizer()
        return [small_step(self._summary, item, extract, short.get(item.item_id)) for item in items]

    def _leave(self, items: Sequence[DueSummary]) -> None:
        super()._leave(items)
        if self.backlog is not None:
            self.asked += [item.item_id for item in items]

    def _is_written(self, item: DueSummary) -> bool:
        return item.is_new or self.backlog is not None

    def _summary(
        self, item: DueSummary, summarizer: Summarizer, messages: Sequence[MessageText] | None = None
    ) -> Summary:
        if self.kind == EXCHANGE:
            if messages is None:
                with self.store.reading() as tx:
                    messages = summary_texts.exchange_messages(tx, item.conversation_id, item.item_id)
            text = exchange_text(messages, item.status, item.error)
            self._summarize_tools(item, text.tools, summarizer)
            return summarizer.exchange(text)
        with self.store.reading() as tx:
            messages = summary_texts.conversation_messages(tx, item.conversation_id)
            uids = {message.exchange_uid for message in messages} if summarizer.name != EXTRACTIVE else ()
            written = summaries.read_summaries(tx, EXCHANGE, list(uids))
        return summarizer.conversation(exchange_texts(messages, {uid: each.text for uid, each in written.items()}))

    def _summarize_tools(self, item: DueSummary, uses: Sequence[ToolUse], summarizer: Summarizer) -> None:
        """Tell of the tool calls of a long exchange, batch by batch; what was told before a failure is kept."""
        if len(uses) < TOOLS_AT_LEAST:
            return
        with self.store.reading() as tx:
            known = summaries.read_summaries(tx, TOOLS, [item.uid]).get(item.uid)
        # What was told by extraction is told anew by a model, which goes on where it was interrupted.
        goes_on = known and (summarizer.name == EXTRACTIVE or known.model != EXTRACTIVE)
        parts = known.text.split("\n\n") if known and known.covers == item.ended_at and goes_on else []
        waiting = tool_batches(uses)[len(parts) :]
        for number, batch in enumerate(waiting, start=1):
            told = summarizer.tools(batch)
            parts.append("\n".join(" ".join(each.text.split()) for each in told))
            if summarizer.name != EXTRACTIVE or number == len(waiting):
                with self.store.writing() as tx:
                    if owned(tx, self.name, [item.item_id], self.owner):
                        self._keep(tx, [(item, Summary("\n\n".join(parts), model=told[-1].model))], TOOLS)

    def _keep(self, tx: Transaction, made: Sequence[tuple[DueSummary, Summary]], kind: str = "") -> int:
        uids = summaries.conversation_uids_of(tx, {item.conversation_id for item, _ in made})
        kept = []
        for item, summary in made:
            if uid := uids.get(item.conversation_id):
                told = (summary.text, summary.title, summary.model)
                kept.append((StoredSummary(kind or self.kind, item.uid, *told, item.ended_at, self.now()), uid))
        summaries.put_summaries(tx, kept)
        return len(kept)


@dataclass
class SummarizeSegmentWork(Job[DueSegment, Summary]):
    """Takes in, one segment at a time, what has left its window.

    The summary so far stands beside what is new, and both make the next: it rolls on, never grows over its limit, and
    reads every message once. A language model writes it where one is configured; else, and where the model's answer is
    of no use, the best sentences of both are chosen, which costs nothing.

    Args:
        settings: those in force.
        vectorize: gives sentences their vectors; None compares them by their words.
        summarizer_for: None chooses sentences.
        since: what was said from this moment on `summarizer_for` may summarize; older words are chosen from.

    Attributes:
        stored: how many messages went into summaries so far.
    """

    store: Store
    settings: Callable[[], Settings]
    now: Callable[[], datetime]
    vectorize: Callable[[Sequence[str]], Vectors] | None = None
    summarizer_for: SummarizerFor | None = None
    since: Callable[[], datetime | None] = lambda: None
    _since: datetime | None = field(default=None, init=False)

    name = SUMMARIZE_SEGMENT
    row = "segment_id"

    def _count(self, tx: Transaction) -> int:
        return segments.count_due(tx)

    def _candidates(self) -> Iterator[Sequence[int]]:
        self._since = self.since()
        return super()._candidates()

    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[DueSegment]]:
        lease_seconds = self.settings().worker.lease_seconds
        due = segments.claim_due(tx, self.owner, _AT_ONCE, self.now(), lease_seconds, self._since)
        return [[due]] if due else []

    def _make(self, items: list[DueSegment]) -> list[Summary]:
        return [self._written(due) or self._chosen(due) for due in items]

    def _keep(self, tx: Transaction, made: Sequence[tuple[DueSegment, Summary]]) -> int:
        now = self.now()
        kept = [due for due, summary in made if segments.put_summary(tx, due, summary.text, now, summary.model)]
        return sum(len(due.left) for due in kept)

    def _written(self, due: DueSegment) -> Summary | None:
        """By a model, the summary so far as the oldest of what there is; None where none may, or it says nothing."""
        summarizer = self.summarizer_for(SEGMENT, due.segment_uid) if self.summarizer_for and due.is_new else None
        if summarizer is None or summarizer.name == EXTRACTIVE:
            return None
        before = [ExchangeText((), summary=due.text)] if due.text else []
        spoken = tuple(Spoken(Role(each.role), each.text, each.author) for each in _spoken_of(due))
        written = summarizer.segment([*before, ExchangeText(spoken)] if spoken else [])
        self._answered()
        if not written.text or written.model == EXTRACTIVE:
            return None
        return replace(written, text=tokens.clip(written.text, self.settings().context.summary_tokens))

    def _chosen(self, due: DueSegment) -> Summary:
        """The sentences of people and agents with their speaker; tools speak for themselves elsewhere."""
        said = [
            f"{message.author or message.role}: {sentence}"
            for message in in_turn(_spoken_of(due))
            for sentence in split_sentences(message.text)
            if tokens.estimate(sentence) >= _SHORTEST_TOKENS
        ]
        lines = list(dict.fromkeys([*due.text.splitlines(), *said]))
        chosen = choose(lines, len(lines), self.vectorize, self.settings().context.summary_tokens)
        return Summary("\n".join(lines[place] for place in chosen) if lines else due.text)


def _spoken_of(due: DueSegment) -> list[Left]:
    speakers = (Role.USER.value, Role.ASSISTANT.value)
    return [each for each in due.left if each.type == MessageType.TEXT.value and each.role in speakers]
