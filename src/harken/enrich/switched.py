"""Work that can be switched off, and that says why it stands still: kept in the store, seen by every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harken.enrich.embed import EmbedWork
from harken.enrich.summarize import SummarizeWork
from harken.enrich.summarize_segment import SummarizeSegmentWork
from harken.enrich.worker import Work
from harken.storage.store import Store
from harken.storage.work_counts import halted, is_enabled, put_halted

# Work that can stand still, and says why.
_Halting = SummarizeWork | SummarizeSegmentWork | EmbedWork


@dataclass(slots=True)
class SwitchedWork:
    """Does work unless somebody switched it off, here or in another process.

    Args:
        work: what is done.
        rest_seconds: of conversations, for summaries; read anew each time.
        is_asked_for: somebody waits for it, so that no switch holds it back.
    """

    store: Store
    work: Work
    rest_seconds: Callable[[], float]
    is_asked_for: bool = False
    _halted: str | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The kind of work."""
        return self.work.name

    def run_once(self) -> int:
        """Do one batch; 0 when it is switched off or there is nothing to do now."""
        if not self._enabled():
            return 0
        if isinstance(self.work, SummarizeWork):
            self.work.rest_seconds = self.rest_seconds()
        try:
            return self.work.run_once()
        finally:
            if isinstance(self.work, _Halting):
                self._note(self.work.halted)

    def waiting(self) -> int:
        """How many items somebody may wait for; none where it is switched off or the day's money is spent."""
        if not self._enabled() or (isinstance(self.work, _Halting) and self.work.is_limited):
            return 0
        return self.work.waiting()

    def give_back(self) -> None:
        """Return what was claimed and not finished."""
        self.work.give_back()

    def _enabled(self) -> bool:
        if self.is_asked_for:
            return True
        with self.store.reading() as tx:
            return is_enabled(tx, self.name)

    def _note(self, why: str) -> None:
        if self._halted is None:
            with self.store.reading() as tx:
                self._halted = halted(tx, self.name)
        if why != self._halted:
            with self.store.writing() as tx:
                put_halted(tx, self.name, why)
            self._halted = why
