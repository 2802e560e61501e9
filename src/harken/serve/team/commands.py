"""`harken whoami`, `principal`, `group`, `key`, `space`, `share`, `unshare` and `erase`: a team on a server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.errors import UsageError
from harken.model.team import Access, KeyScope, PrincipalKind
from harken.serve.cli.session import CommandAnswer, CommandSession, with_json
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.engine.team import Team
    from harken.model.team import ApiKey, NewKey, Speaker

_SCOPES, _ACCESSES, _KINDS = (tuple(map(str, words)) for words in (KeyScope, Access, PrincipalKind))
_ONCE = "This is the only time that the key is shown. Give it to them as HARKEN_KEY."
_DAYS = click.IntRange(1, 36_500)


def on_team(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    """Hand the command the team and whoever asks: by `HARKEN_KEY`, else as whoever has the database."""

    @wraps(command)
    def run(session: CommandSession, as_json: bool, **given: Any) -> None:
        with session.team() as (team, speaker):
            answer = command(team, speaker, **given)
        for note in [] if as_json else answer.notes:
            session.note(note)
        session.tell(as_json, answer.view, *answer.lines)

    return with_json(run)


@click.command()
@with_json
def whoami(session: CommandSession, as_json: bool) -> None:
    """Say who asks, by which key, what it may, and which spaces it reaches."""
    if session.settings().store is None:
        session.tell(as_json, {"principal": None}, "You: this store has one owner, and needs no key.")
        return
    with session.team() as (_, speaker):
        view = speaker.view()
    name = "the operator, by the database itself" if speaker.is_operator else speaker.principal.name
    lines = [f"{name} of team {speaker.principal.team}; may {', '.join(view['scopes'])}"]
    lines += [f"  {space.name}: {access.value}{', private' * space.is_private}" for space, access in speaker.spaces]
    session.tell(as_json, view, *lines)


@click.group("principal")
def principal_command() -> None:
    """Who is in the team: people, agents and services."""


@principal_command.command("create")
@click.argument("name")
@click.option("--kind", type=click.Choice(_KINDS), default="user", show_default=True, help="What it is.")
@click.option("--email", help="How a login finds them.")
@click.option("--admin", "is_admin", is_flag=True, help="Let them manage the team.")
@click.option("--no-key", is_flag=True, help="Make no key yet.")
@on_team
def create_principal(
    team: Team, by: Speaker, name: str, kind: str, email: str | None, is_admin: bool, no_key: bool
) -> CommandAnswer:
    """Make a principal with a private space, and their first key."""
    one = team.create_principal(by, name, PrincipalKind(kind), email, is_admin)
    said = f"Made {one.name}, with a private space of the same name."
    if no_key:
        return CommandAnswer(one.view(), [said])
    key = team.create_key(by, one.id)
    return CommandAnswer({**one.view(), "key": key.view()}, [key.secret], [said, _ONCE])


@principal_command.command("list")
@on_team
def list_principals(team: Team, by: Speaker) -> CommandAnswer:
    """List everybody in the team."""
    found = team.principals(by)
    lines = [f"{one.name}  {one.kind.value}  {one.email or ''}".rstrip() for one in found]
    return CommandAnswer([one.view() for one in found], lines or ["Nobody yet: harken principal create NAME --admin"])


@click.group("group")
def group_command() -> None:
    """Groups that spaces can be granted to; everybody is in the group `everyone`."""


@group_command.command("set")
@click.argument("name")
@click.option("--add", multiple=True, metavar="NAME", help="Let a principal be in it.")
@click.option("--remove", multiple=True, metavar="NAME", help="Let one leave it.")
@on_team
def put_group(team: Team, by: Speaker, name: str, add: tuple[str, ...], remove: tuple[str, ...]) -> CommandAnswer:
    """Make a group, or change who is in it."""
    members = team.put_group(by, name, add, remove)[name]
    return CommandAnswer({"group": name, "members": members}, [f"{name}: {', '.join(members) or 'nobody'}"])


@group_command.command("list")
@on_team
def list_groups(team: Team, by: Speaker) -> CommandAnswer:
    """List all groups with their members."""
    found = dict(team.groups(by))
    lines = [f"{name}: {', '.join(members) or 'nobody'}" for name, members in found.items()]
    return CommandAnswer(found, lines or ["No group yet: harken group set NAME --add PRINCIPAL"])


@click.group("key")
def key_command() -> None:
    """Keys, by which a server knows who asks."""


def _made(key: NewKey) -> CommandAnswer:
    return CommandAnswer(key.view(), [key.secret], [_ONCE])


@key_command.command("create")
@click.option("--for", "principal", metavar="NAME", help="For whom; left out, for yourself.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(_SCOPES), help="What it may; can be repeated.")
@click.option("--only", "spaces", multiple=True, metavar="SPACE", help="The only space that it reaches; repeatable.")
@click.option("--days", type=_DAYS, help="For how many days; left out, until it is revoked.")
@on_team
def create_key(
    team: Team, by: Speaker, principal: str | None, scopes: tuple[str, ...], spaces: tuple[str, ...], days: int | None
) -> CommandAnswer:
    """Make a key, which is shown this once."""
    expires = datetime.now(UTC) + timedelta(days=days) if days else None
    return _made(team.create_key(by, principal, [KeyScope(each) for each in scopes], spaces or None, expires))


@key_command.command("list")
@click.option("--of", "principal", metavar="NAME", help="Whose; `*` for everybody's.")
@on_team
def list_keys(team: Team, by: Speaker, principal: str | None) -> CommandAnswer:
    """List keys, newest first; never the keys themselves."""
    found = team.list_keys(by, principal)
    return CommandAnswer([key.view() for key in found], [_key_line(key) for key in found] or ["No keys."])


def _key_line(key: ApiKey) -> str:
    state = "revoked" if key.revoked else f"until {key.expires:%Y-%m-%d}" if key.expires else "valid"
    used = f"used {key.last_used:%Y-%m-%d %H:%M}" if key.last_used else "never used"
    return f"{key.prefix}…  {key.id}  {state}, {used}; {', '.join(sorted(key.scopes))}"


@key_command.command("revoke")
@click.argument("key")
@on_team
def revoke_key(team: Team, by: Speaker, key: str) -> CommandAnswer:
    """Revoke a key, by its id or by how it begins."""
    gone = team.revoke_key(by, key)
    return CommandAnswer(gone.view(), [f"Revoked {gone.prefix}…"])


@key_command.command("rotate")
@click.argument("key")
@click.option("--overlap", type=click.IntRange(0, 43_200), default=0, help="For how many minutes the old one is good.")
@on_team
def rotate_key(team: Team, by: Speaker, key: str, overlap: int) -> CommandAnswer:
    """Make a key like another, in its place."""
    return _made(team.rotate_key(by, key, 60 * overlap))


@click.group("space")
def space_command() -> None:
    """Spaces: one's own, which is private, and those that a team shares."""


