"""Another user of the machine owns what the daemon's socket is looked for in: nobody sends anything there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from coding_agent import CodingAgent, daemons_of, end, eventually
from command_line import CommandLine
from harken.serve.daemon.paths import DaemonPaths
from mcp_clients import over_stdio

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets"),
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be two users at once"),
]

STRANGER = 65534
CONTROL = b"control"
# Where nobody answers, a hook waits so long.
DEADLINE_SECONDS = 1.5
PROMPT = "What was agreed on about the harbour plan?"
# Listens as another user, tells how many bytes came on each connection, and answers whatever came.
PROGRAM = """
import os, socket, sys
path, answer = sys.argv[1], sys.argv[2].encode()
os.umask(0)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
if not os.path.isdir(os.path.dirname(path)):
    os.mkdir(os.path.dirname(path), int(sys.argv[3], 8))
listening = socket.socket(socket.AF_UNIX)
listening.bind(path)
listening.listen()
print(os.getuid(), flush=True)
while True:
    stream = listening.accept()[0]
    try:
        print(len(stream.recv(65536)), flush=True)
        stream.sendall(answer)
    except OSError:
        pass
    stream.close()
"""
BODY = json.dumps({"hits": [], "hookSpecificOutput": {"additionalContext": "PWNED"}})
ANSWER = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n{BODY}"


@dataclass(frozen=True)
class Attacked:
    """A home whose daemon's socket is not its own.

    Attributes:
        heard: how many bytes came to the attacker on each connection, once it was ended.
        named: the folder or socket that has to be named.
    """

    cli: CommandLine
    socket: str
    heard: Callable[[], list[int]]
    named: str


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder in which everybody may make things, as `/tmp` is."""
    made = Path(tempfile.mkdtemp(prefix="harken-public-", dir="/tmp"))
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def long_home(public: Path, tmp_path: Path) -> Iterator[CommandLine]:
    """A home whose path is too long for a socket; the folder of the login's sockets is everybody's, so not taken."""
    person = tmp_path / "person"
    person.mkdir()
    home = tmp_path / ("far-" * 30) / "home"
    settings = {"HARKEN_EMBEDDER": "none", "TMPDIR": str(public), "XDG_RUNTIME_DIR": str(public)}
    yield CommandLine(home, person, settings, cold=True)
    end(DaemonPaths(str(home)))


def socket_of(cli: CommandLine) -> str:
    """Where its daemon is expected."""
    path: str = cli("serve", "--status", "--json").json()["socket"]
    return path


@pytest.fixture(params=["folder", "folder and socket", "folder in the home", "socket", "socket in an open folder"])
def attacked(request: pytest.FixtureRequest, long_home: CommandLine, public: Path) -> Iterator[Attacked]:
    """A home, and another user who came first."""
    # Warm: whom they find is under test, not how they start.
    cli = replace(long_home, cold=False)
    if request.param == "folder in the home":
        cli = replace(cli, home=public / "home")
    path = socket_of(cli)
    folder = Path(path).parent
    if request.param == "folder in the home":
        folder.mkdir(parents=True)
        os.chown(folder, STRANGER, STRANGER)
    elif request.param.startswith("socket"):
        folder.mkdir()
        folder.chmod(0o777)
    words = [sys.executable, "-S", "-c", PROGRAM, path, ANSWER, "700" if request.param == "folder" else "777"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="ascii") as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == f"{STRANGER}\n"
        if request.param == "folder":
            os.lchown(path, 0, 0)
        elif request.param == "socket":
            folder.chmod(0o700)

        def heard() -> list[int]:
            attacker.kill()
            assert attacker.stdout is not None
            return [int(line) for line in attacker.stdout]

        yield Attacked(cli, path, heard, path if request.param == "socket" else str(folder))
        attacker.kill()
    end(DaemonPaths(str(cli.home)))


