"""Rolling summaries: what leaves a window goes into its segment's summary, each message once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from harken.enrich.extract import Vectorize, choose, sentences_of, word_vectors
from harken.enrich.work import is_dead, new_owner
from harken.errors import HarkenError
from harken.model import MessageType, Role
from harken.storage.segment_summaries import SUMMARIZE_SEGMENT, Due, Left, claim_due, count_due, put_summary
from harken.storage.store import Store
from harken.storage.work import fail, lease_owners, release

# Sentences are compared each with each: so many messages at a time.
_AT_ONCE = 100

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SummarizeSegmentWork:
    """Takes in, one segment at a time, what has left its window.

    The sentences of the summary so far stand beside the new ones, and the best of both make the next: it rolls on,
    never grows over its limit, and reads every message once. Its words are chosen, not made, so it costs nothing.

    Args:
        max_tokens: how long a summary may be; read anew each time.
        vectorize: gives sentences their vectors; None compares them by their words.
    """

    store: Store
    max_tokens: Callable[[], int]
    lease_seconds: float
    vectorize: Vectorize | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    owner: str = field(default_factory=new_owner)

    name = SUMMARIZE_SEGMENT

    def run_once(self) -> int:
        """Take in what left one window; the number of messages, 0 when there is nothing to do now."""
        with self.store.writing() as tx:
            for owner in lease_owners(tx, SUMMARIZE_SEGMENT):
                if is_dead(owner):
                    release(tx, SUMMARIZE_SEGMENT, owner)
            due = claim_due(tx, self.owner, _AT_ONCE, self.now(), self.lease_seconds)
        if due is None:
            return 0
        try:
            text = self._summary(due)
        except HarkenError as error:
            _log.warning("summary_failed", messages=len(due.left), error_class=type(error).__name__)
            with self.store.writing() as tx:
                fail(tx, SUMMARIZE_SEGMENT, [due.segment_id], type(error).__name__, self.now())
            return len(due.left)
        with self.store.writing() as tx:
            put_summary(tx, due, text, self.now())
        return len(due.left)

    def waiting(self) -> int:
        """How many segments have messages that no summary covers yet."""
        with self.store.reading() as tx:
            return count_due(tx)

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        with self.store.writing() as tx:
            release(tx, SUMMARIZE_SEGMENT, self.owner)

    def _summary(self, due: Due) -> str:
        lines = list(dict.fromkeys([*due.text.splitlines(), *_said(due.left)]))
        if not lines:
            return due.text
        vectors = (self.vectorize or word_vectors)(lines)
        return "\n".join(choose(lines, vectors, self.max_tokens()))


def _said(left: tuple[Left, ...]) -> Iterator[str]:
    """The sentences of people and agents with their speaker; tools speak for themselves elsewhere."""
    for message in left:
        if message.type == MessageType.TEXT.value and message.role in (Role.USER.value, Role.ASSISTANT.value):
            for sentence in sentences_of(message.text):
                yield f"{message.author or message.role}: {sentence}"
