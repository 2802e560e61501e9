"""Principals, keys, groups, spaces and grants of a team; every verb is told who asks for it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from harken.errors import AccessError, NotFoundError, ScopeError, UsageError
from harken.model.team import (
    COMMON,
    EVERY_SCOPE,
    USUAL_SCOPES,
    Access,
    ApiKey,
    Grant,
    KeyScope,
    NewKey,
    Principal,
    PrincipalKind,
    Speaker,
    TeamSpace,
)
from harken.storage.team import keys as key_rows
from harken.storage.team import people
from harken.storage.team import spaces as space_rows
from harken.storage.team.people import EVERYONE
from harken.text.characters import sha256_of

if TYPE_CHECKING:
    from harken.storage.team.control import ControlTables
    from harken.storage.team.tables import TeamTransaction

_KEY, _SECRET_BYTES, _SHOWN_CHARS, _ID_BYTES = "hk_", 32, 8, 8
_MOST_NAME = 100


def is_team_admin(speaker: Speaker) -> bool:
    """Whether somebody manages the team: they administer its common space."""
    return speaker.is_operator or (COMMON, Access.ADMIN) in [(space.id, access) for space, access in speaker.spaces]


def _whose_keys(by: Speaker) -> list[str] | None:
    return None if is_team_admin(by) and KeyScope.ADMIN in by.scopes else [by.principal.id]


def require_team_admin(speaker: Speaker) -> None:
    """Pass if somebody manages the team, and their key is for that.

    Raises:
        ScopeError: names what is missing.
    """
    speaker.require(KeyScope.ADMIN)
    if not is_team_admin(speaker):
        raise ScopeError(Access.ADMIN.value, COMMON)


class Members:
    """Who is in a team, with which keys, and what they may see; `Team` adds what they see.

    Args:
        control: the tables of teams.
        is_used: whether anything was recorded in a space.
    """

    def __init__(
        self, control: ControlTables, now: Callable[[], datetime], is_used: Callable[[TeamSpace], bool]
    ) -> None:
        self._control = control
        self._now = now
        self._is_used = is_used

    def create_principal(
        self,
        by: Speaker,
        name: str,
        kind: PrincipalKind = PrincipalKind.USER,
        email: str | None = None,
        is_admin: bool = False,
        once: str = "",
    ) -> Principal:
        """Make a principal with a private space; an administrator manages the team and its common space.

        With the first one, the team's common space is made; everybody may write there, unless it has content already:
        then nobody may read that until somebody grants it. `once` is the caller's own name for this very call: whom it
        has made already is not made again.

        Raises:
            UsageError: the name or the address is somebody's already, or is none.
            ScopeError: who asks does not manage the team.
        """
        require_team_admin(by)
        team, now = by.principal.team, self._now()
        address = email.strip().lower() if email else None
        one = Principal(_new_id(once), team, PrincipalKind.of(kind), checked_name(name), now, address)
        with self._control.writing(team) as tx:
            if known := people.principal_of(tx, one.id):
                return known
            self._ensure_team(tx)
            people.add_principal(tx, one)
            space_rows.add_space(tx, TeamSpace(_new_id(), team, one.name, one.id, is_private=True), now)
            if is_admin:
                space_rows.put_grant(tx, Grant(COMMON, one.id, one.name, False, Access.ADMIN))
        return one

    def _ensure_team(self, tx: TeamTransaction) -> None:
        """Make the common space, if this is the team's first principal."""
        if any(space.id == COMMON for space in space_rows.list_spaces(tx)):
            return
        common = TeamSpace(COMMON, tx.team, COMMON)
        space_rows.add_space(tx, common, self._now())
        # What one person has recorded there was not said to the others.
        if not self._is_used(common):
            space_rows.put_grant(tx, Grant(COMMON, EVERYONE, EVERYONE, True, Access.WRITE))

    def principals(self, by: Speaker) -> list[Principal]:
        """Everybody in the team, in the order in which they came."""
        by.require(KeyScope.ADMIN)
        with self._control.reading(by.principal.team) as tx:
            return people.list_principals(tx)

    def create_key(
        self,
        by: Speaker,
        principal: str | None = None,
        scopes: Collection[KeyScope] | None = None,
        spaces: Sequence[str] | None = None,
        expires: datetime | None = None,
    ) -> NewKey:
        """Make a key: for oneself, for an agent or a service of the team, or the first one of a new person.

        Args:
            by: needs the scope `keys`; for others they have to manage the team.
            principal: by name or id; None for oneself.
            scopes: no more than those of who asks; None takes every scope for a person, else all but `admin`, `keys`.
            spaces: the only ones that the key reaches, by name; None for all that its principal reaches.
            expires: when it stops being valid.
        Raises:
            ScopeError: who asks may not, or has less themselves.
            AccessError: the person has a key already.
            NotFoundError: there is no such principal or space.
            UsageError: the key would expire in the past.
        """
        by.require(KeyScope.KEYS)
        now = self._now()
        if expires is not None and expires <= now:
            raise UsageError("The key would have expired already. Give a later moment.")
        with self._control.writing(by.principal.team) as tx:
            whose = self._whose(tx, by, principal)
            usual = EVERY_SCOPE if whose.kind is PrincipalKind.USER else USUAL_SCOPES
            wanted = frozenset(map(KeyScope, scopes)) if scopes else usual & by.scopes
            reach = _reach(by, None if spaces is None else space_rows.readable_spaces(tx, whose.id), spaces)
            _need_all_of(by, wanted, reach)
            return _made(tx, whose.id, wanted, reach, now, expires)

    def _whose(self, tx: TeamTransaction, by: Speaker, name: str | None) -> Principal:
        """The principal for whom somebody may make a key."""
        if by.is_operator and name is None:
            raise UsageError("Whose key? Name a principal: harken key create --for NAME")
        if name is None or name in (by.principal.id, by.principal.name):
            return by.principal
        require_team_admin(by)
        whose = people.find_principal(tx, name)
        # Whoever manages a team could read what is private to a person by a key of theirs.
        if whose.kind is PrincipalKind.USER and not by.is_operator and key_rows.list_keys(tx, [whose.id]):
            raise AccessError(f"{whose.name} has a key, and makes others with it. If lost, the operator makes one.")
        return whose

    def list_keys(self, by: Speaker, principal: str | None = None) -> list[ApiKey]:
        """One's own keys, newest first; another's, or for whoever manages the team all (`principal` is `*`)."""
        by.require(KeyScope.KEYS)
        with self._control.reading(by.principal.team) as tx:
            return key_rows.list_keys(tx, self._of_whom(tx, by, principal))

    def _of_whom(self, tx: TeamTransaction, by: Speaker, principal: str | None) -> list[str] | None:
        """The ids of the principals whose keys somebody may see or revoke; None for everybody's."""
        if principal is None and not by.is_operator:
            return [by.principal.id]
        if principal not in (by.principal.id, by.principal.name):
            require_team_admin(by)
        return None if principal in (None, "*") else [people.find_principal(tx, str(principal)).id]

    def revoke_key(self, by: Speaker, key: str) -> ApiKey:
        """Revoke a key by its id, or by how it begins: one's own, or as who manages the team anybody's.

        Raises:
            NotFoundError: there is none, or more than one.
        """
        by.require(KeyScope.KEYS)
        with self._control.writing(by.principal.team) as tx:
            found = key_rows.find_key(tx, key, _whose_keys(by))
            key_rows.end_key(tx, found.id, self._now())
            return key_rows.find_key(tx, found.id)

    def rotate_key(self, by: Speaker, key: str, overlap_seconds: int = 0) -> NewKey:
        """Make a key like another one, which ends now, or after an overlap; whose it may be, see `create_key`.

        Raises:
            NotFoundError: there is none, or more than one.
            AccessError: it is another person's.
            ScopeError: it may do more than the key that asks.
            UsageError: it is revoked or has expired already.
        """
        by.require(KeyScope.KEYS)
        now = self._now()
        with self._control.writing(by.principal.team) as tx:
            old = key_rows.find_key(tx, key, _whose_keys(by))
            self._whose(tx, by, old.principal)
            if old.revoked or (old.expires and old.expires <= now):
                raise UsageError(f"The key {old.prefix}… is not valid any more. Make another: harken key create")
            _need_all_of(by, old.scopes, old.spaces)
            expires = now + (old.expires - old.created) if old.expires else None
            new = _made(tx, old.principal, old.scopes, old.spaces, now, expires)
            if overlap_seconds > 0:
                key_rows.expire_key(tx, old.id, now + timedelta(seconds=overlap_seconds))
            else:
                key_rows.end_key(tx, old.id, now)
            return new

    def create_space(self, by: Speaker, name: str, retention_days: int | None = None, once: str = "") -> TeamSpace:
        """Make a shared space, which whoever asks administers, and nobody else sees until it is granted.

        `once` is the caller's own name for this very call: what it has made already is not made again.

        Raises:
            UsageError: there is one of that name, or the days are none.
        """
        by.require(KeyScope.ADMIN)
        if by.key is not None and by.key.spaces is not None:
            raise ScopeError(KeyScope.ADMIN.value, "of a key that reaches all spaces of its principal")
        team, now = by.principal.team, self._now()
        space = TeamSpace(_new_id(once), team, checked_name(name), retention_days=checked_days(retention_days))
        if known := [each for each, _ in by.spaces if each.id == space.id]:
            return known[0]
        if space.name in {known for seen, _ in by.spaces for known in (seen.id, seen.name)}:
            raise UsageError(f"There is a space called {space.name} already. Choose another name.")
        with self._control.writing(team) as tx:
            self._ensure_team(tx)
            space_rows.add_space(tx, space, now)
            if not by.is_operator:
                space_rows.put_grant(tx, Grant(space.id, by.principal.id, by.principal.name, False, Access.ADMIN))
        return space

    def keep_space(self, by: Speaker, space: str, days: int | None) -> TeamSpace:
        """Say for how many days what is in a space is kept; None keeps it for good."""
        by.require(KeyScope.ADMIN)
        found = by.space(space, Access.ADMIN)
        with self._control.writing(by.principal.team) as tx:
            space_rows.put_retention(tx, found.id, checked_days(days))
            return replace(found, retention_days=days)

    def grant(self, by: Speaker, space: str, to: str, access: Access) -> Grant:
        """Let a principal or a group, by name, read, write or administer a space; `everyone` is a group.

        Raises:
            NotFoundError: there is no such space that they may see, or nobody of that name.
            ScopeError: they do not administer it.
            UsageError: it is somebody's private space, or nobody would administer it any more.
        """
        by.require(KeyScope.ADMIN)
        found = by.space(space, Access.ADMIN)
        if found.is_private:
            raise UsageError(f"{found.name} is private. Copy things into a shared space: harken share ID --to SPACE")
        with self._control.writing(by.principal.team) as tx:
            group = people.find_group(tx, to)
            grantee = group or people.find_principal(tx, to).id
            space_rows.put_grant(tx, Grant(found.id, grantee, to, group is not None, Access.of(access)))
            _require_admin(tx, by, found)
            return next(grant for grant in space_rows.list_grants(tx, found.id) if grant.grantee == grantee)

    def revoke(self, by: Speaker, space: str, of: str) -> None:
        """Take back what was granted to a principal or a group.

        Raises:
            NotFoundError: nothing was granted to them.
            UsageError: nobody would administer it any more.
        """
        by.require(KeyScope.ADMIN)
        found = by.space(space, Access.ADMIN)
        with self._control.writing(by.principal.team) as tx:
            grantee = people.find_group(tx, of) or people.find_principal(tx, of).id
            if not space_rows.drop_grant(tx, found.id, grantee):
                raise NotFoundError(f"{of} was granted nothing in {found.name}. See: harken space show {found.name}")
            _require_admin(tx, by, found)

    def grants(self, by: Speaker, space: str) -> list[Grant]:
        """Who may do what in a space that one may read."""
        by.require(KeyScope.READ)
        found = by.space(space)
        with self._control.reading(by.principal.team) as tx:
            return space_rows.list_grants(tx, found.id)

    def put_group(
        self, by: Speaker, name: str, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Mapping[str, list[str]]:
        """Let principals, by name, be in a group or leave it; one that is new is made. Its members' names, by its own.

        Raises:
            NotFoundError: there is nobody of that name.
            UsageError: a principal has the group's name, or it is `everyone`.
        """
        require_team_admin(by)
        with self._control.writing(by.principal.team) as tx:
            group = people.find_group(tx, name)
            if group == EVERYONE:
                raise UsageError(f"Everybody is in {EVERYONE}. Choose another name.")
            if group is None:
                group = _new_id()
                people.add_group(tx, group, checked_name(name))
            for is_member, names in ((True, add), (False, remove)):
                for one in names:
                    people.put_member(tx, group, people.find_principal(tx, one).id, is_member)
        return {name: self.groups(by)[name]}

    def groups(self, by: Speaker) -> Mapping[str, list[str]]:
        """The names of each group's members, by the group's name."""
        by.require(KeyScope.ADMIN)
        with self._control.reading(by.principal.team) as tx:
            members, names = people.members_of(tx), {one.id: one.name for one in people.list_principals(tx)}
            known = people.list_groups(tx)
        return {name: sorted(names[one] for one in members.get(group, ())) for group, name in sorted(known.items())}


def _require_admin(tx: TeamTransaction, by: Speaker, space: TeamSpace) -> None:
    """Pass if somebody administers a space still; whoever holds the database may in any case."""
    if not by.is_operator and Access.ADMIN not in [each.access for each in space_rows.list_grants(tx, space.id)]:
        raise UsageError(f"Nobody would administer {space.name}. First: harken space grant {space.name} NAME admin")


def _made(
    tx: TeamTransaction,
    principal: str,
    scopes: frozenset[KeyScope],
    spaces: frozenset[str] | None,
    now: datetime,
    expires: datetime | None,
) -> NewKey:
    secret = _KEY + secrets.token_hex(_SECRET_BYTES)
    prefix = secret[: len(_KEY) + _SHOWN_CHARS]
    key = ApiKey(_new_id(), prefix, principal, scopes, spaces, now, expires)
    # A secret of so much chance needs no salt.
    key_rows.add_key(tx, key, sha256_of(secret))
    return NewKey(key, secret)


def _reach(
    by: Speaker, seen: Sequence[tuple[TeamSpace, Access]] | None, names: Sequence[str] | None
) -> frozenset[str] | None:
    """The ids of the spaces that a new key is limited to; those of the key that asks, where none are named."""
    if names is None or seen is None:
        return by.key.spaces if by.key else None
    if not names:
        raise UsageError("Name at least one space that the key is to reach.")
    return frozenset(replace(by, spaces=tuple(seen)).space(name).id for name in names)


def _need_all_of(by: Speaker, scopes: Collection[KeyScope], spaces: frozenset[str] | None) -> None:
    """Nobody makes a key that may do more than the one that asks for it."""
    by.require(*sorted(scopes))
    limit = by.key.spaces if by.key else None
    if limit is not None and (spaces is None or not spaces <= limit):
        raise ScopeError(Access.READ.value, "that the key is to reach")


def _new_id(once: str = "") -> str:
    return sha256_of(once)[: 2 * _ID_BYTES] if once else secrets.token_hex(_ID_BYTES)


def checked_name(name: str) -> str:
    """The name of a principal, a group or a space, without blanks around it.

    Raises:
        UsageError: it is empty, too long, has what does not belong into a name, or is what every team has.
    """
    text = name.strip()
    if not text or len(text) > _MOST_NAME or not text.isprintable() or "/" in text or "*" in text:
        raise UsageError(f"A name has 1 to {_MOST_NAME} characters, without / and *. Choose another one.")
    if text in (COMMON, EVERYONE):
        raise UsageError(f"Every team has something called {text} already. Choose another name.")
    return text


def checked_days(days: int | None) -> int | None:
    """For how many days something is kept.

    Raises:
        UsageError: they are none.
    """
    if days is not None and not 1 <= days <= 36_500:
        raise UsageError(f"Days must be from 1 to 36,500, not {days}.")
    return days
