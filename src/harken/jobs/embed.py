"""The embedding job: entries without a vector in the current space get one, newest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from harken.jobs.job import Job
from harken.log import Log
from harken.model.conversations import spoken
from harken.providers.embedder import Embedder, Vectors
from harken.storage.enrichment.jobs import Claimed, claim_unembedded, count_unembedded
from harken.storage.ports import Store, StoredSpace, Transaction
from harken.storage.vectors import EMBED, activate_space, put_vectors
from harken.text import tokens

# How much of an entry the model reads where entries are long: what tells most comes first in them, and every token
# takes time, which a repository's thousands feel. The rest is found by its words.
_READ_TOKENS = {"code": 56, "commit": 72}
_log = Log(__name__)


@dataclass
class EmbedWork(Job[Claimed, Vectors]):
    """Embeds one batch at a time.

    Args:
        space: the space that `embedder` fills.
        batch_size: 1 to 100; a batch is stored whole or not at all.
    """

    store: Store
    embedder: Embedder
    space: StoredSpace
    batch_size: int
    lease_seconds: float
    now: Callable[[], datetime]
    _indexed: int = field(default=0, init=False)

    name = EMBED
    row = "entry_id"
    locks = ()

    def _count(self, tx: Transaction) -> int:
        return count_unembedded(tx, self.space)

    def _claim(self, tx: Transaction, rows: Sequence[int]) -> list[list[Claimed]]:
        limits = self.batch_size, self.now(), self.lease_seconds, self.max_retries
        claimed = claim_unembedded(tx, self.space, self.owner, *limits)
        return [claimed] if claimed else []

    def _make(self, items: list[Claimed]) -> Sequence[Vectors]:
        matrix = self.embedder.embed_passages([_read(item) for item in items])
        self._answered()
        return list(matrix)

    def _keep(self, tx: Transaction, made: Sequence[tuple[Claimed, Vectors]]) -> int:
        import numpy as np

        return put_vectors(tx, self.space, [item.entry_id for item, _ in made], np.stack([each for _, each in made]))

    def _idle(self) -> None:
        if self.space.state != "active":
            self._take_over()
        if self.stored > self._indexed:
            self.store.nearest.build_index()
            self._indexed = self.stored

    def _take_over(self) -> None:
        with self.store.writing() as tx:
            if count_unembedded(tx, self.space):
                return
            activate_space(tx, self.space)
        self.space = replace(self.space, state="active")
        self.store.nearest.discard()
        _log.info("space_activated", space=self.space.name)


def _read(item: Claimed) -> str:
    """The beginning of an entry, where the rest would take long and say little."""
    text = spoken(item.author, item.text)
    most = _READ_TOKENS.get(item.source)
    return text if most is None else tokens.clip(text, most, marker="")
