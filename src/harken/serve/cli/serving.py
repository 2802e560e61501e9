"""`harken serve` and `harken hook`: the daemon, and what coding agents start at their events."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken import __version__
from harken.errors import HarkenError, MissingExtraError, UsageError, sentence_of
from harken.serve.cli.session import CommandSession, log_to_stderr, with_json
from harken.serve.daemon.lock import DaemonRunsError, Holder, held, holder
from harken.serve.daemon.paths import DaemonPaths, home_of
from harken.serve.daemon.spool import is_waiting
from harken.serve.daemon.starting import answered
from harken.serve.daemon.wire import OK, OTHER_SETTINGS, StrangerError, ping
from harken.serve.http.tcp import HOST, PORT, Tcp, own_token
from harken.serve.mcp.listed import DEFAULT_TOOLS, tools_of

if TYPE_CHECKING:
    from harken.serve.mcp.daemon_client import DaemonClient

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_SHORT_SECONDS, _END_SECONDS = 2.0, 30.0
# One of another version is making way.
_TURN_SECONDS = 30.0


@click.command()
@click.option("--status", "what", flag_value="status", help="Say whether one runs for this home.")
@click.option("--stop", "what", flag_value="stop", help="Stop the one that runs for this home.")
@click.option("--quiet", is_flag=True, help="Say nothing; wait for one of another version to make way.")
@click.option("--tcp", "is_remote", is_flag=True, help="Listen over TCP as well, for clients that show the token.")
@click.option("--host", help=f"Where; another address than loop-back needs TLS.  [default: {HOST}]")
@click.option("--port", type=click.IntRange(0, 65535), help=f"0 takes any.  [default: {PORT}]")
@click.option("--tls-cert", "certificate", type=_FILE, help="A certificate of TLS, in PEM.")
@click.option("--tls-key", "key", type=_FILE, help="Its key.")
@click.option("--team", "is_team", is_flag=True, help="Serve a team: a store on a server, and keys (harken team init).")
@click.option(
    "--wait", "wait_seconds", type=float, default=300.0, show_default=True, help="With --team: for the store."
)
@click.option("--unwalled", is_flag=True, help="With --team: also by a login that row-level security does not hold.")
@click.option("--claimed", type=int, hidden=True, help="A descriptor that holds the right to start, until it answers.")
@with_json
def serve(
    session: CommandSession,
    what: str,
    quiet: bool,
    is_remote: bool,
    is_team: bool,
    wait_seconds: float,
    unwalled: bool,
    claimed: int,
    as_json: bool,
    **address: Any,
) -> None:
    """Keep the model loaded and the workers running, for hooks and other clients of this home.

    There is one daemon for each home, started by whoever needs it first. It listens on a socket that this user alone
    can reach, and leaves when nobody has asked for a while (`serve.idle_seconds`).
    """
    given = {name: value for name, value in address.items() if value is not None}
    if is_team:
        from harken.serve.cli.hosting import serve_team

        if is_remote or what:
            raise UsageError("--team goes without --tcp, --status and --stop: it is a server by itself.")
        named = {"certificate": "tls_cert", "key": "tls_key"}
        serve_team(session, {named.get(name, name): each for name, each in given.items()}, wait_seconds, unwalled)
        return
    place = DaemonPaths(str(session.settings().home))
    if what == "status":
        _show(session, place, as_json)
    elif what == "stop":
        _stop(session, place)
    else:
        tcp = Tcp(**given)
        if is_remote:
            tcp.check()
        elif tcp != Tcp():
            raise UsageError("--host, --port, --tls-cert and --tls-key go with --tcp.")
        _run(session, place, quiet, tcp if is_remote else None, claimed)


def _run(session: CommandSession, place: DaemonPaths, quiet: bool, tcp: Tcp | None, claimed: int | None) -> None:
    from harken.serve.daemon.run import Daemon, Remote
    from harken.serve.http.routes import make_app

    if quiet:
        log_to_stderr("CRITICAL")
    deadline = time.monotonic() + (_TURN_SECONDS if quiet else 0)
    while True:
        try:
            with held(place), session.engine() as harken:
                remote = Remote(tcp, tcp.listen(), own_token(place)) if tcp else None
                said = [f"Serving {place.home} on {place.socket}; stop with Ctrl-C."]
                if remote:
                    where = remote.tcp.url(remote.listening)
                    said.append(f"Also on {where}, and MCP at {where}/mcp; the token is in {place.token}")
                daemon = Daemon(harken, place, partial(_ready, session, [] if quiet else said, claimed), remote)
                daemon.run(make_app(harken, daemon))
            # A hook that came between the last look and here found the lock held, and started none.
            if not (daemon.was_outdated or (daemon.was_idle and is_waiting(Path(place.reports)))):
                return
            claimed = None
        except DaemonRunsError:
            other = holder(place)
            # One of this version is there, or will be in a moment; only another one makes way.
            is_another = other is not None and other.version == __version__
            if is_another and claimed is not None:
                # Or it would count as failed, and when the other has left no hook would start one for a while.
                answered(claimed)
            if is_another or time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def _ready(session: CommandSession, lines: Sequence[str], claimed: int | None) -> None:
    if claimed is not None:
        answered(claimed)
    for line in lines:
        session.note(line)


def _show(session: CommandSession, place: DaemonPaths, as_json: bool) -> None:
    from harken.config.settings import environment

    found = holder(place)
    try:
        status = ping(place.socket, environment(), _SHORT_SECONDS)
    except StrangerError as error:
        # Another user listens where it would, or could.
        raise HarkenError(str(error)) from error
    facts: dict[str, Any] = {"running": found is not None, "home": place.home, "socket": place.socket}
    line = "No daemon runs for this home; the first client starts one."
    if found is not None:
        facts |= {"pid": found.pid, "version": found.version, "answers": status == OK}
        other = "was started with other settings (HARKEN_*), and answers nothing asked with these,"
        how = {OK: "answers", OTHER_SETTINGS: other}.get(status, "does not answer")
        line = f"Process {found.pid} (Harken {found.version}) {how} on {place.socket}."
    session.tell(as_json, facts, line)


def _stop(session: CommandSession, place: DaemonPaths) -> None:
    found = holder(place)
    if found is None:
        session.say("No daemon runs for this home.")
        return
    _signal(found, signal.SIGTERM)
    # One that was stopped (SIGSTOP) hears the other only when it goes on.
    _signal(found, signal.SIGCONT)
    deadline = time.monotonic() + _END_SECONDS
    # Hooks may have started another by then.
    while (now := holder(place)) is not None and now.pid == found.pid:
        if time.monotonic() > deadline:
            raise HarkenError(f"Process {found.pid} does not end. End it with: kill -9 {found.pid}; nothing is lost.")
        time.sleep(0.05)
    session.say(f"Stopped process {found.pid}.")


def _signal(found: Holder, number: signal.Signals) -> None:
    try:
        os.kill(found.pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise HarkenError(f"Process {found.pid} belongs to another user.") from error


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="EVENT [--agent NAME] [--home PATH]")
def hook(words: tuple[str, ...]) -> None:
    """Answer an event of a coding agent: its JSON on stdin, ours on stdout. Agents start this, not people."""
    from harken.serve.hooks.client import main

    main(words)


@click.command()
@click.option("--no-browser", is_flag=True, help="Print the link alone; it opens the pages once, within a minute.")
@click.pass_obj
def view(session: CommandSession, no_browser: bool) -> None:
    """Look at what is remembered, in a browser: conversations, search, what came back and why, memories, upkeep.

    The pages come from this machine and are for it alone. Ends once they were opened, or after a minute.
    """
    from harken.serve.viewer.opening import show_pages

    if session.overrides:
        raise UsageError("The pages are those of a home; --store does not go with them. Set store in harken.toml")
    show_pages(session, DaemonPaths(str(session.settings().home)), with_browser=not no_browser)


@click.command()
@click.option("--tools", default=DEFAULT_TOOLS, metavar="NAME,…|all", show_default=True, help="Which tools to offer.")
@click.pass_obj
def mcp(session: CommandSession, tools: str) -> None:
    """Serve MCP on stdin and stdout: the command of an MCP server in any agent's configuration.

    Each tool costs tokens in every conversation; `all` offers experiences, values, indexing and the rest as well.
    """
    from importlib.util import find_spec

    from harken.serve.mcp.greeting import Later, greet, refuse

    offered = tools_of(tools)
    if find_spec("mcp") is None:
        raise MissingExtraError("MCP", "mcp")
    # A reader that hangs in a thread hears no exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serving = Later(partial(_make_mcp, session))
    # `harken.config.settings` takes longer to import than an agent waits.
    env = os.environ if session.home is None else {"HARKEN_HOME": str(session.home)}  # noqa: TID251
    greeting = greet(offered, None if session.overrides else DaemonPaths(home_of(env)).socket, serving)
    if greeting.waiting:
        try:
            serve_stdio, client = serving.get()
        except HarkenError as error:
            refuse(greeting, sentence_of(error))
            raise
        serve_stdio(client, offered, greeting)
    serving.wait()


def _make_mcp(session: CommandSession) -> tuple[Callable[..., None], DaemonClient]:
    """The client of the daemon, which is started where there is none, and what serves; the SDK is imported here."""
    from harken.config.settings import environment
    from harken.serve.mcp.daemon_client import DaemonClient

    # A daemon knows the home and the environment; what stands on this command line beside them it does not.
    place = None if session.overrides else DaemonPaths(str(session.settings().home))
    client = DaemonClient(place, environment(), Path.cwd(), session.engine)
    # Started here, so that it is there when the first question comes.
    try:
        client.is_served()
    except HarkenError as error:
        # Each call answers so, too.
        session.note(f"harken: {error}")
    from harken.serve.mcp.stdio import serve_stdio

    return serve_stdio, client
