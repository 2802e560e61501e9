"""Spaces and grants as rows, and which spaces a principal may see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Select, Text, and_, any_, bindparam, exists, func, literal, or_, select

from harken.errors import NotFoundError
from harken.model.team import COMMON, Access, Grant, TeamSpace
from harken.storage.postgres.dialect import PostgresDialect, named_rows
from harken.storage.team.people import ERASED, EVERYONE, list_groups, principal_names
from harken.storage.team.tables import TeamTransaction, grants, members, principals, spaces

NOTHING = 0
"""The days for which a space that is being deleted keeps what is in it."""


def read_space(row: Any) -> TeamSpace:
    """The space of a row."""
    return TeamSpace(row.id, row.team, row.name, row.owner, row.is_private, row.retention_days)


def add_space(tx: TeamTransaction, space: TeamSpace, created: datetime) -> None:
    """Make a space; others may be called the same, or whoever makes one would learn of those that they may not see."""
    named = {"id": space.id, "name": space.name, "owner": space.owner, "is_private": space.is_private}
    tx.insert(spaces, **named, retention_days=space.retention_days, created=created)


def list_spaces(tx: TeamTransaction) -> list[TeamSpace]:
    """Every space of the team: the common one first, then by name."""
    return sorted(map(read_space, tx.rows(spaces)), key=lambda space: (space.id != COMMON, space.name))


def readable_spaces(tx: TeamTransaction, principal_id: str) -> list[tuple[TeamSpace, Access]]:
    """What a principal may see, each with what they may do there: their own first, then the common one, then by name.

    Somebody's private space is theirs alone, whatever is granted.
    """
    seen = []
    for row in named_rows(tx.connection, *readable_question(tx.team, principal_id)):
        rights = [Access.ADMIN] if row.owner == principal_id else [Access(name) for name in row.access if name]
        seen.append((read_space(row), max(rights, key=list(Access).index)))
    return sorted(seen, key=lambda each: (each[0].owner != principal_id, each[0].id != COMMON, each[0].name))


def readable_question(team: str, principal_id: str) -> tuple[Select[Any], dict[str, str]]:
    """What `readable_spaces` asks."""
    return _READABLE, {"of_team": team, "whose": principal_id}


def _readable() -> Select[Any]:
    team, whose = bindparam("of_team", type_=Text), bindparam("whose", type_=Text)
    mine = select(members.c.group_id).where(members.c.team == team, members.c.principal == whose)
    to_them = or_(grants.c.grantee == whose, grants.c.grantee == literal(EVERYONE), grants.c.grantee.in_(mine))
    granted = and_(grants.c.team == spaces.c.team, grants.c.space == spaces.c.id, to_them, ~spaces.c.is_private)
    return (
        select(spaces, func.array_agg(grants.c.access).label("access"))
        .select_from(spaces.outerjoin(grants, granted))
        .where(spaces.c.team == team, or_(spaces.c.owner == whose, grants.c.access.is_not(None)))
        .group_by(spaces.c.team, spaces.c.id)
    )


# Made once: it runs with every request.
_READABLE = _readable()


def foresee_standing(tx: TeamTransaction, space_id: str, principal_ids: Sequence[str]) -> None:
    """Have what `require_standing` asks sent along with the next question, behind the locks of the transaction."""
    PostgresDialect().foresee(tx.connection, _standing_question(tx.team, space_id, principal_ids))


def require_standing(tx: TeamTransaction, space_id: str, principal_ids: Sequence[str]) -> None:
    """Pass if none of the principals, and not the space, is erased or being erased.

    Whoever erases marks that first, and then waits for who holds the locks of the space: a transaction that was not
    refused is seen by them.

    Raises:
        NotFoundError: one of them is.
    """
    if len(named_rows(tx.connection, *_standing_question(tx.team, space_id, principal_ids))) < len(principal_ids):
        raise NotFoundError("Whose words these are, or the space they go to, has been erased. Nothing was written.")


def _standing_question(team: str, space_id: str, ids: Sequence[str]) -> tuple[Select[Any], dict[str, Any]]:
    return _STANDING, {"of_team": team, "space": space_id, "ids": list(ids)}


def _standing() -> Select[Any]:
    team = bindparam("of_team", type_=Text)
    going = members.c.team == team, members.c.group_id == literal(ERASED), members.c.principal == principals.c.id
    days = spaces.c.retention_days
    there = spaces.c.team == team, spaces.c.id == bindparam("space", type_=Text), or_(days.is_(None), days != NOTHING)
    asked = principals.c.id == any_(bindparam("ids", type_=ARRAY(Text)))
    return select(principals.c.id).where(
        principals.c.team == team, asked, ~exists().where(*going), exists().where(*there)
    )


# Made once: it runs with everything that a member writes.
_STANDING = _standing()


def put_grant(tx: TeamTransaction, grant: Grant) -> None:
    """Let somebody do something in a space, in place of what they might before."""
    drop_grant(tx, grant.space, grant.grantee)
    access = grant.access.value
    tx.insert(grants, space=grant.space, grantee=grant.grantee, access=access, is_group=grant.is_group)


def drop_grant(tx: TeamTransaction, space_id: str, grantee: str) -> bool:
    """Take back what was granted; whether anything was."""
    return bool(tx.delete(grants, grants.c.space == space_id, grants.c.grantee == grantee))


def drop_grants_of(tx: TeamTransaction, grantee: str) -> None:
    """Take back everything that was granted to a principal or a group."""
    tx.delete(grants, grants.c.grantee == grantee)


def list_grants(tx: TeamTransaction, space_id: str) -> list[Grant]:
    """Who may do what in a space, by name."""
    rows = tx.rows(grants, where=(grants.c.space == space_id,))
    names = {EVERYONE: EVERYONE, **list_groups(tx), **principal_names(tx, [row.grantee for row in rows])}
    found = [
        Grant(row.space, row.grantee, names.get(row.grantee, row.grantee), row.is_group, Access(row.access))
        for row in rows
    ]
    return sorted(found, key=lambda grant: grant.name)


def put_retention(tx: TeamTransaction, space_id: str, days: int | None) -> None:
    """Say for how many days what is in a space is kept; None keeps it for good."""
    tx.update(spaces, spaces.c.id == space_id, retention_days=days)


def drop_space(tx: TeamTransaction, space_id: str) -> None:
    """Delete a space and its grants; what was in it is another matter."""
    tx.delete(grants, grants.c.space == space_id)
    tx.delete(spaces, spaces.c.id == space_id)