@space_command.command("list")
@on_team
def list_spaces(team: Team, by: Speaker) -> CommandAnswer:
    """List the spaces that you may read, your own first."""
    lines = [f"{space.name}  {access.value}{', private' * space.is_private}" for space, access in by.spaces]
    return CommandAnswer(by.view()["spaces"], lines)


@space_command.command("create")
@click.argument("name")
@click.option("--keep", "days", type=_DAYS, help="For how many days what is in it is kept; left out, for good.")
@on_team
def create_space(team: Team, by: Speaker, name: str, days: int | None) -> CommandAnswer:
    """Make a shared space; nobody else sees it until it is granted."""
    space = team.create_space(by, name, days)
    return CommandAnswer(space.view(), [f"Made {name}. Let others in: harken space grant {name} NAME read"])


@space_command.command("show")
@click.argument("space")
@on_team
def show_space(team: Team, by: Speaker, space: str) -> CommandAnswer:
    """Show who may do what in a space."""
    found, grants = by.space(space), team.grants(by, space)
    days, going = found.retention_days, f"being deleted. If nobody is at it: harken space delete {found.name}"
    kept = f"kept for {counted(days, 'day')}" if days else "kept for good" if days is None else going
    lines = [f"{found.name}: {'private, ' * found.is_private}{kept}"]
    lines += [f"  {grant.name}{' (group)' * grant.is_group}: {grant.access.value}" for grant in grants]
    return CommandAnswer({**found.view(), "grants": [grant.view() for grant in grants]}, lines)


