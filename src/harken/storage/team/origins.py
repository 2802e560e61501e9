"""Who has brought what into a shared space, and of which record elsewhere it is a copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, or_
from sqlalchemy.dialects.postgresql import insert

from harken.storage.ports import batches
from harken.storage.team.tables import origins

if TYPE_CHECKING:
    from harken.storage.team.control import TeamTransaction


@dataclass(frozen=True, slots=True)
class Origin:
    """How a record came into a space.

    Attributes:
        uid: the record's id in that space.
        kind: `message`, `conversation`, `memory`, `experience`…
        principal: whose words they are; None where they have been erased.
        sharer: who has copied it there; None where it was recorded there.
        source_space: where it was copied from; likewise.
    """

    space: str
    uid: str
    kind: str
    principal: str | None
    at: datetime
    sharer: str | None = None
    source_space: str | None = None
    source_uid: str | None = None


def read_origin(row: Any) -> Origin:
    """The origin of a row."""
    facts = row.space, row.uid, row.kind, row.principal, row.at, row.sharer, row.source_space, row.source_uid
    return Origin(*facts)


def note_origins(connection: Connection, team: str, found: Iterable[Origin]) -> None:
    """Note who has brought records, in the transaction that writes them; who brought one first stays."""
    rows = [
        {
            "team": team,
            "space": one.space,
            "uid": one.uid,
            "kind": one.kind,
            "principal": one.principal,
            "at": one.at,
            "sharer": one.sharer,
            "source_space": one.source_space,
            "source_uid": one.source_uid,
        }
        for one in found
    ]
    for batch in batches(rows, 1000):
        connection.execute(insert(origins).values(batch).on_conflict_do_nothing())


def origins_of(tx: TeamTransaction, uids: Collection[str]) -> dict[tuple[str, str], Origin]:
    """The origins of records, by space and id."""
    found = {}
    for batch in batches(uids):
        for row in tx.rows(origins, where=(origins.c.uid.in_(batch),)):
            found[row.space, row.uid] = read_origin(row)
    return found


def copies_of(tx: TeamTransaction, space: str, uids: Collection[str]) -> list[Origin]:
    """The copies of records of a space that were shared, in other spaces."""
    return [
        read_origin(row)
        for batch in batches(uids)
        for row in tx.rows(
            origins,
            where=(origins.c.source_space == space, origins.c.source_uid.in_(batch), origins.c.sharer.is_not(None)),
        )
    ]


def brought_by(tx: TeamTransaction, principal: str) -> list[Origin]:
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
    tx.update(origins, origins.c.principal == principal, principal=None)
    tx.update(origins, origins.c.sharer == principal, sharer="")
