"""What a team's members ask about spaces: which there are, who may do what there, and what is shared in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typing_extensions import TypedDict

from harken.model.arguments import OFFSET, Argument, Spelling
from harken.model.team import Access
from harken.model.views import GrantView, SpaceView
from harken.serve.operations.operation import (
    HIDDEN,
    WORD,
    AnyOperation,
    Caller,
    Effect,
    Printer,
    TeamMember,
    of_team,
    paged,
    show_each,
    view_of,
)
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.model.team import Grant, TeamSpace

Name = Annotated[str, Argument("Its name.", 1, 100), WORD]
_Space = Annotated[str, Argument("The space: its name or id.", 1, 100), WORD]
_Who = Annotated[str, Argument("A principal's or a group's name.", 1, 200), Spelling("", "NAME", is_word=True)]
_FROM = Spelling("--from", "SPACE")
_KEPT = "For how many days what is in it is kept; left out, for good."


class ReachedView(SpaceView):
    """A space, and what may be done there: read, write or admin."""

    access: str


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
    """Which page of a list; a person is shown all of it."""

    limit: Annotated[int, Argument("How many at most.", 1, 200), HIDDEN] = 50
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000), HIDDEN] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpaceArguments:
    """A space to be made."""

    name: Name
    retention_days: Annotated[int | None, Argument(_KEPT, 1, 36_500), Spelling("--keep")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceArguments:
    """One space."""

    space: _Space


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepArguments(SpaceArguments):
    """How long what is in a space is kept."""

    days: Annotated[int | None, Argument(_KEPT, 1, 36_500), WORD] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantsArguments(PageArguments):
    """Of which space."""

    space: _Space


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantArguments(SpaceArguments):
    """A grant."""

    to: _Who
    access: Annotated[str, Argument("What they may.", choices=tuple(map(str, Access))), WORD] = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeArguments(SpaceArguments):
    """A grant to be taken back."""

    of: _Who


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareArguments:
    """What is to be shared, and where."""

    id: Annotated[str, Argument("A message, exchange, conversation, memory or experience.", 6, 200), WORD]
    to: Annotated[str, Argument("The space that gets a copy: its name or id.", 1, 100), Spelling("--to", "SPACE")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshareArguments:
    """What is not to be shared any more."""

    id: Annotated[str, Argument("What was shared.", 6, 200), WORD]
    space: Annotated[str | None, Argument("Only there; left out, everywhere.", 1, 100), _FROM] = None


def _grants(member: TeamMember, wanted: GrantsArguments, _caller: Caller) -> tuple[TeamSpace, Sequence[Grant]]:
    return member.speaker.space(wanted.space), member.team.grants(member.speaker, wanted.space)[wanted.offset :]


def _show_grants(printer: Printer, found: tuple[TeamSpace, Sequence[Grant]]) -> None:
    space, grants = found
    kept = f"kept {_kept(space)}"
    if space.retention_days == 0:
        kept = f"being deleted. If nobody is at it: harken space delete {space.name}"
    printer.say(f"{space.name}: {'private, ' * space.is_private}{kept}")
    for grant in grants:
        printer.say(f"  {grant.name}{' (group)' * grant.is_group}: {grant.access.value}")


def _kept(space: TeamSpace) -> str:
    return f"for {counted(space.retention_days, 'day')}" if space.retention_days else "for good"


def _share(member: TeamMember, wanted: ShareArguments, _caller: Caller) -> dict[str, str]:
    return {"id": member.team.share(member.speaker, wanted.id, wanted.to), "space": wanted.to, "of": wanted.id}


def _revoke(member: TeamMember, wanted: RevokeArguments, _caller: Caller) -> RevokeArguments:
    member.team.revoke(member.speaker, wanted.space, wanted.of)
    return wanted


_changing: Callable[..., AnyOperation] = partial(of_team, effect=Effect.CHANGES, scope="admin", is_idempotent=True)
OPERATIONS = (
    of_team(
        "spaces",
        "List the spaces that may be read, one's own first.",
        PageArguments,
        lambda member, wanted, _caller: member.speaker.view()["spaces"][wanted.offset :],
        "List spaces",
        SpacesAnswer,
        paged("spaces", list),
        command="space list",
        show=show_each(
            lambda it: f"{it['name']}  {it['access']}{', private' * it['private']}  {it['id']}", "No space."
        ),
        shell_view=list,
    ),
    of_team(
        "space_create",
        "Make a shared space; nobody else sees it until it is granted.",
        NewSpaceArguments,
        lambda member, wanted, caller: member.team.create_space(
            member.speaker, wanted.name, wanted.retention_days, caller.once
        ),
        "Make a space",
        SpaceView,
        effect=Effect.ADDS,
        scope="admin",
        show=lambda printer, found: printer.say(
            f"Made {found.name}. Let others in: harken space grant {found.name} NAME read"
        ),
    ),
    of_team(
        "grants",
        "List who may do what in a space.",
        GrantsArguments,
        _grants,
        "List grants",
        GrantsAnswer,
        lambda found, wanted: paged("grants")(found[1], wanted),
        command="space show",
        show=_show_grants,
        shell_view=lambda found: {**found[0].view(), "grants": view_of(found[1])},
    ),
    _changing(
        "grant",
        "Let a principal, a group or `everyone` read, write or administer a space.",
        GrantArguments,
        lambda member, wanted, _caller: member.team.grant(
            member.speaker, wanted.space, wanted.to, Access.of(wanted.access)
        ),
        "Grant",
        GrantView,
        command="space grant",
        show=lambda printer, found: printer.say(f"{found.name} may {found.access.value} there."),
    ),
    _changing(
        "revoke",
        "Take back what was granted.",
        RevokeArguments,
        _revoke,
        "Revoke a grant",
        DoneAnswer,
        lambda _found, _wanted: DoneAnswer(done=True),
        command="space revoke",
        show=lambda printer, found: printer.say(f"{found.of} may do nothing in {found.space} any more."),
        shell_view=lambda found: {"space": found.space, "revoked": found.of},
    ),
    _changing(
        "space keep",
        "Keep what is in a space for so many DAYS; without them, for good.",
        KeepArguments,
        lambda member, wanted, _caller: member.team.keep_space(member.speaker, wanted.space, wanted.days),
        show=lambda printer, found: printer.say(f"What is in {found.name} is kept {_kept(found)}."),
    ),
    of_team(
        "space delete",
        "Delete a shared space with everything in it, for good.",
        SpaceArguments,
        lambda member, wanted, _caller: member.team.delete_space(member.speaker, wanted.space),
        effect=Effect.DESTROYS,
        scope="admin forget",
        asks=lambda member, wanted: (
            "Nothing was deleted",
            f"delete {member.speaker.space(wanted.space).name} with everything in it",
        ),
        show=lambda printer, found: printer.say(f"Deleted {found.name}. Backups made earlier still hold it."),
        shell_view=lambda found: {"deleted": found.name},
    ),
    of_team(
        "share",
        "Copy a message, an exchange, a conversation, a memory or an experience into a space.",
        ShareArguments,
        _share,
        "Share",
        SharedAnswer,
        lambda found, _wanted: SharedAnswer(id=found["id"]),
        effect=Effect.ADDS,
        scope="read remember",
        show=lambda printer, found: printer.say(
            f"Shared in {found['space']}: {found['id']}. Take it back: harken unshare {found['of']}"
        ),
    ),
    of_team(
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
        show=lambda printer, found: printer.say(f"Forgot {counted(len(found['ids']), 'record')} that had been shared."),
    ),
)
