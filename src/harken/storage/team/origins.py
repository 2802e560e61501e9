"""Who has brought what into a shared space, and of which record elsewhere it is a copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Text, and_, any_, bindparam, or_, select
from sqlalchemy.dialects.postgresql import insert

from harken.model.team import RecordOrigin
from harken.storage.ports import Transaction, batches
from harken.storage.postgres.dialect import PostgresDialect, named_rows
from harken.storage.team.tables import TeamTransaction, origins, principals


def read_origin(row: Any) -> RecordOrigin:
    """The origin of a row."""
    facts = row.space, row.uid, row.kind, row.principal, row.at, row.sharer, row.source_space, row.source_uid
    return RecordOrigin(*facts)


def note_origins(tx: Transaction, team: str, found: Iterable[RecordOrigin]) -> None:
    """Note who has written records, in the transaction that writes them; who did before is noted already."""
    rows = [{"team": team, **{name: getattr(one, name) for name in _COLUMNS}} for one in found]
    tx.dialect.execute_each(tx.connection, _NOTED, rows)


_COLUMNS = tuple(column.name for column in origins.columns if column.name != "team")
# Made once: it runs with everything that is recorded in a shared space.
_NOTED = insert(origins).on_conflict_do_nothing()


@dataclass(frozen=True, slots=True)
class NamedOrigin:
    """Who brought a record first, with names; empty where they are of nobody, or of somebody who was erased."""

    origin: RecordOrigin
    principal: str
    sharer: str


def origins_of(tx: TeamTransaction, uids: Collection[str]) -> dict[tuple[str, str], NamedOrigin]:
    """Who brought records first, by space and id; the last that a transaction asks which reads."""
    if not uids:
        return {}
    asked = _ORIGINS, {"of_team": tx.team, "uids": list(uids)}
    PostgresDialect().end_with(tx.connection, asked)
    found: dict[tuple[str, str], NamedOrigin] = {}
    for row in named_rows(tx.connection, *asked):
        found.setdefault((row.space, row.uid), NamedOrigin(read_origin(row), row.by_name or "", row.sharer_name or ""))
    return found


_by, _sharer = principals.alias("by"), principals.alias("sharer")
# Made once: it runs with every search of several spaces.
_ORIGINS = (
    select(origins, _by.c.name.label("by_name"), _sharer.c.name.label("sharer_name"))
    .select_from(
        origins.outerjoin(_by, and_(_by.c.team == origins.c.team, _by.c.id == origins.c.principal)).outerjoin(
            _sharer, and_(_sharer.c.team == origins.c.team, _sharer.c.id == origins.c.sharer)
        )
    )
    .where(origins.c.team == bindparam("of_team"), origins.c.uid == any_(bindparam("uids", type_=ARRAY(Text))))
    .order_by(origins.c.at)
)


def copies_of(tx: TeamTransaction, space: str, uids: Collection[str]) -> list[RecordOrigin]:
    """The copies of records of a space that were shared, in other spaces."""
    return [
        read_origin(row)
        for batch in batches(uids)
        for row in tx.rows(
            origins,
            where=(origins.c.source_space == space, origins.c.source_uid.in_(batch), origins.c.sharer.is_not(None)),
        )
    ]


def brought_by(tx: TeamTransaction, principal: str) -> list[RecordOrigin]:
    """Everything that is a principal's own words, or was shared by them."""
    whose = or_(origins.c.principal == principal, origins.c.sharer == principal)
    return [read_origin(row) for row in tx.rows(origins, where=(whose,))]


def drop_origins(tx: TeamTransaction, space: str, uids: Collection[str] | None = None) -> None:
    """Forget the origins of some records of a space, or of all."""
    if uids is None:
        tx.delete(origins, origins.c.space == space)
        return
    for batch in batches(uids):
        tx.delete(origins, origins.c.space == space, origins.c.uid.in_(batch))


def let_go(tx: TeamTransaction, principal: str) -> None:
    """Take a principal's id out of what others have in spaces."""
    tx.delete(origins, origins.c.principal == principal)
    tx.update(origins, origins.c.sharer == principal, sharer="")