@space_command.command("grant")
@click.argument("space")
@click.argument("to", metavar="NAME")
@click.argument("access", type=click.Choice(_ACCESSES), default="read")
@on_team
def grant(team: Team, by: Speaker, space: str, to: str, access: str) -> CommandAnswer:
    """Let a principal, a group or `everyone` read, write or administer a space."""
    given = team.grant(by, space, to, Access(access))
    return CommandAnswer(given.view(), [f"{given.name} may {given.access.value} in {space}."])


@space_command.command("revoke")
@click.argument("space")
@click.argument("of", metavar="NAME")
@on_team
def revoke(team: Team, by: Speaker, space: str, of: str) -> CommandAnswer:
    """Take back what was granted."""
    team.revoke(by, space, of)
    return CommandAnswer({"space": space, "revoked": of}, [f"{of} may do nothing in {space} any more."])


@space_command.command("keep")
@click.argument("space")
@click.argument("days", type=_DAYS, required=False)
@on_team
def keep(team: Team, by: Speaker, space: str, days: int | None) -> CommandAnswer:
    """Keep what is in a space for so many DAYS; without them, for good."""
    kept = team.keep_space(by, space, days)
    told = f"for {counted(days, 'day')}" if days else "for good"
    return CommandAnswer(kept.view(), [f"What is in {kept.name} is kept {told}."])


@space_command.command("delete")
@click.argument("space")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_json
def delete_space(session: CommandSession, space: str, yes: bool, as_json: bool) -> None:
    """Delete a shared space with everything in it, for good."""
    with session.team() as (team, by):
        found = by.space(space)
        if not yes:
            session.confirm("Nothing was deleted", to=f"delete {found.name} with everything in it")
        gone = team.delete_space(by, space)
    session.tell(as_json, {"deleted": gone.name}, f"Deleted {gone.name}. Backups made earlier still hold it.")


@click.command()
@click.argument("uid", metavar="ID")
@click.option("--to", "to", required=True, metavar="SPACE", help="The space that gets a copy.")
@on_team
def share(team: Team, by: Speaker, uid: str, to: str) -> CommandAnswer:
    """Copy a message, an exchange, a conversation, a memory or an experience into a space."""
    copy = team.share(by, uid, to)
    return CommandAnswer({"id": copy, "space": to}, [f"Shared in {to}: {copy}. Take it back: harken unshare {uid}"])


@click.command()
@click.argument("uid", metavar="ID")
@click.option("--from", "space", metavar="SPACE", help="Only from there; left out, everywhere.")
@on_team
def unshare(team: Team, by: Speaker, uid: str, space: str | None) -> CommandAnswer:
    """Forget the copies of something that was shared."""
    gone = team.unshare(by, uid, space)
    return CommandAnswer({"forgotten": gone}, [f"Forgot {counted(len(gone), 'record')} that had been shared."])


@click.command()
@click.argument("name")
@click.option("--export", "target", type=click.Path(path_type=Path), help="Write everything of theirs here before.")
@click.option("--no-export", is_flag=True, help="Keep nothing of it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_json
def erase(session: CommandSession, name: str, target: Path | None, no_export: bool, yes: bool, as_json: bool) -> None:
    """Erase a person for good: their keys, their words in every space, and their name."""
    if (target is None) is not no_export:
        raise UsageError("Say where everything of theirs is written before, --export FILE, or --no-export.")
    view: dict[str, Any] = {}
    with session.team() as (team, by):
        if not yes:
            session.confirm("Nothing was erased", to=f"erase {name} for good")
        if target is not None:
            view["export"] = team.export_principal(by, name, target).view()
            session.note(f"Wrote everything of {name} to {target}")
        erased = team.erase_principal(by, name)
    told = f"{counted(erased.spaces, 'private space')} and {counted(erased.records, 'record')} in shared ones"
    line = f"Erased {erased.principal}: {told}. Backups made earlier still hold them."
    session.tell(as_json, {**view, **erased.view()}, line)
