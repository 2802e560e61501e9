"""The log of searches of past conversations: a line for each, written at once or when nobody waits any more."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial

from harken.log import Log
from harken.model.lookups import Retrieval
from harken.storage.past import RETRIEVALS, log_retrieval
from harken.storage.ports import Store

_MOST_UNWRITTEN = 1_000

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class RetrievalLog:
    """Lines on their way into the log, oldest first; threads share it.

    Whoever writes stands behind everybody else who does, so a search that somebody waits for only adds its line.
    """

    store: Store
    _unwritten: deque[Retrieval] = field(default_factory=partial(deque, maxlen=_MOST_UNWRITTEN), init=False)

    def add(self, line: Retrieval) -> None:
        """Have a line written with the next `write`."""
        self._unwritten.append(line)

    def write(self) -> None:
        """Write the lines that wait, in one transaction; those that the store refuses are lost."""
        lines = []
        while self._unwritten:
            try:
                lines.append(self._unwritten.popleft())
            except IndexError:
                # Another thread has written the rest.
                break
        if not lines:
            return
        try:
            with self.store.writing(RETRIEVALS) as tx:
                for line in lines:
                    log_retrieval(tx, line)
        except Exception as error:  # noqa: BLE001 - what was found is worth more than a line about it
            _log.warning("retrieval_not_logged", error_class=type(error).__name__)
