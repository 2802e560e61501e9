"""Background work as rows: found by query, claimed with a lease, given up after enough failures, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Insert, Text, and_, bindparam, case, delete, func, literal_column, or_, select

from harken.storage.ports import AMONG, Dialect, Question, StoredSpace, Transaction, named_rows
from harken.storage.state import RowCounts, count_rows, get_setting, read_counters, set_setting, setting_question
from harken.storage.tables import entries, failed_work, reader, same, summaries, to_microseconds, vectors, work
from harken.storage.vectors import EMBED, EMBED_LANGUAGES, VECTORS_REMOVED, is_second, list_spaces

BACKOFF_SECONDS = (1, 2, 4, 8, 16, 32)
# Where failures are waited out, so that what was out of order is in use again within a minute of its repair.
WAITED_OUT_SECONDS = BACKOFF_SECONDS[:-1]


@dataclass(frozen=True, slots=True)
class Claimed:
    """An entry to embed: its row, what it is of, and its words with their speaker; whether by both models at once."""

    entry_id: int
    source: str
    author: str | None
    text: str
    is_for_both: bool = False


@dataclass(frozen=True, slots=True)
class FailedWork:
    """Work that was given up."""

    kind: str
    item_id: int
    attempts: int
    error_class: str
    failed_at: datetime

    @property
    def is_embedding(self) -> bool:
        """True where an entry was to be embedded."""
        return self.kind in (EMBED, EMBED_LANGUAGES)

    def view(self) -> dict[str, Any]:
        """The work as JSON."""
        return {"kind": self.kind, "item": self.item_id, "attempts": self.attempts, "error_class": self.error_class}


def is_free(now: Any) -> ColumnElement[bool]:
    """The condition that an item can be taken now, by its row of work, which is outer joined."""
    return or_(
        work.c.id.is_(None),
        and_(
            or_(work.c.lease_until.is_(None), work.c.lease_until < now),
            or_(work.c.retry_at.is_(None), work.c.retry_at <= now),
        ),
    )


def claim_unembedded(
    tx: Transaction,
    space: StoredSpace,
    owner: str,
    limit: int,
    now: datetime,
    lease_seconds: float,
    max_retries: int = len(BACKOFF_SECONDS),
    second_owner: str = "",
) -> list[Claimed]:
    """Take up to `limit` entries without a vector in the space, newest first, that nobody else is working on.

    Where they are fewer, a second owner takes them on as well, for the second model.
    Those that have none at all come before those that another space has. What has failed before comes last, so that an
    outage does not use up the attempts of the newest, and in ever smaller parts, half as many each time: in the end, an
    entry that spoils every batch is tried, and given up, alone.
    """
    named = {"of_tenant": tx.tenant, "free_at": to_microseconds(now), "most": limit, "of_space": 0}
    # Space by space, in the order of an index: to sort all that waits took 46 ms for 20,000 entries, each time.
    if not (rows := named_rows(tx, _ready(is_fresh=True), named)):
        each = [(is_fresh, had) for is_fresh in (True, False) for had in _other_spaces(tx, space)]
        tried = (named_rows(tx, _ready(is_fresh), {**named, "of_space": had}) for is_fresh, had in each[1:])
        rows = next(filter(None, tried), [])
    alike = [row for row in rows if row.attempts == rows[0].attempts]
    is_last = bool(rows) and rows[0].attempts >= max_retries
    rows = alike[: 1 if is_last else max(1, limit >> rows[0].attempts)] if rows else []
    owners = {EMBED: owner} | ({EMBED_LANGUAGES: second_owner} if second_owner and 0 < len(rows) < limit else {})
    mine, *more = claim(tx, owners, [row.id for row in rows], now, lease_seconds)
    both = more[0] if more else set()
    return [Claimed(row.id, row.source, row.author, row.text, row.id in both) for row in rows if row.id in mine]


@cache
def _ready(is_fresh: bool) -> Any:
    """What waits in a space, or what of it was never tried; made once, for it is asked behind each message."""
    of_tenant, attempts = bindparam("of_tenant", type_=Text), func.coalesce(work.c.attempts, 0)
    columns = (entries.c.id, entries.c.source, entries.c.author, entries.c.text, attempts.label("attempts"))
    given_up = failed_work.c.tenant == of_tenant, failed_work.c.kind == EMBED, failed_work.c.item_id == entries.c.id
    fresh = (attempts == 0,) if is_fresh else ()
    ready = (
        select(*columns)
        .select_from(entries.outerjoin(work, and_(same(entries.c.id, work.c.item_id), work.c.kind == EMBED)))
        .where(entries.c.tenant == of_tenant, entries.c.space_id == bindparam("of_space"), *fresh)
        .where(~select(failed_work.c.id).where(*given_up).exists(), is_free(bindparam("free_at")))
        .order_by(entries.c.created_at.desc(), entries.c.id.desc())
        .limit(bindparam("most"))
    )
    # Where writers run beside each other, what another one claims at this moment is passed over.
    return ready.with_for_update(of=entries, skip_locked=True)


def claim_second(
    tx: Transaction,
    spaces: Sequence[StoredSpace],
    after: int,
    owner: str,
    limit: int,
    now: datetime,
    lease_seconds: float,
) -> list[Claimed]:
    """Take up to `limit` entries without a vector in the spaces of the second model, oldest first, beyond a row.

    Nothing marks such an entry, or every message would be written twice: whoever looks remembers how far.
    """
    of_work = and_(same(entries.c.id, work.c.item_id), work.c.kind == EMBED_LANGUAGES)
    ready = (
        tx.select(entries.c.id, entries.c.source, entries.c.author, entries.c.text)
        .select_from(entries.outerjoin(work, of_work))
        .where(entries.c.id > after, *_without_second(tx, spaces), is_free(now))
        .order_by(entries.c.id)
        .limit(limit)
        .with_for_update(of=entries, skip_locked=True)
    )
    rows = tx.connection.execute(ready).all()
    [mine] = claim(tx, {EMBED_LANGUAGES: owner}, [row.id for row in rows], now, lease_seconds)
    return [Claimed(*row) for row in rows if row.id in mine]


def count_without_second(tx: Transaction, spaces: Sequence[StoredSpace]) -> int:
    """How many entries still wait for a vector of the second model; what was given up is not among them."""
    return tx.count(entries, *_without_second(tx, spaces))


def _without_second(tx: Transaction, spaces: Sequence[StoredSpace]) -> tuple[ColumnElement[bool], ...]:
    mine = same(entries.c.id, vectors.c.entry_id), vectors.c.space_id.in_([space.id for space in spaces])
    there = select(vectors.c.id).where(*mine).correlate(entries).exists()
    return entries.c.space_id.is_not(None), ~there, ~is_given_up(tx, EMBED_LANGUAGES, entries.c.id)


def second_state(tx: Transaction) -> tuple[int, int, int]:
    """Vectors that were ever removed, entries that are given up, and in work: what makes others wait again."""
    removed = read_counters(tx, VECTORS_REMOVED).get("", 0)
    given_up, in_work = (tx.count(table, table.c.kind == EMBED_LANGUAGES) for table in (failed_work, work))
    return removed, given_up, in_work


def count_unembedded(tx: Transaction, space: StoredSpace) -> int:
    """How many entries still wait for a vector in the space; what was given up is not among them."""
    waiting = entries.c.space_id.in_(_other_spaces(tx, space)), ~is_given_up(tx, EMBED, entries.c.id)
    return tx.count(entries, *waiting)


def count_embedding(tx: Transaction, space: StoredSpace | None, counted: RowCounts | None = None) -> tuple[int, int]:
    """How many vectors the space has, and how many entries wait for one; without a space, all that may have one."""
    rows = counted or count_rows(tx)
    if space is None:
        return 0, rows.embeddable
    lacking = sum(number for space_id, number in rows.entries.items() if space_id not in (-1, space.id))
    given_up = _count_given_up(tx, EMBED, entries.c.space_id.is_not(None), entries.c.space_id != space.id)
    return rows.vectors.get(space.id, 0), lacking - given_up


def count_second(tx: Transaction, spaces: Sequence[StoredSpace], rows: RowCounts) -> int:
    """The same as `count_without_second` by numbers alone: a text has one vector of the second model."""
    done = sum(rows.vectors.get(space.id, 0) for space in spaces)
    given_up = _count_given_up(tx, EMBED_LANGUAGES, entries.c.space_id.is_not(None))
    return max(0, rows.embeddable - done - given_up)


def _count_given_up(tx: Transaction, kind: str, *conditions: ColumnElement[bool]) -> int:
    mine = and_(same(failed_work.c.item_id, entries.c.id), failed_work.c.kind == kind)
    counted = tx.select(func.count(), of=failed_work).select_from(failed_work.join(entries, mine))
    return int(tx.connection.execute(counted.where(*conditions)).scalar_one())


def _other_spaces(tx: Transaction, space: StoredSpace) -> list[int]:
    """Those that an entry may be marked with which waits: none of the second model's."""
    return [0, *(other.id for other in list_spaces(tx) if other.id != space.id and not is_second(other))]


