"""How each kind of background work stands, for people who look at it from any process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, select

from harken.storage.state import get_setting, set_setting
from harken.storage.store import Transaction
from harken.storage.tables import failed_work, summaries, work

_SWITCH = "worker:"
_HALT = "halted:"


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Rows of one kind of work.

    Attributes:
        leased: items that somebody is working on.
        retrying: items that failed and are tried again.
        given_up: items that failed too often.
        retry_at: when the first of those is tried again; None where none waits.
        last_error: class of the error that was given up on last.
    """

    leased: int = 0
    retrying: int = 0
    given_up: int = 0
    retry_at: datetime | None = None
    last_error: str | None = None


def count_work(tx: Transaction, kind: str, now: datetime) -> WorkCounts:
    """How the rows of a kind of work stand."""
    leased = (work.c.claimed_by.is_not(None)) & (work.c.lease_until >= now)
    retrying = (work.c.claimed_by.is_(None)) & (work.c.retry_at.is_not(None))
    row = tx.connection.execute(
        select(
            func.sum(case((leased, 1), else_=0)).label("leased"),
            func.sum(case((retrying, 1), else_=0)).label("retrying"),
            func.min(case((retrying, work.c.retry_at))).label("retry_at"),
        ).where(work.c.tenant == tx.tenant, work.c.kind == kind)
    ).one()
    of_kind = (failed_work.c.tenant == tx.tenant, failed_work.c.kind == kind)
    given_up = tx.connection.execute(select(func.count()).select_from(failed_work).where(*of_kind)).scalar_one()
    last_error = tx.connection.execute(
        select(failed_work.c.error_class).where(*of_kind).order_by(failed_work.c.failed_at.desc()).limit(1)
    ).scalar()
    return WorkCounts(int(row.leased or 0), int(row.retrying or 0), int(given_up), row.retry_at, last_error)


def count_summaries(tx: Transaction, kind: str) -> int:
    """How many summaries of a kind there are."""
    mine = (summaries.c.tenant == tx.tenant, summaries.c.kind == kind)
    return int(tx.connection.execute(select(func.count()).select_from(summaries).where(*mine)).scalar_one())


def is_enabled(tx: Transaction, kind: str) -> bool:
    """Whether the work is to be done; all work is, until somebody says otherwise."""
    return get_setting(tx, _SWITCH + kind) is not False


def put_enabled(tx: Transaction, kind: str, enabled: bool) -> None:
    """Remember whether the work is to be done, for every process and after restarts."""
    set_setting(tx, _SWITCH + kind, None if enabled else False)


def halted(tx: Transaction, kind: str) -> str:
    """Why nothing was done when somebody last tried, in words for a person; empty while work goes on."""
    return str(get_setting(tx, _HALT + kind) or "")


def put_halted(tx: Transaction, kind: str, why: str) -> None:
    """Remember why nothing is done; empty when work goes on."""
    set_setting(tx, _HALT + kind, why or None)
