"""Requests of a team's members: answered once however often they are repeated, and audited."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from harken.engine.members import require_team_admin
from harken.errors import HarkenError
from harken.log import Log
from harken.model.team import AuditEntry, Speaker
from harken.record.ids import new_uid
from harken.storage.team.people import list_principals
from harken.storage.team.requests import (
    KEPT_FOR,
    Claim,
    add_entries,
    beside,
    check_schema,
    claimed,
    list_entries,
    remove_old,
)

if TYPE_CHECKING:
    from harken.storage.team.control import ControlTables

_log = Log(__name__)
# Each holds a connection beside those of what it asks for.
_MOST_CLAIMS = 16
_FLUSH_SECONDS, _MOST_WAITING, _MOST_AT_ONCE = 0.5, 10_000, 500
_TIDY_EVERY = timedelta(hours=1)


class Requests:
    """Keeps answers for a day, and the audit for as long as the settings say.

    Args:
        control: the tables of teams.
        audit_days: how long a line of the audit is kept.
        now: the present moment.
    """

    def __init__(self, control: ControlTables, audit_days: int, now: Callable[[], datetime]) -> None:
        self._control = control
        self._audit_days = timedelta(days=audit_days)
        self._now = now
        self._claims = threading.BoundedSemaphore(_MOST_CLAIMS)
        self._waiting: deque[tuple[str, AuditEntry]] = deque(maxlen=_MOST_WAITING)
        self._flushing, self._writing = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._tidied: dict[str, datetime] = {}

    @contextmanager
    def once(self, speaker: Speaker, once: str, digest: str) -> Iterator[Claim]:
        """Claim a request by its asker's own name for it; see `claimed`.

        Args:
            speaker: who asks.
            once: their name for it.
            digest: of all that they ask for.
        """
        named = speaker.principal.team, speaker.principal.id, once, digest
        with self._claims, claimed(self._control, *named, self._now()) as claim:
            yield claim

    def note(self, entry: AuditEntry, at_once: bool) -> None:
        """Write a line of the audit: now, or with others within half a second, so that whoever reads does not wait.

        Raises:
            StoreError: it was to be written now, and was not.
        """
        line = new_uid(entry.at), entry
        if at_once:
            self._write([line])
            return
        self._waiting.append(line)
        with self._flushing:
            if self._timer is None:
                self._timer = threading.Timer(_FLUSH_SECONDS, self._flush_later)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write every line that waits; what another thread is writing is written when this returns."""
        with self._writing:
            while self._waiting:
                lines: list[tuple[str, AuditEntry]] = []
                while self._waiting and len(lines) < _MOST_AT_ONCE:
                    lines.append(self._waiting.popleft())
                try:
                    self._write(lines)
                except HarkenError as error:
                    self._waiting.extendleft(reversed(lines))
                    _log.error("audit_not_written", lines=len(self._waiting), error_class=type(error).__name__)
                    return

    def close(self) -> None:
        """Write what waits, and end; nothing is noted from then on but at once."""
        with self._flushing:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            # One that has begun to write ends first.
            timer.join()
        self.flush()

    def audited(
        self, by: Speaker, of: Sequence[str | None], since: datetime | None, before: datetime | None, limit: int
    ) -> list[AuditEntry]:
        """Lines of the team's audit, newest first; `of` a principal by name or id (also one erased), and a verb.

        Raises:
            ScopeError: the speaker does not manage the team.
        """
        require_team_admin(by)
        self.flush()
        with self._control.reading(by.principal.team) as tx:
            whose = next((one.id for one in list_principals(tx) if one.name == of[0]), of[0])
            return list_entries(tx, (whose, of[1]), since, before, limit)

    def check(self) -> None:
        """Pass if the store answers and has tables that this Harken can go on with.

        Raises:
            StoreError: it does not.
        """
        check_schema(self._control)

    def _flush_later(self) -> None:
        with self._flushing:
            self._timer = None
        self.flush()

    def _write(self, lines: list[tuple[str, AuditEntry]]) -> None:
        teams: dict[str, list[tuple[str, AuditEntry]]] = {}
        for line in lines:
            teams.setdefault(line[1].team, []).append(line)
        for team, own in teams.items():
            now = self._now()
            is_due = now - self._tidied.get(team, datetime.min.replace(tzinfo=now.tzinfo)) > _TIDY_EVERY
            with beside(self._control, team) as tx:
                add_entries(tx, own)
                if is_due:
                    remove_old(tx, now - self._audit_days, now - KEPT_FOR)
            self._tidied[team] = now if is_due else self._tidied[team]
