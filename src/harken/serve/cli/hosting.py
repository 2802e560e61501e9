"""`harken team` and `harken serve --team`: a team's server, from nothing to the first answer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from harken.errors import UsageError
from harken.providers.priority import lower_priority
from harken.serve.cli.commands import command_of
from harken.serve.cli.session import CommandSession, with_json
from harken.serve.team.people import WHOAMI

if TYPE_CHECKING:
    from harken.engine.team import Team

ROLE = "harken_app"
_WAIT_SECONDS = 300.0


@click.group()
def team() -> None:
    """A memory for several, on a server: begin one."""


@click.command(help=WHOAMI.summary)
@with_json
def whoami(session: CommandSession, as_json: bool) -> None:
    """As the operation; who has an embedded store is its one owner."""
    if session.settings().store is None:
        session.tell(as_json, {"principal": None}, "You: this store has one owner, and needs no key.")
    else:
        click.get_current_context().invoke(command_of(WHOAMI), as_json=as_json)


@team.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--role", default=ROLE, show_default=True, help="The login that the server uses; made if it is new.")
@with_json
def init(session: CommandSession, names: tuple[str, ...], role: str, as_json: bool) -> None:
    """Make tables, the server's login, and members, each with a key shown this once; the very first manages the team.

    The store is named by a login that owns its database and may make roles. What is there already stays as it is: say
    it again with more names.
    """
    from harken.config.settings import environment
    from harken.engine.founding import found_team

    done = found_team(session.home, session.overrides, environment(), names, role)
    lines = [f"The store has schema {done.schema}; the team is called {done.team}."]
    lines += [f"{name}: {key}" for name, key in done.keys.items()]
    nobody = "Nobody new is in it. Name them: harken team init ann bob"
    lines.append("Keys are not shown again. The team's very first member manages it." if done.keys else nobody)
    if done.settings_file:
        lines.append(f"Store and team stand in {done.settings_file}. Serve it: harken serve --team")
    else:
        why = "not shown again, and no setting of this home, which has settings or memories"
        said = why if done.is_role_new else "with the password that it has"
        lines.append(f"The server's login, {said}: HARKEN_STORE={done.store} HARKEN_TENANT={done.team}")
    session.tell(as_json, done.view(), *lines)


def serve_team(session: CommandSession, given: Mapping[str, Any], wait_seconds: float, is_unwalled: bool) -> None:
    """Serve the team of the settings until it is told to end.

    Args:
        session: the home and the store.
        given: what stands on the command line above `serve.…` of the settings.
        wait_seconds: how long to wait for a store that does not answer, or is being upgraded.
        is_unwalled: go on by a login that the database does not hold to one space at a time.
    """
    from harken.serve.http.hosting import TeamHost
    from harken.serve.http.team import TeamServer, make_team_app
    from harken.serve.team.oidc import oidc_login
    from harken.serve.team.pages import Login

    overrides = {**session.overrides, **{f"serve.{name}": value for name, value in given.items()}}
    settings = CommandSession(session.home, overrides).settings()
    with _team_opened(session, overrides, wait_seconds, is_unwalled) as opened:

        def logins(server: TeamServer) -> list[Login]:
            return [oidc_login(settings.oidc, opened, server.sessions)] if settings.oidc.issuer else []

        app = make_team_app(opened, settings, logins)
        host = TeamHost(app, settings.serve, lambda url: session.note(f"Serving {opened.name} on {url}"))
        host.check()
        host.run()


def work_for_team(session: CommandSession, is_unwalled: bool) -> None:
    """Do the background work of every space of the team until it is told to end."""
    # Whoever answers somebody goes first: a small machine has the server and the database as well.
    lower_priority()
    stopping = threading.Event()
    with _team_opened(session, session.overrides, _WAIT_SECONDS, is_unwalled) as opened:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: stopping.set())
        opened.start_workers()
        session.note(f"Working for {opened.name}; stop with Ctrl-C.")
        while not stopping.wait(1.0):
            pass


@contextmanager
def _team_opened(
    session: CommandSession, overrides: Mapping[str, Any], wait_seconds: float, is_unwalled: bool
) -> Iterator[Team]:
    from harken.engine.team import Team
    from harken.serve.http.hosting import check_walls, open_when_ready

    if CommandSession(session.home, overrides).settings().store is None:
        raise UsageError(
            "A team needs a server. Begin one: harken --store postgresql://OWNER@HOST/DATABASE team init ann"
        )
    with open_when_ready(lambda: Team(session.home, settings=overrides), wait_seconds, session.note) as opened:
        if not is_unwalled:
            check_walls(opened)
        yield opened
