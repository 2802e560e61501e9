"""Work that can be switched off, and that says why it stands still: kept in the store, seen by every process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import structlog

from harken.enrich.work import Outage
from harken.enrich.worker import Work
from harken.errors import ConfigError, MissingExtraError, ProviderError
from harken.storage.store import Store
from harken.storage.work_counts import halted, is_enabled, put_halted

_log = structlog.get_logger(__name__)


class HaltingWork(Work, Protocol):
    """Work that knows why it stands still."""

    @property
    def halted(self) -> str:
        """Why nothing is done at present, in words for a person; empty while work goes on."""
        ...

    @property
    def is_limited(self) -> bool:
        """Whether that is because the day's money is spent."""
        ...


@dataclass(slots=True)
class SwitchedWork:
    """Does work unless somebody switched it off, here or in another process.

    What the work needs may not be there yet: an endpoint that does not answer, an extra that is not installed. That is
    a failure like any other: it is said, and tried again for as long as it lasts.

    Args:
        name: the kind of work.
        opened: gives the work, with what it needs for a batch open; asked before each.
        is_wanted: do it even where it is switched off, for somebody asks for it.

    Attributes:
        halted: why nothing is done here at present, in words for a person; empty while work goes on.
    """

    store: Store
    name: str
    opened: Callable[[], HaltingWork]
    now: Callable[[], datetime]
    is_wanted: bool = False
    halted: str = field(default="", init=False)
    _kept: str | None = field(default=None, init=False)
    _work: HaltingWork | None = field(default=None, init=False)
    _outage: Outage = field(default_factory=lambda: Outage(is_waited_out=True), init=False)

    def run_once(self) -> int:
        """Do one batch; 0 when it is switched off, cannot be done, or there is nothing to do now."""
        if self._outage.lasts(self.now()) or not self._enabled():
            return 0
        asked_at = self.now()
        try:
            self._work = self.opened()
        except (ConfigError, MissingExtraError, ProviderError) as error:
            _log.warning("work_not_opened", work=self.name, error_class=type(error).__name__)
            self._outage.begin(asked_at)
            self._note(str(error))
            return 0
        self._outage.end()
        try:
            return self._work.run_once()
        finally:
            self._note(self._work.halted)

    def waiting(self) -> int:
        """How many items somebody may wait for; none where it is switched off or the day's money is spent."""
        if self._work is None or self._work.is_limited or not self._enabled():
            return 0
        return self._work.waiting()

    def give_back(self) -> None:
        """Return what was claimed and not finished."""
        if self._work is not None:
            self._work.give_back()

    def _enabled(self) -> bool:
        if self.is_wanted:
            return True
        with self.store.reading() as tx:
            return is_enabled(tx, self.name)

    def _note(self, why: str) -> None:
        self.halted = why
        if self._kept is None:
            with self.store.reading() as tx:
                self._kept = halted(tx, self.name)
        if why != self._kept:
            with self.store.writing() as tx:
                put_halted(tx, self.name, why)
            self._kept = why