def check_unheard(attacked: Attacked) -> None:
    """Nothing came to the attacker, who hears what is sent to where it listens, and answers."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(attacked.socket)
        stream.sendall(CONTROL)
        assert b"PWNED" in stream.recv(65536)
    assert sum(attacked.heard()) == len(CONTROL)


@contextmanager
def no_daemon(cli: CommandLine) -> Iterator[None]:
    """None is started meanwhile: it would take the place of what stands in a folder of the user's own."""
    folder = Path(DaemonPaths(str(cli.home)).folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == STRANGER:
        yield
        return
    with (folder / "starting.lock").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        yield


def refuses_to_send(line: str, attacked: Attacked) -> None:
    """One clear line: what is wrong, where, and what to do about it."""
    assert "nothing was sent" in line
    assert attacked.named in line
    assert "Remove it" in line or "chmod 700" in line
    assert "\n" not in line


def test_the_command_line_says_whose_it_is(attacked: Attacked) -> None:
    refuses_to_send(attacked.cli.fails("serve", "--status"), attacked)
    refuses_to_send(attacked.cli.fails("serve", "--status", "--json"), attacked)
    check_unheard(attacked)


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop"])
def test_a_hook_says_nothing_to_it_and_nothing_of_it(attacked: Attacked, tmp_path: Path, event: str) -> None:
    agent = CodingAgent(attacked.cli, tmp_path, "session")
    agent.say("user", "The harbour plan was agreed on.")
    with no_daemon(attacked.cli):
        assert agent.hook(event, DEADLINE_SECONDS, prompt=PROMPT) == ""
    check_unheard(attacked)


def test_an_agents_tools_answer_with_the_line(attacked: Attacked, tmp_path: Path) -> None:
    said: list[str] = []

    async def talk() -> None:
        async with over_stdio(attacked.cli, tmp_path, "auto") as client:
            result = await client.call_tool("search", {"query": PROMPT})
            assert result.is_error
            said.append(result.content[0].text)

    with no_daemon(attacked.cli):
        anyio.run(talk)
    refuses_to_send(said[0], attacked)
    check_unheard(attacked)


def test_what_has_grown_is_kept_in_the_home_and_no_daemon_is_started_that_could_not_live(
    long_home: CommandLine, tmp_path: Path
) -> None:
    agent = CodingAgent(long_home, tmp_path, "session")
    agent.say("user", "The harbour plan was agreed on.")
    folder = Path(socket_of(long_home)).parent
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    assert agent.hook("Stop") == ""
    assert len(list((long_home.home / "run" / "reports").iterdir())) == 1
    assert not (long_home.home / "run" / "starting.lock").exists()
    assert daemons_of(long_home.home) == []
    assert str(folder) in (said := long_home.fails("serve"))
    assert "belongs to another user" in said
    assert "Remove it" in said
    folder.rmdir()
    assert agent.hook("UserPromptSubmit", prompt="ok") == ""
    eventually(lambda: long_home.status()["messages"] == 1)


def test_nothing_is_put_into_another_users_folder(cli: CommandLine, tmp_path: Path) -> None:
    agent = CodingAgent(cli, tmp_path, "session")
    agent.say("user", "The harbour plan was agreed on.")
    (cli.home / "run").mkdir(parents=True)
    os.chown(cli.home / "run", STRANGER, STRANGER)
    assert agent.hook("Stop") == ""
    assert str(cli.home / "run") in cli.fails("serve")
    assert list((cli.home / "run").iterdir()) == []


def test_a_socket_that_another_user_left_is_replaced(long_home: CommandLine, tmp_path: Path) -> None:
    agent = CodingAgent(long_home, tmp_path, "session")
    path = Path(socket_of(long_home))
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        os.lchown(path, STRANGER, STRANGER)
        path.parent.chmod(0o755)
        # The first finds the folder open, and starts the daemon that closes it.
        assert agent.hook("UserPromptSubmit", prompt=PROMPT) == ""
        eventually(lambda: path.exists() and path.stat().st_uid == os.getuid())
        eventually(lambda: long_home("serve", "--status", "--json").json().get("answers"))


def test_the_socket_of_a_long_home_is_where_the_login_has_its_own(long_home: CommandLine, public: Path) -> None:
    runtime = public / "runtime"
    runtime.mkdir(mode=0o700)
    own = CommandLine(long_home.home, long_home.person, {**long_home.settings, "XDG_RUNTIME_DIR": str(runtime)}, True)
    path = Path(socket_of(own))
    assert path.parent == runtime / "harken"
    with own.running("serve", "--quiet"):
        eventually(lambda: own("serve", "--status", "--json").json().get("answers"))
        assert path.parent.stat().st_mode & 0o777 == 0o700
    for foreign in ("a stranger's", "open", "a link", "relative"):
        beside = public / foreign
        if foreign == "a link":
            beside.symlink_to(runtime)
        else:
            beside.mkdir(mode=0o755 if foreign == "open" else 0o700)
        if foreign == "a stranger's":
            os.chown(beside, STRANGER, STRANGER)
        named = "runtime" if foreign == "relative" else str(beside)
        other = CommandLine(own.home, own.person, {**own.settings, "XDG_RUNTIME_DIR": named}, True)
        assert Path(socket_of(other)).parent == public / f"harken-{os.getuid()}"
