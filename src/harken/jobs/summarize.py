"""From messages to what a summarizer takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from harken.errors import EndpointError, HarkenError, ProviderError, SpendLimitError
from harken.jobs.job import LIMIT_POLL, Outage, asked_for, is_dead, new_owner
from harken.model.conversations import ExchangeStatus, MessageType, Role
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
from harken.providers.summarizers.extractive import ExtractiveSummarizer
from harken.storage.enrichment.consent import NO_MODEL, Consent, SummaryBacklog
from harken.storage.enrichment.jobs import complete, fail, lease_owners, owned, release
from harken.storage.enrichment.summaries import (
    EXCHANGE,
    SUMMARIZE,
    TOOLS,
    DueSummary,
    MessageText,
    StoredSummary,
    claim_due,
    conversation_messages,
    conversation_uids_of,
    count_due,
    exchange_messages,
    find_due,
    put_summaries,
    read_summaries,
    short_exchanges,
)
from harken.storage.ports import Store, Transaction


def exchange_text(
    told: Sequence[MessageText],
    status: ExchangeStatus = ExchangeStatus.COMPLETED,
    error: str | None = None,
    summary: str = "",
) -> ExchangeText:
    """One exchange; what was injected as markers, summaries or system messages is no part of it."""
    return ExchangeText(_spoken(told), _tools(told), status, error, summary)


def exchange_texts(told: Sequence[MessageText], summaries: Mapping[str, str]) -> list[ExchangeText]:
    """The exchanges of a conversation in order.

    Args:
        told: messages of the conversation, oldest first.
        summaries: of its exchanges, where there are some, by their uid.
    """
    grouped: dict[str, list[MessageText]] = {}
    for message in told:
        grouped.setdefault(message.exchange_uid, []).append(message)
    return [exchange_text(said, summary=summaries.get(uid, "")) for uid, said in grouped.items()]


def _spoken(told: Sequence[MessageText]) -> tuple[Spoken, ...]:
    return tuple(
        Spoken(each.role, each.text, each.author)
        for each in told
        if each.type is MessageType.TEXT and each.role in (Role.USER, Role.ASSISTANT) and each.text.strip()
    )


def _tools(told: Sequence[MessageText]) -> tuple[ToolUse, ...]:
    results = {each.call_id: each.text for each in told if each.type is MessageType.TOOL_RESULT and each.call_id}
    calls = [each for each in told if each.type is MessageType.TOOL_CALL]
    return tuple(ToolUse(each.tool_name or "tool", each.text, results.get(each.call_id or "", "")) for each in calls)


_log = structlog.get_logger(__name__)

# Another worker may be quicker, more than once.
_TRIES = 3


@dataclass(slots=True)
class SummarizeWork:
    """Summarizes one kind of item; any number of processes may do so at once.

    What a model was paid for is stored at once, item by item. Extracts cost nothing, are stored by the batch, and are
    made also while the model fails or the day's money is spent.

    Args:
        kind: `exchange` or `conversation`.
        summarizer_for: who summarizes an item of that kind and uid that a model may summarize; given the uid so that
            its calls can be booked. Everything else is summarized by extraction.
        batch_size: how many items are claimed at a time.
        rest_seconds: how long nothing must have been said in a conversation before it is summarized.
        wake_next: called after summaries were stored, for instance to wake the embedding worker.
        consent: what a model may summarize; read anew each time.
        backlog: what somebody asked a model to summarize beside that: these items are done and no others.

    Attributes:
        asked: rows of the backlog that are still to be done, the next first.
        stored: how many summaries were stored so far.
        halted: why nothing is done at present, in words for a person; empty while work goes on.
        is_limited: whether that is because the day's money is spent.
    """

    store: Store
    kind: str
    summarizer_for: Callable[[str, str], Summarizer]
    batch_size: int
    lease_seconds: float
    rest_seconds: float
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    owner: str = field(default_factory=new_owner)
    wake_next: Callable[[], None] = lambda: None
    consent: Callable[[], Consent] = lambda: NO_MODEL
    backlog: SummaryBacklog | None = None
    asked: list[int] = field(default_factory=list)
    outage: Outage = field(default_factory=Outage)
    stored: int = field(default=0, init=False)
    halted: str = field(default="", init=False)
    is_limited: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """The kind of work."""
        return SUMMARIZE[self.kind]

    def run_once(self) -> int:
        """Summarize one batch.

        Returns:
            How many items were taken on, well or not; 0 when there is nothing to do now.
        """
        is_paused = self.outage.lasts(self.now())
        if is_paused and self.backlog is not None:
            return 0
        if not is_paused:
            self.halted, self.is_limited = "", False
        due = self._claim_asked(self.backlog) if self.backlog is not None else self._claim(is_paused)
        if due:
            self._summarize(due)
        return len(due)

    def waiting(self) -> int:
        """How many items still need a summary."""
        if self.backlog is not None:
            return len(self.asked)
        with self.store.reading() as tx:
            return count_due(tx, self.kind, self.now(), self.rest_seconds, self.consent())

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        with self.store.writing(of=()) as tx:
            release(tx, self.name, self.owner)

    def _claim(self, is_paused: bool) -> list[DueSummary]:
        consent = replace(self.consent(), is_paused=is_paused)
        for _ in range(_TRIES):
            with self.store.reading() as tx:
                owners = lease_owners(tx, self.name)
                found = find_due(tx, self.kind, self.batch_size, self.now(), self.rest_seconds, consent)
            dead = [owner for owner in owners if is_dead(owner)]
            if not found and not dead:
                return []
            with self.store.writing(of=()) as tx:
                for owner in dead:
                    release(tx, self.name, owner)
                mine = self._claimed(tx, found, consent)
            if mine:
                return mine
        return []

    def _claim_asked(self, backlog: SummaryBacklog) -> list[DueSummary]:
        """The next of what was asked for; what others have done, or do at this moment, is passed over."""
        while self.asked:
            found, self.asked = self.asked[: self.batch_size], self.asked[self.batch_size :]
            with self.store.writing(of=()) as tx:
                mine = self._claimed(tx, found, backlog)
            if mine:
                return mine
        return []

    def _claimed(self, tx: Transaction, found: Sequence[int], wanted: Consent | SummaryBacklog) -> list[DueSummary]:
        return claim_due(tx, self.kind, found, self.owner, self.now(), self.lease_seconds, self.rest_seconds, wanted)

    def _summarize(self, due: Sequence[DueSummary]) -> None:
        by_model = [item for item in due if item.is_new or self.backlog is not None]
        if len(by_model) < len(due):
            self._extract([item for item in due if item not in by_model])
        if not self._write(by_model):
            # Whoever can go on, here or elsewhere, need not wait for the leases to end.
            self.give_back()

    def _extract(self, due: Sequence[DueSummary]) -> None:
        extracts: list[tuple[DueSummary, Summary]] = []
        together, summarizer = self._read(due), ExtractiveSummarizer()
        for item in due:
            asked_at = self.now()
            try:
                extracts.append((item, self._summary(item, summarizer, together.get(item.item_id))))
            except HarkenError as error:
                self._failed(item, error, asked_at)
        if extracts:
            self._store(extracts)

    def _write(self, due: Sequence[DueSummary]) -> bool:
        """Have the model summarize; whether it may be asked for more."""
        for place, item in enumerate(due):
            asked_at = self.now()
            try:
                summarizer = self.summarizer_for(self.kind, item.uid)
                self._store([(item, self._summary(item, summarizer))])
            except HarkenError as error:
                if self._failed(item, error, asked_at):
                    if self.backlog is not None:
                        self.asked += [left.item_id for left in due[place:]]
                    return False
            else:
                self.outage.end()
        return True

    def _read(self, due: Sequence[DueSummary]) -> Mapping[int, Sequence[MessageText]]:
        """What is said in short exchanges, at once: a model would keep the last ones waiting too long."""
        if self.kind != EXCHANGE:
            return {}
        with self.store.reading() as tx:
            return short_exchanges(tx, {item.item_id: item.conversation_id for item in due})

    def _summary(self, item: DueSummary, summarizer: Summarizer, told: Sequence[MessageText] | None = None) -> Summary:
        if told is not None:
            texts = [exchange_text(told, item.status, item.error)]
        else:
            with self.store.reading() as tx:
                texts = self._texts(tx, item, with_summaries=summarizer.name != EXTRACTIVE)
        if self.kind == EXCHANGE:
            self._summarize_tools(item, texts[0].tools, summarizer)
            return summarizer.exchange(texts[0])
        return summarizer.conversation(texts)

    def _summarize_tools(self, item: DueSummary, uses: Sequence[ToolUse], summarizer: Summarizer) -> None:
        """Tell of the tool calls of a long exchange, batch by batch; what was told before a failure is kept."""
        if len(uses) < TOOLS_AT_LEAST:
            return
        with self.store.reading() as tx:
            known = read_summaries(tx, TOOLS, [item.uid]).get(item.uid)
        # What was told by extraction is told anew by a model, which goes on where it was interrupted.
        goes_on = known and (summarizer.name == EXTRACTIVE or known.model != EXTRACTIVE)
        parts = known.text.split("\n\n") if known and known.covers == item.ended_at and goes_on else []
        waiting = tool_batches(uses)[len(parts) :]
        for number, batch in enumerate(waiting, start=1):
            told = summarizer.tools(batch)
            parts.append("\n".join(" ".join(each.text.split()) for each in told))
            if summarizer.name != EXTRACTIVE or number == len(waiting):
                self._store_tools(item, Summary("\n\n".join(parts), model=told[-1].model))

    def _store_tools(self, item: DueSummary, summary: Summary) -> None:
        with self.store.writing() as tx:
            of = conversation_uids_of(tx, [item.conversation_id])
            if item.conversation_id in of and owned(tx, self.name, [item.item_id], self.owner):
                put_summaries(tx, [(replace(self._row(item, summary), kind=TOOLS), of[item.conversation_id])])

    def _texts(self, tx: Transaction, item: DueSummary, with_summaries: bool) -> list[ExchangeText]:
        if self.kind == EXCHANGE:
            told = exchange_messages(tx, item.conversation_id, item.item_id)
            return [exchange_text(told, item.status, item.error)]
        told = conversation_messages(tx, item.conversation_id)
        uids = list({message.exchange_uid for message in told}) if with_summaries else []
        known = read_summaries(tx, EXCHANGE, uids)
        return exchange_texts(told, {uid: summary.text for uid, summary in known.items()})

    def _store(self, made: Sequence[tuple[DueSummary, Summary]]) -> None:
        """All or nothing; what was taken over by another worker meanwhile is left to it."""
        with self.store.writing() as tx:
            mine = owned(tx, self.name, [item.item_id for item, _ in made], self.owner)
            uids = conversation_uids_of(tx, {item.conversation_id for item, _ in made})
            kept = [
                (self._row(item, summary), uids[item.conversation_id])
                for item, summary in made
                if item.item_id in mine and item.conversation_id in uids
            ]
            put_summaries(tx, kept)
            self.stored += len(kept)
            complete(tx, self.name, sorted(mine))
        self.wake_next()

    def _row(self, item: DueSummary, summary: Summary) -> StoredSummary:
        return StoredSummary(self.kind, item.uid, summary.text, summary.title, summary.model, item.ended_at, self.now())

    def _failed(self, item: DueSummary, error: HarkenError, asked_at: datetime) -> bool:
        """Note a failure; whether the rest of the batch is to be left alone as well."""
        _log.warning("summary_failed", work=self.name, item=item.uid, error_class=type(error).__name__)
        if isinstance(error, SpendLimitError):
            self.halted, self.is_limited = str(error), True
            self.outage.begin(self.now(), self.now() + LIMIT_POLL)
            return True
        with self.store.writing(of=()) as tx:
            mine = owned(tx, self.name, [item.item_id], self.owner)
            fail(tx, self.name, sorted(mine), type(error).__name__, asked_at, self.outage.gives_up(error))
        if isinstance(error, EndpointError):
            self.halted = str(error)
            self.outage.begin(asked_at, asked_for(error, self.now()))
            return True
        if not isinstance(error, ProviderError):
            self.give_back()
            raise error
        return False