def is_given_up(tx: Transaction, kind: str, item_id: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that work of a kind on an item was given up."""
    mine = failed_work.c.kind == kind, failed_work.c.item_id == item_id
    return tx.select(failed_work.c.id).where(*mine).exists()


def claim(
    tx: Transaction, owners: Mapping[str, str], item_ids: Sequence[int], now: datetime, lease_seconds: float
) -> list[set[int]]:
    """Lease items to the owners of some kinds of work; rows of earlier attempts keep their count.

    Returns:
        By kind those that are its owner's now: another worker may have been quicker.
    """
    every = {"tenant": tx.tenant, "attempts": 0, "lease_until": now + timedelta(seconds=lease_seconds)}
    leases = [{**every, "kind": kind, "claimed_by": owner, "free_before": now} for kind, owner in owners.items()]
    rows = [{**lease, "item_id": item_id} for lease in leases for item_id in item_ids]
    tx.dialect.execute_each(tx.connection, _leased(tx.dialect), rows)
    tx.dialect.foresee(tx.connection, *(owned_question(tx, kind, item_ids, owner) for kind, owner in owners.items()))
    return [owned(tx, kind, item_ids, owner) for kind, owner in owners.items()]


@cache
def _leased(dialect: Dialect) -> Insert:
    free_before = bindparam("free_before", type_=work.c.lease_until.type)
    free = or_(work.c.lease_until.is_(None), work.c.lease_until < free_before)
    changes: dict[str, Any] = {name: literal_column(f"excluded.{name}") for name in ("claimed_by", "lease_until")}
    return dialect.upsert(work, {}, ("kind", "item_id"), changes, where=free)


def owned(tx: Transaction, kind: str, item_ids: Sequence[int], owner: str) -> set[int]:
    """Those of the items that are still leased to the owner; the others were taken over after the lease ended."""
    return {row[0] for row in tx.dialect.bare_rows(tx.connection, *owned_question(tx, kind, item_ids, owner))}


def owned_question(tx: Transaction, kind: str, item_ids: Sequence[int], owner: str) -> Question:
    """What `owned` asks."""
    named = {"of_tenant": tx.tenant, "of_kind": kind, "of_owner": owner, AMONG: tx.dialect.listing(list(item_ids))}
    return _statements(tx.dialect)[0], named


_MINE = work.c.tenant == bindparam("of_tenant", type_=Text), work.c.kind == bindparam("of_kind", type_=Text)


@cache
def _statements(dialect: Dialect) -> tuple[Any, Any, Any]:
    """What tells of items those that are an owner's; what deletes work, and what was given up, on some."""
    some = *_MINE, dialect.among(work.c.item_id)
    owned = select(work.c.item_id).where(*some, work.c.claimed_by == bindparam("of_owner"))
    of_failed = failed_work.c.tenant == bindparam("of_tenant"), failed_work.c.kind == bindparam("of_kind")
    return owned, delete(work).where(*some), delete(failed_work).where(*of_failed, dialect.among(failed_work.c.item_id))


def renew(tx: Transaction, kind: str, item_ids: Sequence[int], owner: str, until: datetime) -> set[int]:
    """Lease items that are still the owner's for longer, now that their turn has come; which ones they are."""
    mine = owned(tx, kind, item_ids, owner)
    tx.update(work, work.c.kind == kind, work.c.item_id.in_(mine), lease_until=until)
    return mine


def complete(tx: Transaction, kind: str, item_ids: Sequence[int], failed: bool = False) -> None:
    """The items are done; with what has `failed` of them."""
    done = {"of_tenant": tx.tenant, "of_kind": kind, AMONG: tx.dialect.listing(list(item_ids))}
    for statement in _statements(tx.dialect)[1 : 3 if failed else 2] if item_ids else ():
        tx.dialect.execute_each(tx.connection, statement, [done])


def drop_work(tx: Transaction, kind: str, item_ids: Sequence[int]) -> None:
    """The items are no more: neither work nor failures of theirs remain."""
    complete(tx, kind, item_ids, failed=True)


def release(tx: Transaction, kind: str, owner: str) -> None:
    """Give back everything the owner has leased, as if it had never been taken."""
    tx.update(work, work.c.kind == kind, work.c.claimed_by == owner, **_UNCLAIMED)


def fail(
    tx: Transaction,
    kind: str,
    item_ids: Sequence[int],
    error_class: str,
    now: datetime,
    gives_up: bool = True,
    max_retries: int = len(BACKOFF_SECONDS),
) -> None:
    """An attempt failed: try again after a while, or, if that is wanted, give up after the last one."""
    steps = BACKOFF_SECONDS if gives_up else WAITED_OUT_SECONDS
    mine = work.c.kind == kind, work.c.item_id.in_(item_ids)
    for row in tx.connection.execute(tx.select(work.c.id, work.c.item_id, work.c.attempts).where(*mine)).all():
        if row.attempts < max_retries or not gives_up:
            retry_at = now + timedelta(seconds=steps[min(row.attempts, len(steps) - 1)])
            attempts = min(row.attempts + 1, max_retries)
            tx.update(work, work.c.id == row.id, attempts=attempts, retry_at=retry_at, **_UNCLAIMED)
        else:
            given_up = {"kind": kind, "item_id": row.item_id, "attempts": row.attempts + 1}
            tx.insert(failed_work, [{**given_up, "error_class": error_class, "failed_at": now}])
            tx.delete(work, work.c.id == row.id)


def retry_failed(tx: Transaction) -> int:
    """Make everything that was given up work again; how many items that is."""
    return tx.delete(failed_work)


def list_failed(tx: Transaction, limit: int = 100) -> list[FailedWork]:
    """The work that was given up, newest first."""
    newest = tx.select(failed_work).order_by(failed_work.c.failed_at.desc()).limit(limit)
    return list(map(_failed, tx.connection.execute(newest)))


_failed = reader(FailedWork)
_UNCLAIMED = {"claimed_by": None, "lease_until": None}


def lease_owners(tx: Transaction, kind: str) -> list[str]:
    """Everybody who has leased work of the kind."""
    asked = {"of_tenant": tx.tenant, "of_kind": kind}
    return [row[0] for row in tx.dialect.bare_rows(tx.connection, _OWNERS, asked)]


_OWNERS = select(work.c.claimed_by).where(*_MINE, work.c.claimed_by.is_not(None)).distinct()


def stale_leases(tx: Transaction, now: datetime, fix: bool = False) -> int:
    """Count the leases that ended before their owner finished or gave back; with `fix`, give them back."""
    stale = work.c.claimed_by.is_not(None), work.c.lease_until < now
    return tx.update(work, *stale, **_UNCLAIMED) if fix else tx.count(work, *stale)


_SWITCH = "worker:"
_BLOCKED = "halted:"


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Rows of one kind of work; the first retry, None where none waits, and the class of the newest final error."""

    leased: int = 0
    retrying: int = 0
    given_up: int = 0
    retry_at: datetime | None = None
    last_error: str | None = None


def count_work(tx: Transaction, kind: str, now: datetime) -> WorkCounts:
    """Count the rows of a kind of work by their state."""
    asked = {"of_tenant": tx.tenant, "of_kind": kind}
    row = tx.connection.execute(_STATES, {**asked, "now": now}).one()
    failed = tx.connection.execute(_FAILED, asked).one()
    return WorkCounts(int(row.leased or 0), int(row.retrying or 0), int(failed[0]), row.retry_at, failed[1])


# Made once: `status` asks for each kind.
_LEASED = work.c.claimed_by.is_not(None) & (work.c.lease_until >= bindparam("now"))
_RETRYING = work.c.claimed_by.is_(None) & work.c.retry_at.is_not(None)
_STATES = select(
    func.sum(case((_LEASED, 1), else_=0)).label("leased"),
    func.sum(case((_RETRYING, 1), else_=0)).label("retrying"),
    func.min(case((_RETRYING, work.c.retry_at))).label("retry_at"),
).where(work.c.tenant == bindparam("of_tenant"), work.c.kind == bindparam("of_kind"))
_OF_KIND = failed_work.c.tenant == bindparam("of_tenant"), failed_work.c.kind == bindparam("of_kind")
_NEWEST = select(failed_work.c.error_class).where(*_OF_KIND).order_by(failed_work.c.failed_at.desc()).limit(1)
_FAILED = select(
    select(func.count()).select_from(failed_work).where(*_OF_KIND).scalar_subquery(), _NEWEST.scalar_subquery()
)


def count_summaries(tx: Transaction, kind: str) -> int:
    """Count the summaries of a kind."""
    return tx.count(summaries, summaries.c.kind == kind)


def is_enabled(tx: Transaction, kind: str, is_last: bool = False) -> bool:
    """True where the work is to be done; all work is, until somebody says otherwise. `is_last` of what is asked."""
    if is_last:
        tx.dialect.end_with(tx.connection, setting_question(tx, _SWITCH + kind))
    return get_setting(tx, _SWITCH + kind) is not False


def put_enabled(tx: Transaction, kind: str, enabled: bool) -> None:
    """Remember whether the work is to be done, for every process and after restarts."""
    set_setting(tx, _SWITCH + kind, None if enabled else False)


def blocked_reason(tx: Transaction, kind: str) -> str:
    """The reason, for a person, for which the last attempt did nothing; empty while work goes on."""
    return str(get_setting(tx, _BLOCKED + kind) or "")


def put_blocked_reason(tx: Transaction, kind: str, why: str) -> None:
    """Remember why nothing is done; empty when work goes on."""
    set_setting(tx, _BLOCKED + kind, why or None)
