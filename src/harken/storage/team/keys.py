"""Keys as rows: found by the hash of the key, which alone is kept."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_

from harken.errors import NotFoundError
from harken.model.team import ApiKey, KeyScope
from harken.storage.team.tables import TeamTransaction, keys

USED_EVERY = timedelta(minutes=1)


def read_key(row: Any) -> ApiKey:
    """The key of a row."""
    return ApiKey(
        row.id,
        row.prefix,
        row.principal,
        frozenset(map(KeyScope, row.scopes)),
        # NULL reads as an empty list, and no key has one.
        frozenset(row.spaces) or None,
        row.created,
        row.expires,
        row.last_used,
        row.revoked,
    )


def add_key(tx: TeamTransaction, key: ApiKey, digest: str) -> None:
    """Keep a new key by its hash."""
    tx.insert(
        keys,
        id=key.id,
        prefix=key.prefix,
        digest=digest,
        principal=key.principal,
        scopes=[scope.value for scope in KeyScope if scope in key.scopes],
        spaces=None if key.spaces is None else sorted(key.spaces),
        created=key.created,
        expires=key.expires,
    )


def list_keys(tx: TeamTransaction, principals: Collection[str] | None = None) -> list[ApiKey]:
    """The keys of some principals, or all, newest first."""
    where = () if principals is None else (keys.c.principal.in_(principals),)
    return sorted(map(read_key, tx.rows(keys, where=where)), key=lambda key: (key.created, key.id), reverse=True)


def find_key(tx: TeamTransaction, name: str, principals: Collection[str] | None = None) -> ApiKey:
    """A key by its id, or by its prefix or the beginning of it.

    Raises:
        NotFoundError: there is none among those of the principals, or more than one.
    """
    known = list_keys(tx, principals)
    found = [key for key in known if name == key.id] or [key for key in known if name and key.prefix.startswith(name)]
    if len(found) != 1:
        what = "Several keys begin with" if found else "There is no key"
        raise NotFoundError(f"{what} {name}. See: harken key list")
    return found[0]


def end_key(tx: TeamTransaction, key_id: str, at: datetime) -> None:
    """Revoke a key from a moment on; one that is revoked already stays so."""
    tx.update(keys, keys.c.id == key_id, keys.c.revoked.is_(None), revoked=at)


def end_keys(tx: TeamTransaction, principal: str, at: datetime) -> None:
    """Revoke all keys of a principal from a moment on."""
    tx.update(keys, keys.c.principal == principal, keys.c.revoked.is_(None), revoked=at)


def expire_key(tx: TeamTransaction, key_id: str, at: datetime) -> None:
    """Let a key expire at a moment, unless it does before."""
    tx.update(keys, keys.c.id == key_id, or_(keys.c.expires.is_(None), keys.c.expires > at), expires=at)


def note_used(tx: TeamTransaction, key_id: str, at: datetime) -> None:
    """Note that a key was used, at most once a minute."""
    stale = or_(keys.c.last_used.is_(None), keys.c.last_used < at - USED_EVERY)
    tx.update(keys, keys.c.id == key_id, stale, last_used=at)


def drop_keys(tx: TeamTransaction, principal: str) -> None:
    """Delete the keys of a principal."""
    tx.delete(keys, keys.c.principal == principal)
