"""What a team's members ask about the team itself: who they are, keys, spaces, sharing, and what was done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.model.arguments import OFFSET, Argument
from harken.model.team import Access, KeyScope, PrincipalKind
from harken.model.views import format_moment, view_of
from harken.serve.operations.operation import AnyOperation, Caller, Effect, IdArguments, NoArguments, Operation, paged
from harken.text.dates import parse_since

if TYPE_CHECKING:
    from harken.engine.team import Team
    from harken.model.team import Speaker

_SCOPES, _ACCESSES, _KINDS = (tuple(map(str, words)) for words in (KeyScope, Access, PrincipalKind))
_Name = Annotated[str, Argument("Its name.", 1, 100)]
_SpaceName = Annotated[str, Argument("The space: its name or id.", 1, 100)]
_Limit = Annotated[int, Argument("How many at most.", 1, 200)]
_Offset = Annotated[int, Argument(OFFSET, 0, 1_000_000)]


@dataclass(frozen=True, slots=True)
class TeamMember:
    """Who asks, and of which team."""

    team: Team
    speaker: Speaker


class PrincipalView(TypedDict):
    """A person, an agent or a service."""

    id: str
    name: str
    kind: str
    email: str | None


class KeyView(TypedDict):
    """A key without its secret; `spaces` are the only ones that it reaches, null for all of its principal's."""

    id: str
    prefix: str
    principal: str
    scopes: list[str]
    spaces: list[str] | None
    created: str
    expires: str | None
    last_used: str | None
    revoked: str | None


class NewKeyView(KeyView):
    """A key with its secret, which is shown this once."""

    key: str


class SpaceView(TypedDict):
    """A space."""

    id: str
    name: str
    private: bool
    retention_days: int | None


class ReachedView(SpaceView):
    """A space, and what may be done there: read, write or admin."""

    access: str


class WhoamiAnswer(TypedDict):
    """Who asks, with which key, and what they may."""

    principal: PrincipalView
    team: str
    key: KeyView | None
    scopes: list[str]
    spaces: list[ReachedView]


class GrantView(TypedDict):
    """What a principal or a group may do in a space."""

    space: str
    to: str
    kind: str
    access: str


class KeysAnswer(TypedDict):
    """Keys, newest first."""

    keys: list[KeyView]
    next_offset: int | None


class PrincipalsAnswer(TypedDict):
    """Everybody in the team."""

    principals: list[PrincipalView]
    next_offset: int | None


class SpacesAnswer(TypedDict):
    """Spaces that whoever asks may read, their own first."""

    spaces: list[ReachedView]
    next_offset: int | None


class GrantsAnswer(TypedDict):
    """Who may do what in a space."""

    grants: list[GrantView]
    next_offset: int | None


class SharedAnswer(TypedDict):
    """The copy."""

    id: str


class UnsharedAnswer(TypedDict):
    """The copies that are gone."""

    ids: list[str]


