"""What a team's members ask about who is in it: who they are, principals, groups, keys, erasing, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import Argument, Spelling
from harken.model.team import KeyScope, PrincipalKind
from harken.model.views import AuditView, KeyView, PrincipalView, format_moment
from harken.serve.operations.operation import (
    AnyOperation,
    Caller,
    Effect,
    IdArguments,
    NoArguments,
    Printer,
    TeamMember,
    of_team,
    paged,
    show_each,
)
from harken.serve.team.spaces import Name, PageArguments, ReachedView
from harken.text.dates import parse_since
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.engine.erasing import Erased, ExportedPerson
    from harken.model.team import ApiKey, NewKey, Principal, Speaker

_ONCE = "This is the only time that the key is shown. Give it to them as HARKEN_KEY."
_FOR, _OF, _ONLY, _NAMES = (
    Spelling("--for", "NAME"),
    Spelling("--of", "NAME"),
    Spelling("--only", "SPACE"),
    Spelling("", "NAME"),
)


class NewKeyView(KeyView):
    """A key with its secret, which is shown this once."""

    key: str


class WhoamiAnswer(TypedDict):
    """Who asks, with which key, and what they may."""

    principal: PrincipalView
    team: str
    key: KeyView | None
    scopes: list[str]
    spaces: list[ReachedView]


class KeysAnswer(TypedDict):
    """Keys, newest first."""

    keys: list[KeyView]
    next_offset: int | None


class PrincipalsAnswer(TypedDict):
    """Everybody in the team."""

    principals: list[PrincipalView]
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysArguments(PageArguments):
    """Whose keys."""

    principal: Annotated[
        str | None, Argument("Whose, by name or id, `*` for everybody's; left out, one's own.", 1, 200), _OF
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyArguments:
    """A key to be made."""

    principal: Annotated[str | None, Argument("For whom, by name or id; left out, for oneself.", 1, 200), _FOR] = None
    scopes: Annotated[
        tuple[str, ...],
        Argument("What it may; left out, the usual.", most=7, choices=tuple(map(str, KeyScope))),
        Spelling("--scope"),
    ] = ()
    spaces: Annotated[
        tuple[str, ...], Argument("The only spaces that it reaches; left out, all.", most=100), _ONLY
    ] = ()
    days: Annotated[int | None, Argument("For how many days; left out, until it is revoked.", 1, 36_500)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateArguments(IdArguments):
    """A key to be replaced."""

    overlap_seconds: Annotated[int, Argument("How long both are good.", 0, 30 * 86_400)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrincipalArguments:
    """A principal to be made."""

    name: Name
    kind: Annotated[str, Argument("What it is.", choices=tuple(map(str, PrincipalKind)))] = "user"
    email: Annotated[str | None, Argument("How a login finds them.", 3, 200)] = None
    admin: Annotated[bool, Argument("Let them manage the team.", is_shared=False)] = False
    no_key: Annotated[bool, Argument("Make no key yet.", is_shared=False)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupArguments:
    """Who is to be in a group."""

    name: Name
    add: Annotated[tuple[str, ...], Argument("Let a principal be in it."), _NAMES] = ()
    remove: Annotated[tuple[str, ...], Argument("Let one leave it."), _NAMES] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseArguments:
    """Who is to be erased, and where everything of theirs is written before."""

    name: Name
    export: Annotated[str | None, Argument("Write everything of theirs here before."), Spelling(metavar="FILE")] = None
    no_export: Annotated[bool, Argument("Keep nothing of it.")] = False

    def __post_init__(self) -> None:
        """Raise UsageError unless it is said whether anything is kept."""
        if (self.export is None) is not self.no_export:
            raise UsageError("Say where everything of theirs is written before, --export FILE, or --no-export.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditArguments:
    """Which lines of the audit."""

    principal: Annotated[str | None, Argument("Only of this one, by name or id.", 1, 200)] = None
    verb: Annotated[str | None, Argument("Only of this verb.", 1, 100)] = None
    since: Annotated[str | None, Argument("Not before this: 2026-05-08, '2 days ago'.", most=100)] = None
    limit: Annotated[int, Argument("How many at most, newest first.", 1, 500)] = 100
    before: Annotated[str | None, Argument("Where to go on: the next_before of the answer before.", most=40)] = None


class AuditAnswer(TypedDict):
    """Requests, newest first."""

    audit: list[AuditView]
    next_before: str | None


# What may stand in the audit; the registry, which knows this module and not the other way round, names it.
VERBS: set[str] = set()


def _show_speaker(printer: Printer, found: Speaker) -> None:
    name = "the operator, by the database itself" if found.is_operator else found.principal.name
    printer.say(f"{name} of team {found.principal.team}; may {', '.join(found.view()['scopes'])}")
    for space, access in found.spaces:
        printer.say(f"  {space.name}: {access.value}{', private' * space.is_private}")


def _create_key(member: TeamMember, wanted: NewKeyArguments, _caller: Caller) -> NewKey:
    expires = datetime.now(UTC) + timedelta(days=wanted.days) if wanted.days else None
    scopes = [KeyScope.of(scope) for scope in wanted.scopes]
    return member.team.create_key(member.speaker, wanted.principal, scopes, wanted.spaces or None, expires)


def _show_key(printer: Printer, found: NewKey) -> None:
    printer.say(found.secret)
    printer.note(_ONCE)


def _key_line(key: ApiKey) -> str:
    state = "revoked" if key.revoked else f"until {key.expires:%Y-%m-%d}" if key.expires else "valid"
    used = f"used {key.last_used:%Y-%m-%d %H:%M}" if key.last_used else "never used"
    return f"{key.prefix}…  {key.id}  {state}, {used}; {', '.join(sorted(key.scopes))}"


def _create_principal(
    member: TeamMember, wanted: NewPrincipalArguments, caller: Caller
) -> tuple[Principal, NewKey | None]:
    kind = PrincipalKind.of(wanted.kind)
    one = member.team.create_principal(member.speaker, wanted.name, kind, wanted.email, wanted.admin, caller.once)
    has_key = caller.is_owner and not wanted.no_key
    return one, member.team.create_key(member.speaker, one.id) if has_key else None


def _show_principal(printer: Printer, found: tuple[Principal, NewKey | None]) -> None:
    one, key = found
    (printer.note if key else printer.say)(f"Made {one.name}, with a private space of the same name.")
    if key:
        _show_key(printer, key)


def _show_groups(printer: Printer, found: Mapping[str, Sequence[str]]) -> None:
    for name, members in found.items():
        printer.say(f"{name}: {', '.join(members) or 'nobody'}")
    if not found:
        printer.say("No group yet: harken group set NAME --add PRINCIPAL")


def _erase(member: TeamMember, wanted: EraseArguments, _caller: Caller) -> tuple[ExportedPerson | None, Erased]:
    team, by = member
    written = None if wanted.export is None else team.export_principal(by, wanted.name, Path(wanted.export))
    return written, team.erase_principal(by, wanted.name)


def _show_erased(printer: Printer, found: tuple[ExportedPerson | None, Erased]) -> None:
    written, erased = found
    if written:
        printer.note(f"Wrote everything of {erased.principal} to {written.private}")
    told = f"{counted(erased.spaces, 'private space')} and {counted(erased.records, 'record')} in shared ones"
    printer.say(f"Erased {erased.principal}: {told}. Backups made earlier still hold them.")


def _audit(member: TeamMember, wanted: AuditArguments, _caller: Caller) -> AuditAnswer:
    of, now = (wanted.principal, wanted.verb), datetime.now(UTC)
    since, before = (parse_since(each, now) if each else None for each in (wanted.since, wanted.before))
    found = member.team.requests.audited(member.speaker, of, since, before, wanted.limit + 1)
    if wanted.verb and not found and wanted.verb not in VERBS:
        raise UsageError(f"There is no verb '{wanted.verb}'. There are: {', '.join(sorted(VERBS))}.")
    # No offset: whoever reads the audit page by page adds a line to it with each.
    more = format_moment(found[-2].at) if len(found) > wanted.limit else None
    return AuditAnswer(audit=[each.view() for each in found[: wanted.limit]], next_before=more)


WHOAMI = of_team(
    "whoami",
    "Say who asks, by which key, what it may, and which spaces it reaches.",
    NoArguments,
    lambda member, _wanted, _caller: member.speaker,
    "Who am I",
    WhoamiAnswer,
    scope="",
    show=_show_speaker,
)
_making_key: Callable[..., AnyOperation] = partial(
    of_team, effect=Effect.ADDS, scope="keys", is_secret=True, show=_show_key
)
OPERATIONS = (
    WHOAMI,
    of_team(
        "keys",
        "List keys, newest first; never the keys themselves.",
        KeysArguments,
        lambda member, wanted, _caller: member.team.list_keys(member.speaker, wanted.principal)[wanted.offset :],
        "List keys",
        KeysAnswer,
        paged("keys"),
        scope="keys",
        command="key list",
        show=show_each(_key_line, "No keys."),
    ),
    _making_key(
        "key_create",
        "Make a key, which is shown this once.",
        NewKeyArguments,
        _create_key,
        "Make a key",
        NewKeyView,
    ),
    of_team(
        "key_revoke",
        "Revoke a key, by its id or by how it begins.",
        IdArguments,
        lambda member, wanted, _caller: member.team.revoke_key(member.speaker, wanted.id),
        "Revoke a key",
        KeyView,
        effect=Effect.CHANGES,
        is_idempotent=True,
        scope="keys",
        show=lambda printer, found: printer.say(f"Revoked {found.prefix}…"),
    ),
    _making_key(
        "key_rotate",
        "Make a key like another, which is good no longer, or for some seconds more.",
        RotateArguments,
        lambda member, wanted, _caller: member.team.rotate_key(member.speaker, wanted.id, wanted.overlap_seconds),
        "Rotate a key",
        NewKeyView,
    ),
    of_team(
        "principals",
        "List everybody in the team.",
        PageArguments,
        lambda member, wanted, _caller: member.team.principals(member.speaker)[wanted.offset :],
        "List principals",
        PrincipalsAnswer,
        paged("principals"),
        scope="admin",
        command="principal list",
        show=show_each(
            lambda one: f"{one.name}  {one.kind.value}  {one.email or ''}".rstrip(),
            "Nobody yet: harken principal create NAME --admin",
        ),
    ),
    of_team(
        "principal_create",
        "Make a principal, who gets a private space.",
        NewPrincipalArguments,
        _create_principal,
        "Make a principal",
        PrincipalView,
        lambda found, _wanted: found[0].view(),
        effect=Effect.ADDS,
        scope="admin",
        help="Make a principal with a private space, and their first key.",
        show=_show_principal,
        shell_view=lambda found: {**found[0].view(), **({"key": found[1].view()} if found[1] else {})},
    ),
    of_team(
        "group set",
        "Make a group, or change who is in it.",
        GroupArguments,
        lambda member, wanted, _caller: member.team.put_group(member.speaker, wanted.name, wanted.add, wanted.remove),
        effect=Effect.CHANGES,
        scope="admin",
        show=_show_groups,
    ),
    of_team(
        "group list",
        "List all groups with their members.",
        NoArguments,
        lambda member, _wanted, _caller: member.team.groups(member.speaker),
        scope="admin",
        show=_show_groups,
    ),
    of_team(
        "erase",
        "Erase a person for good: their keys, their words in every space, and their name.",
        EraseArguments,
        _erase,
        effect=Effect.DESTROYS,
        scope="forget",
        asks=lambda _member, wanted: ("Nothing was erased", f"erase {wanted.name} for good"),
        show=_show_erased,
        shell_view=lambda found: {**({"export": found[0].view()} if found[0] else {}), **found[1].view()},
    ),
    of_team(
        "audit",
        "List who asked for what and of which ids, newest first; never any text.",
        AuditArguments,
        _audit,
        "Audit",
        AuditAnswer,
        scope="admin",
    ),
)
