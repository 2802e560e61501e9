"""Entries: what search sees. Writing them keeps the full-text index in step, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
    type_coerce,
    union_all,
)

from harken.model.conversations import UNTRUSTED, Entry, Trust
from harken.storage.columns import Dialect, from_microseconds
from harken.storage.ports import RowScope, Transaction, bare_among, batches, rows_in
from harken.storage.tables import conversations, entries, entry_facets, exchanges, projects, refers

_NEIGHBOURS = 2
# Among entries of one position, the one that comes now stands last: its id is the highest.
_LAST_OF_POSITION = 2**62
_TRUST = {trust.value: trust for trust in Trust}
# As its bare number: a column's type takes longer to convert it than all the rest of the row.
_MOMENT = type_coerce(entries.c.created_at, BigInteger)


def add_entries(
    tx: Transaction,
    rows: Sequence[Mapping[str, Any]],
    new_conversations: frozenset[int] = frozenset(),
    facets: Sequence[Sequence[str]] = (),
) -> None:
    """Insert entries and index them, with the neighbours whose context they change.

    Args:
        tx: a writing transaction.
        rows: complete rows of the entries table, without ids and tenant.
        new_conversations: row ids of conversations that have no other entries, which saves looking for neighbours.
        facets: those of each row; none where it is empty.
    """
    if not rows:
        return
    turns = [row for row in rows if row["is_turn"] and row["conversation_id"] not in new_conversations]
    touched = _turns_around(tx, [(row["conversation_id"], (row["position"], _LAST_OF_POSITION)) for row in turns])
    tx.text.before_change(tx.connection, touched)
    statement = _INSERTED_IN_ORDER if facets else _INSERTED
    added = tx.connection.scalars(statement, [{"tenant": tx.tenant, **row} for row in rows]).all()
    if facets:
        _add_facets(tx, zip(added, facets, strict=True))
    tx.text.add(tx.connection, [*touched, *added])


def _add_facets(tx: Transaction, facets: Iterable[tuple[int, Sequence[str]]]) -> None:
    rows = [
        {"tenant": tx.tenant, "entry_id": entry_id, "facet": facet}
        for entry_id, of_entry in facets
        for facet in dict.fromkeys(of_entry)
    ]
    if rows:
        tx.connection.execute(insert(entry_facets), rows)


def _turns_around(tx: Transaction, places: Iterable[tuple[int, tuple[int, int]]]) -> list[int]:
    """Turns whose context changes when something comes or goes.

    Those are two before the first place of a conversation, two behind its last, and all between.

    Args:
        tx: the transaction.
        places: conversation, and the position and id by which its turns are ordered.
    """
    spans: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
    for conversation_id, place in places:
        first, last = spans.get(conversation_id, (place, place))
        spans[conversation_id] = (min(first, place), max(last, place))
    found: list[int] = []
    for conversation_id, (first, last) in spans.items():
        where = {"of_tenant": tx.tenant, "of_conversation": conversation_id}
        where |= {"first_at": first[0], "first_id": first[1], "last_at": last[0], "last_id": last[1]}
        found.extend(tx.connection.scalars(_TURNS_AROUND, where))
    return found


_PLACE = tuple_(entries.c.position, entries.c.id)
_FIRST, _LAST = (
    tuple_(bindparam(f"{end}_at", type_=BigInteger()), bindparam(f"{end}_id", type_=BigInteger()))
    for end in ("first", "last")
)
_TURNS = select(entries.c.id).where(
    entries.c.tenant == bindparam("of_tenant"),
    entries.c.conversation_id == bindparam("of_conversation"),
    entries.c.is_turn,
)
_BEFORE = (
    _TURNS.where(_PLACE < _FIRST).order_by(entries.c.position.desc(), entries.c.id.desc()).limit(_NEIGHBOURS)
).subquery()
_BEHIND = (_TURNS.where(_PLACE > _LAST).order_by(entries.c.position, entries.c.id).limit(_NEIGHBOURS)).subquery()
# Built once: they run with every recorded message.
_INSERTED = insert(entries).returning(entries.c.id)
_INSERTED_IN_ORDER = insert(entries).returning(entries.c.id, sort_by_parameter_order=True)
_TURNS_AROUND = union_all(
    select(_BEFORE.c.id), _TURNS.where(and_(_PLACE >= _FIRST, _PLACE <= _LAST)), select(_BEHIND.c.id)
)


def delete_entries(tx: Transaction, entry_ids: Sequence[int]) -> None:
    """Remove entries from rows and full text; what stood beside them gets its new context."""
    columns = select(entries.c.id, entries.c.conversation_id, entries.c.position, entries.c.is_turn)
    rows = rows_in(tx, columns.where(entries.c.tenant == tx.tenant), entries.c.id, entry_ids)
    places = [(row.conversation_id, (row.position, row.id)) for row in rows if row.is_turn]
    touched = set(_turns_around(tx, places)) | set(entry_ids)
    tx.text.remove(tx.connection, sorted(touched))
    for batch in batches(entry_ids):
        for table, column in ((entry_facets, entry_facets.c.entry_id), (entries, entries.c.id)):
            tx.connection.execute(delete(table).where(table.c.tenant == tx.tenant, column.in_(batch)))
    tx.text.add(tx.connection, sorted(touched - set(entry_ids)))


def load_entries(tx: Transaction, entry_ids: Sequence[int]) -> dict[int, Entry]:
    """Entries by id; ids that name nothing are left out."""
    rows = bare_among(tx, _whole(tx.dialect), entry_ids)
    return {row[0]: Entry(*(*row[:8], from_microseconds(row[8]), _TRUST[row[9]], *row[10:])) for row in rows}


@cache
def _whole(dialect: Dialect) -> Select[Any]:
    joined = (
        entries.outerjoin(conversations, refers(entries.c.conversation_id, conversations))
        .outerjoin(exchanges, refers(entries.c.exchange_id, exchanges))
        .outerjoin(projects, refers(entries.c.project_id, projects))
    )
    # In the order of an `Entry`.
    named = (entries.c.id, entries.c.source, entries.c.ref_uid, conversations.c.uid, exchanges.c.uid, projects.c.key)
    said = (entries.c.role, entries.c.author, _MOMENT, entries.c.trust, entries.c.text)
    chosen = entries.c.tenant == bindparam("of_tenant"), dialect.among(entries.c.id)
    return (
        select(*named, *said, entries.c.weight, entries.c.part, entries.c.position).select_from(joined).where(*chosen)
    )


class EntryFacts(NamedTuple):
    """What weighing needs of a candidate; cheaper than the whole entry, and than a dataclass to make.

    Attributes:
        conversation_id: the row of the conversation that it is of, if any; likewise the exchange's.
    """

    author: str | None
    role: str | None
    created_at: datetime
    weight: float
    trust: Trust
    source: str = "message"
    conversation_id: int | None = None
    exchange_id: int | None = None
    ref_uid: str = ""


def entry_facts(tx: Transaction, entry_ids: Sequence[int]) -> dict[int, EntryFacts]:
    """The facts of each candidate, by id."""
    rows = bare_among(tx, _facts(tx.dialect), entry_ids)
    return {
        row[0]: EntryFacts(row[1], row[2], from_microseconds(row[3]), row[4], _TRUST[row[5]], *row[6:]) for row in rows
    }


@cache
def _facts(dialect: Dialect) -> Select[Any]:
    columns = (entries.c.author, entries.c.role, _MOMENT, entries.c.weight, entries.c.trust)
    places = (entries.c.source, entries.c.conversation_id, entries.c.exchange_id, entries.c.ref_uid)
    chosen = entries.c.tenant == bindparam("of_tenant"), dialect.among(entries.c.id)
    return select(entries.c.id, *columns, *places).where(*chosen)


def in_scope(tx: Transaction, entry_ids: Sequence[int], scope: RowScope) -> set[int]:
    """Which of the entries a scope lets through."""
    statement = select(entries.c.id).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))
    return {row[0] for row in rows_in(tx, statement, entries.c.id, entry_ids)}


def newest_entries(tx: Transaction, scope: RowScope, limit: int) -> list[int]:
    """The entries of a scope that were made last, newest first."""
    statement = select(entries.c.id).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))
    newest = statement.order_by(entries.c.created_at.desc(), entries.c.id.desc()).limit(limit)
    return list(tx.connection.scalars(newest))


def has_entries(tx: Transaction) -> bool:
    """Whether there is anything to be found at all."""
    return tx.connection.execute(select(entries.c.id).where(entries.c.tenant == tx.tenant).limit(1)).first() is not None


def scope_conditions(scope: RowScope) -> list[ColumnElement[bool]]:
    """The scope as conditions on the entries table."""
    conditions = [*_source_conditions(scope), *map(_has_facet, scope.facets)]
    if scope.project_id is not None:
        conditions.append(entries.c.project_id == scope.project_id)
    if scope.conversation_id is not None:
        conditions.append(entries.c.conversation_id == scope.conversation_id)
    if scope.conversation_ids:
        conditions.append(entries.c.conversation_id.in_(scope.conversation_ids))
    if scope.without_conversation_id is not None:
        conditions.append(entries.c.conversation_id.is_distinct_from(scope.without_conversation_id))
    if scope.segment_id is not None:
        conditions.append(entries.c.segment_id == scope.segment_id)
    if scope.roles:
        conditions.append(entries.c.role.in_(scope.roles))
    if scope.without_untrusted:
        conditions.append(entries.c.trust.not_in([trust.value for trust in UNTRUSTED]))
    if scope.since is not None:
        conditions.append(entries.c.created_at >= from_microseconds(scope.since))
    if scope.until is not None:
        conditions.append(entries.c.created_at < from_microseconds(scope.until))
    return conditions


def _source_conditions(scope: RowScope) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if scope.sources:
        conditions.append(entries.c.source.in_(scope.sources))
    if scope.outside_conversations:
        # Says nothing new, and lets the index of what is in no conversation be used.
        conditions.append(entries.c.conversation_id.is_(None))
    if scope.without_sources:
        conditions.append(entries.c.source.not_in(scope.without_sources))
    return conditions


def _has_facet(facet: str) -> ColumnElement[bool]:
    having = select(entry_facets.c.tenant, entry_facets.c.entry_id).where(entry_facets.c.facet == facet)
    return tuple_(entries.c.tenant, entries.c.id).in_(having)
