"""What members of a team have asked: answers that are given again to a repeat, and the audit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, or_, update
from sqlalchemy.dialects.postgresql import insert

from harken.errors import RepeatedRequestError, StoreBusyError, UsageError
from harken.model.team import AuditEntry
from harken.storage import migrations
from harken.storage.postgres.connection import Beginnings, entered
from harken.storage.postgres.dialect import PostgresDialect, bare_rows
from harken.storage.postgres.schema import check_version, serves_from
from harken.storage.tables import to_microseconds
from harken.storage.team.control import ControlTables, TeamTransaction
from harken.storage.team.people import hold_principal
from harken.storage.team.tables import audit, requests

KEPT_FOR = timedelta(hours=24)
_AUDITED = ("at", "principal", "key", "space", "verb", "via", "status", "ids")


@dataclass(slots=True)
class Claim:
    """The right to answer a request, held until the transaction around it ends.

    Attributes:
        answer: that of the first time, where this is a repeat.
        is_answered: whether it was answered before, with an answer that may not be written down.
    """

    answer: dict[str, Any] | None = None
    is_answered: bool = False
    kept: str | None = None

    def keep(self, answer: dict[str, Any] | None) -> None:
        """Have the answer given to whoever repeats the request; None where it may be written down nowhere."""
        self.kept = None if answer is None else json.dumps(answer)


@contextmanager
def beside(control: ControlTables, team: str) -> Iterator[TeamTransaction]:
    """A transaction that writes and locks nothing of the team but the rows that it changes."""
    begins = Beginnings(team, on_cluster=False).writing(())[:2]
    with control.translated(), entered(control.engine, begins) as connection:
        yield TeamTransaction(connection, team)


@contextmanager
def claimed(
    control: ControlTables, team: str, principal: str, once: str, digest: str, now: datetime
) -> Iterator[Claim]:
    """Claim a request by its asker's own name for it; whoever repeats it meanwhile waits.

    The claim is a row that others see with the commit alone: it ends with this process, however that ends.

    Raises:
        UsageError: by this name something else was asked for.
        RepeatedRequestError: it is still being answered, after as long as a lock is waited for.
    """
    is_inside = False
    try:
        # No lock of the team is taken: what is asked for takes its own, and may take longer than others wait.
        with beside(control, team) as tx:
            claim = _claim(tx, principal, once, digest, now)
            is_inside = True
            yield claim
            is_inside = False
            if not hold_principal(tx, principal):
                # They were erased meanwhile: nothing of theirs stays.
                tx.delete(requests, requests.c.principal == principal)
            elif claim.kept is not None:
                mine = {"of_team": team, "whose": principal, "named": once, "kept": claim.kept}
                PostgresDialect().execute_each(tx.connection, _ANSWER, [mine])
    except StoreBusyError as error:
        if is_inside:
            raise
        raise RepeatedRequestError("This request is still being answered. Ask again in a moment.") from error


def _claim(tx: TeamTransaction, principal: str, once: str, digest: str, now: datetime) -> Claim:
    values = {"of_team": tx.team, "whose": principal, "named": once, "of": digest, "moment": to_microseconds(now)}
    if bare_rows(tx.connection, _CLAIM, values):
        return Claim()
    mine = (requests.c.principal == principal, requests.c.once == once)
    row = tx.rows(requests, where=mine)[0]
    if row.at < now - KEPT_FOR:
        tx.update(requests, *mine, digest=digest, answer=None, at=now)
        return Claim()
    if row.digest != digest:
        raise UsageError("Idempotency-Key: this key was used for another request. Make a new one for each.")
    return Claim(None if row.answer is None else json.loads(row.answer), is_answered=True)


def add_entries(tx: TeamTransaction, entries: Sequence[tuple[str, AuditEntry]]) -> None:
    """Add lines to the audit, each with an id of its own."""
    rows = [
        {"team": tx.team, "id": uid, **{name: getattr(entry, name) for name in _AUDITED}, "ids": list(entry.ids)}
        for uid, entry in entries
    ]
    PostgresDialect().execute_each(tx.connection, _AUDIT, rows)


# Made once: they run with every request that writes.
_PLACES = {"team": "of_team", "principal": "whose", "once": "named", "digest": "of", "at": "moment"}
_GIVEN: dict[str, Any] = {column: bindparam(place) for column, place in _PLACES.items()}
_CLAIM = insert(requests).values(_GIVEN).on_conflict_do_nothing().returning(requests.c.once)
_AUDIT = insert(audit)
_ANSWER = (
    update(requests)
    .where(requests.c.team == bindparam("of_team"), requests.c.principal == bindparam("whose"))
    .where(requests.c.once == bindparam("named"))
    .values(answer=bindparam("kept"))
)


def list_entries(
    tx: TeamTransaction, of: Sequence[str | None], since: datetime | None, before: datetime | None, limit: int
) -> list[AuditEntry]:
    """Lines of the audit, newest first; `of` a principal, and of a verb, or of all."""
    statement = tx.select(audit)
    for column, value in zip((audit.c.principal, audit.c.verb), of, strict=True):
        statement = statement if value is None else statement.where(column == value)
    if since is not None:
        statement = statement.where(audit.c.at >= since)
    if before is not None:
        statement = statement.where(audit.c.at < before)
    ordered = statement.order_by(audit.c.at.desc(), audit.c.id.desc()).limit(limit)
    return [
        AuditEntry(team=tx.team, **{**{name: getattr(row, name) for name in _AUDITED}, "ids": tuple(row.ids)})
        for row in tx.connection.execute(ordered)
    ]


def remove_old(tx: TeamTransaction, audited_since: datetime, kept_since: datetime) -> None:
    """Remove lines of the audit, and answers, from before these moments."""
    tx.delete(audit, audit.c.at < audited_since)
    tx.delete(requests, requests.c.at < kept_since)


def drop_requests(tx: TeamTransaction, principal: str) -> None:
    """Remove answers kept for a principal, whose names for requests may be anything, and others that tell of them."""
    tx.delete(requests, or_(requests.c.principal == principal, requests.c.answer.contains(principal)))


def check_schema(control: ControlTables) -> None:
    """Pass if the server answers, with tables that this Harken can go on with, an older one's or a newer one's.

    Raises:
        StoreError: it does not.
    """
    with control.reading("") as tx:
        check_version("The store", migrations.current_version(tx.connection), serves_from(tx.connection))