class DoneAnswer(TypedDict):
    """It is done."""

    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageArguments:
    """Which page of a list."""

    limit: _Limit = 50
    offset: _Offset = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysArguments(PageArguments):
    """Whose keys."""

    principal: Annotated[str | None, Argument("Whose, by name or id; left out, one's own.", 1, 200)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyArguments:
    """A key to be made."""

    principal: Annotated[str | None, Argument("For whom, by name or id; left out, for oneself.", 1, 200)] = None
    scopes: Annotated[tuple[str, ...], Argument("What it may; left out, the usual.", most=7, choices=_SCOPES)] = ()
    spaces: Annotated[tuple[str, ...], Argument("The only spaces that it reaches; left out, all.", most=100)] = ()
    days: Annotated[int | None, Argument("For how many days; left out, until it is revoked.", 1, 36_500)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateArguments(IdArguments):
    """A key to be replaced."""

    overlap_seconds: Annotated[int, Argument("How long both are good.", 0, 30 * 86_400)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrincipalArguments:
    """A principal to be made."""

    name: _Name
    kind: Annotated[str, Argument("What it is.", choices=_KINDS)] = "user"
    email: Annotated[str | None, Argument("How a login finds them.", 3, 200)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpaceArguments:
    """A space to be made."""

    name: _Name
    retention_days: Annotated[int | None, Argument("What is older is forgotten; left out, all is kept.", 1, 36_500)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantsArguments(PageArguments):
    """Of which space."""

    space: _SpaceName


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantArguments:
    """A grant."""

    space: _SpaceName
    to: Annotated[str, Argument("A principal's or a group's name.", 1, 200)]
    access: Annotated[str, Argument("What they may.", choices=_ACCESSES)] = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeArguments:
    """A grant to be taken back."""

    space: _SpaceName
    of: Annotated[str, Argument("A principal's or a group's name.", 1, 200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareArguments:
    """What is to be shared, and where."""

    id: Annotated[str, Argument("A message, exchange, conversation, memory or experience.", 6, 200)]
    to: _SpaceName


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshareArguments:
    """What is not to be shared any more."""

    id: Annotated[str, Argument("What was shared.", 6, 200)]
    space: Annotated[str | None, Argument("Only there; left out, everywhere.", 1, 100)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditArguments:
    """Which lines of the audit."""

    principal: Annotated[str | None, Argument("Only of this one, by name or id.", 1, 200)] = None
    verb: Annotated[str | None, Argument("Only of this verb.", 1, 100)] = None
    since: Annotated[str | None, Argument("Not before this: 2026-05-08, '2 days ago'.", most=100)] = None
    limit: Annotated[int, Argument("How many at most, newest first.", 1, 500)] = 100
    before: Annotated[str | None, Argument("Where to go on: the next_before of the answer before.", most=40)] = None


class AuditView(TypedDict):
    """One request: who asked for what, of which ids, when, by which door, and how it was answered."""

    at: str
    principal: str
    key: str | None
    space: str | None
    verb: str
    via: str
    status: int
    ids: list[str]


class AuditAnswer(TypedDict):
    """Requests, newest first."""

    audit: list[AuditView]
    next_before: str | None


def _create_key(member: TeamMember, wanted: NewKeyArguments, _caller: Caller) -> dict[str, Any]:
    expires = datetime.now(UTC) + timedelta(days=wanted.days) if wanted.days else None
    scopes = [KeyScope.of(scope) for scope in wanted.scopes] or None
    spaces = list(wanted.spaces) or None
    return member.team.create_key(member.speaker, wanted.principal, scopes, spaces, expires).view()


def _create_principal(member: TeamMember, wanted: NewPrincipalArguments, caller: Caller) -> dict[str, Any]:
    kind = PrincipalKind.of(wanted.kind)
    return member.team.create_principal(member.speaker, wanted.name, kind, wanted.email, once=caller.once).view()


def _grant(member: TeamMember, wanted: GrantArguments, _caller: Caller) -> dict[str, Any]:
    return member.team.grant(member.speaker, wanted.space, wanted.to, Access.of(wanted.access)).view()


def _revoke(member: TeamMember, wanted: RevokeArguments, _caller: Caller) -> DoneAnswer:
    member.team.revoke(member.speaker, wanted.space, wanted.of)
    return DoneAnswer(done=True)


def _audit(member: TeamMember, wanted: AuditArguments, _caller: Caller) -> AuditAnswer:
    of, now = (wanted.principal, wanted.verb), datetime.now(UTC)
    since, before = (parse_since(each, now) if each else None for each in (wanted.since, wanted.before))
    found = member.team.requests.audited(member.speaker, of, since, before, wanted.limit + 1)
    # No offset: whoever reads the audit page by page adds a line to it with each.
    more = format_moment(found[-2].at) if len(found) > wanted.limit else None
    lines = [view_of(AuditView, each, at=format_moment(each.at)) for each in found[: wanted.limit]]
    return AuditAnswer(audit=lines, next_before=more)


_of_team: Callable[..., AnyOperation] = partial(Operation, is_of_team=True)
OPERATIONS = (
    _of_team(
        "whoami",
        "Say who asks, by which key, what it may, and which spaces it reaches.",
        NoArguments,
        lambda member, _wanted, _caller: member.speaker,
        "Who am I",
        WhoamiAnswer,
        scope="",
    ),
    _of_team(
        "spaces",
        "List the spaces that may be read, one's own first.",
        PageArguments,
        lambda member, wanted, _caller: member.speaker.view()["spaces"][wanted.offset :],
        "List spaces",
        SpacesAnswer,
        paged("spaces", list),
    ),
    _of_team(
        "space_create",
        "Make a space to share things in.",
        NewSpaceArguments,
        lambda member, wanted, caller: member.team.create_space(
            member.speaker, wanted.name, wanted.retention_days, caller.once
        ),
        "Make a space",
        SpaceView,
        effect=Effect.ADDS,
        scope="admin",
    ),
    _of_team(
        "grants",
        "List who may do what in a space.",
        GrantsArguments,
        lambda member, wanted, _caller: member.team.grants(member.speaker, wanted.space)[wanted.offset :],
        "List grants",
        GrantsAnswer,
        paged("grants"),
    ),
    _of_team(
        "grant",
        "Let a principal or a group read, write or administer a space.",
        GrantArguments,
        _grant,
        "Grant",
        GrantView,
        effect=Effect.CHANGES,
        is_idempotent=True,
        scope="admin",
    ),
    _of_team(
        "revoke",
        "Take back what was granted.",
        RevokeArguments,
        _revoke,
        "Revoke a grant",
        DoneAnswer,
        effect=Effect.CHANGES,
        is_idempotent=True,
        scope="admin",
    ),
    _of_team(
        "share",
        "Copy a message, an exchange, a conversation, a memory or an experience into a space.",
        ShareArguments,
        lambda member, wanted, _caller: SharedAnswer(id=member.team.share(member.speaker, wanted.id, wanted.to)),
        "Share",
        SharedAnswer,
        effect=Effect.ADDS,
        scope="read remember",
    ),
    _of_team(
        "unshare",
        "Forget the copies of something that was shared.",
        UnshareArguments,
        lambda member, wanted, _caller: UnsharedAnswer(
            ids=list(member.team.unshare(member.speaker, wanted.id, wanted.space))
        ),
        "Share no longer",
        UnsharedAnswer,
        effect=Effect.CHANGES,
        scope="forget",
    ),
    _of_team(
        "keys",
        "List keys, newest first; never the keys themselves.",
        KeysArguments,
        lambda member, wanted, _caller: member.team.list_keys(member.speaker, wanted.principal)[wanted.offset :],
        "List keys",
        KeysAnswer,
        paged("keys"),
        scope="keys",
    ),
    _of_team(
        "key_create",
        "Make a key; the answer alone has it.",
        NewKeyArguments,
        _create_key,
        "Make a key",
        NewKeyView,
        effect=Effect.ADDS,
        scope="keys",
        is_secret=True,
    ),
    _of_team(
        "key_revoke",
        "Revoke a key, by its id or by how it begins.",
        IdArguments,
        lambda member, wanted, _caller: member.team.revoke_key(member.speaker, wanted.id),
        "Revoke a key",
        KeyView,
        effect=Effect.CHANGES,
        is_idempotent=True,
        scope="keys",
    ),
    _of_team(
        "key_rotate",
        "Make a key like another, which is good no longer, or for some seconds more.",
        RotateArguments,
        lambda member, wanted, _caller: member.team.rotate_key(member.speaker, wanted.id, wanted.overlap_seconds),
        "Rotate a key",
        NewKeyView,
        effect=Effect.ADDS,
        scope="keys",
        is_secret=True,
    ),
    _of_team(
        "principals",
        "List everybody in the team.",
        PageArguments,
        lambda member, wanted, _caller: member.team.principals(member.speaker)[wanted.offset :],
        "List principals",
        PrincipalsAnswer,
        paged("principals"),
        scope="admin",
    ),
    _of_team(
        "principal_create",
        "Make a principal, who gets a private space.",
        NewPrincipalArguments,
        _create_principal,
        "Make a principal",
        PrincipalView,
        effect=Effect.ADDS,
        scope="admin",
    ),
    _of_team(
        "audit",
        "List who asked for what and of which ids, newest first; never any text.",
        AuditArguments,
        _audit,
        "Audit",
        AuditAnswer,
        scope="admin",
    ),
)
