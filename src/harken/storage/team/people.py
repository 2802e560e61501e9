"""Principals and groups as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Select, Text, bindparam, select

from harken.errors import NotFoundError, UsageError
from harken.model.team import Principal, PrincipalKind
from harken.storage.postgres.dialect import named_rows
from harken.storage.team.tables import TeamTransaction, groups, members, principals

EVERYONE = "everyone"
"""The id and the name of the group that every principal is in."""
ERASED = "erased"
"""The id of the group of those whose words are being taken out of the team."""


def read_principal(row: Any) -> Principal:
    """The principal of a row."""
    return Principal(row.id, row.team, PrincipalKind(row.kind), row.name, row.created, row.email)


def add_principal(tx: TeamTransaction, principal: Principal) -> None:
    """Keep a new principal.

    Raises:
        UsageError: another one, or a group, has that name, or that address.
    """
    known = list_principals(tx)
    if principal.name in {*(one.name for one in known), *list_groups(tx).values(), EVERYONE}:
        raise UsageError(f"There is somebody called {principal.name} already. See: harken principal list")
    if principal.email and principal.email in {one.email for one in known}:
        raise UsageError(f"Somebody has the address {principal.email} already. See: harken principal list")
    one = principal
    tx.insert(principals, id=one.id, kind=one.kind.value, name=one.name, email=one.email, created=one.created)


def list_principals(tx: TeamTransaction) -> list[Principal]:
    """Everybody, in the order in which they came."""
    return sorted(map(read_principal, tx.rows(principals)), key=lambda one: (one.created, one.id))


def find_principal(tx: TeamTransaction, name: str) -> Principal:
    """A principal by name or id.

    Raises:
        NotFoundError: there is none.
    """
    found = tx.rows(principals, where=(principals.c.id == name,)) or tx.rows(
        principals, where=(principals.c.name == name,)
    )
    if not found:
        raise NotFoundError(f"There is nobody called {name}. See: harken principal list")
    return read_principal(found[0])


def principal_of(tx: TeamTransaction, principal_id: str) -> Principal | None:
    """A principal by their id; None where they are gone."""
    rows = named_rows(tx.connection, *principal_question(tx.team, principal_id))
    return read_principal(rows[0]) if rows else None


def principal_question(team: str, principal_id: str) -> tuple[Select[Any], dict[str, str]]:
    """What `principal_of` asks."""
    return _PRINCIPAL, {"of_team": team, "whose": principal_id}


# Made once: it runs with every request.
_PRINCIPAL = select(principals).where(
    principals.c.team == bindparam("of_team", type_=Text), principals.c.id == bindparam("whose", type_=Text)
)


def hold_principal(tx: TeamTransaction, principal_id: str) -> bool:
    """Whether somebody is in the team; if so, whoever drops them waits for the end of this transaction."""
    there = tx.select(principals.c.id).where(principals.c.id == principal_id)
    return tx.connection.execute(there.with_for_update(read=True)).first() is not None


def principal_of_email(tx: TeamTransaction, email: str) -> Principal | None:
    """The principal that a login finds by an address; None where there is none."""
    found = tx.rows(principals, where=(principals.c.email == email,))
    return read_principal(found[0]) if found else None


def principal_names(tx: TeamTransaction, ids: Iterable[str]) -> dict[str, str]:
    """The names of principals by id; those that are gone are left out."""
    wanted = set(ids)
    found = tx.rows(principals.c.id, principals.c.name, where=(principals.c.id.in_(wanted),)) if wanted else []
    return {row.id: row.name for row in found}


def drop_principal(tx: TeamTransaction, principal_id: str) -> None:
    """Delete a principal and their memberships."""
    tx.delete(members, members.c.principal == principal_id)
    tx.delete(principals, principals.c.id == principal_id)


def list_groups(tx: TeamTransaction) -> dict[str, str]:
    """The names of all groups that were made, by id."""
    return {row.id: row.name for row in tx.rows(groups)}


def members_of(tx: TeamTransaction) -> dict[str, list[str]]:
    """The ids of the members of each group, by its id."""
    found: dict[str, list[str]] = {}
    for row in tx.rows(members):
        found.setdefault(row.group_id, []).append(row.principal)
    return found


def add_group(tx: TeamTransaction, group_id: str, name: str) -> None:
    """Make a group.

    Raises:
        UsageError: a group or a principal has that name.
    """
    if name in {EVERYONE, *list_groups(tx).values(), *(one.name for one in list_principals(tx))}:
        raise UsageError(f"There is somebody called {name} already. See: harken principal list")
    tx.insert(groups, id=group_id, name=name)


def find_group(tx: TeamTransaction, name: str) -> str | None:
    """The id of a group by name or id; None where there is none."""
    if name == EVERYONE:
        return EVERYONE
    return next((group_id for group_id, known in list_groups(tx).items() if name in (group_id, known)), None)


def put_member(tx: TeamTransaction, group_id: str, principal_id: str, is_member: bool) -> None:
    """Let somebody be in a group, or be so no longer."""
    tx.delete(members, members.c.group_id == group_id, members.c.principal == principal_id)
    if is_member:
        tx.insert(members, group_id=group_id, principal=principal_id)
