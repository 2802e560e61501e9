"""The embedding pipeline: entries without a vector in the current space get one, newest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog

from harken.errors import EndpointError, HarkenError, ProviderError, SpendLimitError
from harken.jobs.job import LIMIT_POLL, Outage, is_dead, new_owner
from harken.model.conversations import spoken
from harken.providers.embedder import Embedder
from harken.storage.enrichment.jobs import (
    EMBED,
    Claimed,
    claim_unembedded,
    complete,
    count_unembedded,
    fail,
    lease_owners,
    owned,
    release,
)
from harken.storage.ports import Store, StoredSpace
from harken.storage.vectors import activate_space, put_vectors
from harken.text import tokens

# How much of an entry the model reads where entries are long: what tells most comes first in them, and every token
# takes time, which a repository's thousands feel. The rest is found by its words.
_READ_TOKENS = {"code": 56, "commit": 72}
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class EmbedWork:
    """Embeds one batch at a time; any number of processes may do so at once.

    Args:
        space: the space that `embedder` fills.
        batch_size: 1 to 100; a batch is stored whole or not at all.
        fail_fast: raise an endpoint's failure after noting it, instead of going on to the next batch.

    Attributes:
        stored: how many vectors were stored so far.
        halted: why nothing is done at present, in words for a person; empty while work goes on.
        is_limited: whether that is because the day's money is spent.
    """

    store: Store
    embedder: Embedder
    space: StoredSpace
    batch_size: int
    lease_seconds: float
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    owner: str = field(default_factory=new_owner)
    fail_fast: bool = False
    outage: Outage = field(default_factory=Outage)
    stored: int = field(default=0, init=False)
    halted: str = field(default="", init=False)
    is_limited: bool = field(default=False, init=False)
    _settled: int = field(default=0, init=False)

    name = EMBED

    def run_once(self) -> int:
        """Embed one batch.

        Returns:
            How many entries were taken on, well or not; 0 when there is nothing to do now.
        """
        if self.outage.lasts(self.now()):
            return 0
        with self.store.writing(of=()) as tx:
            for owner in lease_owners(tx, EMBED):
                if is_dead(owner):
                    release(tx, EMBED, owner)
            claimed = claim_unembedded(tx, self.space, self.owner, self.batch_size, self.now(), self.lease_seconds)
        if not claimed:
            if self.halted and not self.waiting():
                self.halted, self.is_limited = "", False
            self._take_over()
            if self.stored > self._settled:
                self.store.nearest.build_index()
                self._settled = self.stored
            return 0
        self._embed(claimed)
        return len(claimed)

    def waiting(self) -> int:
        """How many entries still need a vector."""
        with self.store.reading() as tx:
            return count_unembedded(tx, self.space)

    def give_back(self) -> None:
        """Return unfinished leases, for a worker that stops in the middle."""
        with self.store.writing(of=()) as tx:
            release(tx, EMBED, self.owner)

    def _embed(self, claimed: Sequence[Claimed]) -> None:
        asked_at = self.now()
        try:
            matrix = self.embedder.embed_passages([_read(item) for item in claimed])
        except SpendLimitError as error:
            self.halted, self.is_limited = str(error), True
            self.outage.begin(self.now(), self.now() + LIMIT_POLL)
            self.give_back()
            if self.fail_fast:
                raise
            return
        except HarkenError as error:
            if len(claimed) > 1 and not isinstance(error, EndpointError):
                # One bad text must not take its batch with it into the list of the given up.
                middle = len(claimed) // 2
                self._embed(claimed[:middle])
                self._embed(claimed[middle:])
                return
            self._failed(claimed, error, asked_at)
            return
        self.outage.end()
        self.halted, self.is_limited = "", False
        ids = [item.entry_id for item in claimed]
        with self.store.writing(of=()) as tx:
            mine = owned(tx, EMBED, ids, self.owner)
            kept = [index for index, entry_id in enumerate(ids) if entry_id in mine]
            stored = put_vectors(tx, self.space, [ids[index] for index in kept], matrix[kept])
            complete(tx, EMBED, list(mine))
        self.stored += stored

    def _failed(self, claimed: Sequence[Claimed], error: HarkenError, asked_at: datetime) -> None:
        error_class = type(error).__name__
        _log.warning("embedding_failed", entries=len(claimed), error_class=error_class)
        with self.store.writing(of=()) as tx:
            mine = owned(tx, EMBED, [item.entry_id for item in claimed], self.owner)
            fail(tx, EMBED, sorted(mine), error_class, asked_at, self.outage.gives_up(error))
        if isinstance(error, EndpointError):
            self.halted, self.is_limited = str(error), False
            self.outage.begin(asked_at)
        if not isinstance(error, ProviderError) or (self.fail_fast and isinstance(error, EndpointError)):
            raise error

    def _take_over(self) -> None:
        """Let the space answer queries once nothing waits for it any more."""
        if self.space.state == "active":
            return
        with self.store.writing() as tx:
            if count_unembedded(tx, self.space):
                return
            activate_space(tx, self.space)
        self.space = replace(self.space, state="active")
        self.store.nearest.discard()
        _log.info("space_activated", space=self.space.name)


def _read(item: Claimed) -> str:
    """What the model reads of an entry: its beginning, where the rest would take long and say little."""
    text = spoken(item.author, item.text)
    most = _READ_TOKENS.get(item.source)
    return text if most is None else tokens.clip(text, most, marker="")
