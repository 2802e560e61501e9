"""How much of a store can be found by meaning, said with every search until it is all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime

from harken.storage.enrichment.jobs import (
    A_BATCH,
    EMBED,
    Backlog,
    backlog,
    blocked_reason,
    count_embeddable,
    count_waiting,
    is_enabled,
)
from harken.storage.ports import Transaction

GO_ON = "harken worker run --until-idle"
NOTHING_EMBEDDED = f"Searched by words alone: nothing is embedded yet. Go on: {GO_ON}"
NOTHING_RECORDED = "Nothing is recorded yet. Bring in what there is: harken import"
# A percent of a million takes embedding minutes, and counting them a tenth of a second.
_COUNTED_SECONDS = 30.0


@dataclass(slots=True)
class Coverage:
    """Tells what share is embedded; every entry is counted at most twice a minute, and only while many wait."""

    _percent: int = field(default=0, init=False)
    _counted_at: float | None = field(default=None, init=False)

    def notes(self, tx: Transaction, now: datetime) -> list[str]:
        """What to say with a search by meaning: nothing where all is embedded, or will be in a moment.

        A batch that somebody has in hand is a moment's work: in a chat, that is what was said just now.
        """
        found = backlog(tx, now)
        if not found.waiting or (found.waiting <= found.running and found.waiting <= A_BATCH):
            return []
        percent = self._share(tx)
        if percent is None:
            return []
        share = f"{percent} %" if percent else "Under 1 %"
        return [f"{share} embedded; the rest is found by words alone. {_how(tx, found)}"]

    def _share(self, tx: Transaction) -> int | None:
        """Percent that is embedded, rounded down; None where only what was given up has no vector."""
        now = time.monotonic()
        if self._counted_at is None or now - self._counted_at >= _COUNTED_SECONDS:
            waiting, embeddable = count_waiting(tx), count_embeddable(tx)
            if waiting <= 0:
                return None
            self._percent, self._counted_at = 100 * (embeddable - waiting) // embeddable, now
        return self._percent


def _how(tx: Transaction, found: Backlog) -> str:
    if not is_enabled(tx, EMBED):
        return f"Embedding is switched off. Go on: harken embeddings on, and then: {GO_ON}"
    if found.running:
        return "Embedding goes on in the background."
    why = blocked_reason(tx, EMBED)
    return f"Embedding stands still: {why}" if why else f"Go on: {GO_ON}"
