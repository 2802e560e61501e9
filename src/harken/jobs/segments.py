"""Summaries without a model: the sentences that stand for the rest, in their own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from harken.errors import EndpointError, HarkenError, SpendLimitError
from harken.jobs.job import LIMIT_POLL, Outage, asked_for, is_dead, new_owner
from harken.model.conversations import MessageType, Role
from harken.providers.embedder import Vectors
from harken.providers.summarizer import EXTRACTIVE, ExchangeText, Spoken, Summarizer
from harken.providers.summarizers.extractive import choose
from harken.storage.enrichment.jobs import fail, lease_owners, release
from harken.storage.enrichment.segments import SUMMARIZE_SEGMENT, DueSegment, Left, claim_due, count_due, put_summary
from harken.storage.ports import Store
from harken.text import tokens
from harken.text.words import split_sentences

# A shorter sentence says nothing alone.
_SHORTEST_TOKENS = 5
Vectorize = Callable[[Sequence[str]], Vectors]
# Sentences are compared each with each: so many messages at a time.
_AT_ONCE = 100

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SummarizeSegmentWork:
    """Takes in, one segment at a time, what has left its window.

    The summary so far stands beside what is new, and both make the next: it rolls on, never grows over its limit, and
    reads every message once. A language model writes it where one is configured; else, and where the model's answer is
    of no use, the best sentences of both are chosen, which costs nothing.

    Args:
        max_tokens: how long a summary may be; read anew each time.
        vectorize: gives sentences their vectors; None compares them by their words.
        summarizer_for: who summarizes the segment of an id; None chooses sentences.
        since: what was said from this moment on `summarizer_for` may summarize; older words are chosen from.

    Attributes:
        halted: why nothing is done at present, in words for a person; empty while work goes on.
        is_limited: whether that is because the day's money is spent.
    """

    store: Store
    max_tokens: Callable[[], int]
    lease_seconds: float
    vectorize: Vectorize | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    owner: str = field(default_factory=new_owner)
    summarizer_for: Callable[[str], Summarizer] | None = None
    since: Callable[[], datetime | None] = lambda: None
    outage: Outage = field(default_factory=Outage)
    halted: str = field(default="", init=False)
    is_limited: bool = field(default=False, init=False)

    name = SUMMARIZE_SEGMENT

    def run_once(self) -> int:
        """Take in what left one window; the number of messages, 0 when there is nothing to do now."""
        if self.outage.lasts(self.now()):
            return 0
        self.halted, self.is_limited = "", False
        since = self.since()
        with self.store.writing() as tx:
            for owner in lease_owners(tx, SUMMARIZE_SEGMENT):
                if is_dead(owner):
                    release(tx, SUMMARIZE_SEGMENT, owner)
            due = claim_due(tx, self.owner, _AT_ONCE, self.now(), self.lease_seconds, since)
        if due is None:
            return 0
        asked_at = self.now()
        try:
            text, model = self._summary(due)
        except HarkenError as error:
            self._failed(due, error, asked_at)
            return len(due.left)
        with self.store.writing() as tx:
            put_summary(tx, due, text, self.now(), model)
        return len(due.left)

    def waiting(self) -> int:
        """How many segments have messages that no summary covers yet."""
        with self.store.reading() as tx:
            return count_due(tx)

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        with self.store.writing() as tx:
            release(tx, SUMMARIZE_SEGMENT, self.owner)

    def _summary(self, due: DueSegment) -> tuple[str, str]:
        """The next summary, and who wrote it."""
        summarizer = self.summarizer_for(due.segment_uid) if self.summarizer_for and due.is_new else None
        if summarizer is not None and summarizer.name != EXTRACTIVE:
            written = summarizer.segment(_told(due))
            self.outage.end()
            if written.text and written.model != EXTRACTIVE:
                return tokens.clip(written.text, self.max_tokens()), written.model
        return self._chosen(due), EXTRACTIVE

    def _chosen(self, due: DueSegment) -> str:
        lines = list(dict.fromkeys([*due.text.splitlines(), *_said(due.left)]))
        chosen = choose(lines, len(lines), self.vectorize, self.max_tokens())
        return "\n".join(lines[place] for place in chosen) if lines else due.text

    def _failed(self, due: DueSegment, error: HarkenError, asked_at: datetime) -> None:
        _log.warning("summary_failed", messages=len(due.left), error_class=type(error).__name__)
        if isinstance(error, SpendLimitError):
            self.halted, self.is_limited = str(error), True
            self.outage.begin(self.now(), self.now() + LIMIT_POLL)
            self.give_back()
            return
        gives_up = self.outage.gives_up(error)
        if isinstance(error, EndpointError) and self.summarizer_for is not None:
            self.halted = str(error)
            self.outage.begin(asked_at, asked_for(error, self.now()))
        with self.store.writing() as tx:
            fail(tx, SUMMARIZE_SEGMENT, [due.segment_id], type(error).__name__, asked_at, gives_up)


def _told(due: DueSegment) -> Sequence[ExchangeText]:
    """The summary so far as the oldest of what there is, then what was said."""
    spoken = tuple(
        Spoken(Role(message.role), message.text, message.author) for message in due.left if _is_spoken(message)
    )
    before = [ExchangeText((), summary=due.text)] if due.text else []
    return [*before, ExchangeText(spoken)] if spoken else []


def _said(left: Sequence[Left]) -> Iterator[str]:
    """The sentences of people and agents with their speaker; tools speak for themselves elsewhere."""
    for message in left:
        if _is_spoken(message):
            for sentence in split_sentences(message.text):
                if tokens.estimate(sentence) >= _SHORTEST_TOKENS:
                    yield f"{message.author or message.role}: {sentence}"


def _is_spoken(message: Left) -> bool:
    return message.type == MessageType.TEXT.value and message.role in (Role.USER.value, Role.ASSISTANT.value)
